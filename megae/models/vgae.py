"""The variational graph autoencoder (Kipf & Welling 2016), with a decoder for node attributes beside that for edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

MOST_LOG_DEVIATION = 10.0


class VariationalGraphAutoencoder(nn.Module):
    r"""Latent Gaussians per node, edges by inner product, attributes by a perceptron.

    .. math::
        H &= \mathrm{ReLU}(\hat A X W_0), \quad \hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2} \\
        \mu &= \hat A H W_\mu, \qquad \log\sigma = \hat A H W_\sigma \\
        z_i &= \mu_i + \sigma_i \odot \epsilon_i, \qquad \epsilon_i \sim N(0, I) \\
        p(A_{ij} = 1 \mid Z) &= \mathrm{sigmoid}(z_i^\top z_j), \qquad
        \hat x_i = W_2\, \mathrm{ReLU}(W_1 z_i + b_1) + b_2

    Parameters
    ----------
    inputs, outputs : int
        Numbers per node that go in, and attributes that come out.
    hidden, latent, decoder_hidden : int
    dropout : float
        On the inputs of both graph convolutions.

    Shapes
    ------
    input (N, inputs) and edges (2, M) with weights (M,) from :func:`normalised_edges`;
    mu, log sigma and z (N, latent); attributes (N, outputs)
    """

    def __init__(
        self, inputs: int, outputs: int, *, hidden: int, latent: int, decoder_hidden: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.convolve = GCNConv(inputs, hidden, normalize=False)
        self.to_mean = GCNConv(hidden, latent, normalize=False)
        self.to_log_deviation = GCNConv(hidden, latent, normalize=False)
        self.dropout = nn.Dropout(dropout)
        self.attributes = nn.Sequential(
            nn.Linear(latent, decoder_hidden), nn.ReLU(), nn.Linear(decoder_hidden, outputs)
        )
        for parameter in self.attributes[-1].parameters():
            nn.init.zeros_(parameter)

    def encode(self, x: Tensor, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log deviation of every node's latent Gaussian."""
        h = self.dropout(F.relu(self.convolve(self.dropout(x), edges, weights)))
        log_deviation = self.to_log_deviation(h, edges, weights).clamp(max=MOST_LOG_DEVIATION)
        return self.to_mean(h, edges, weights), log_deviation

    def forward(self, x: Tensor, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Attributes, z, mean and log deviation; z is the mean outside training."""
        mean, log_deviation = self.encode(x, edges, weights)
        z = mean + log_deviation.exp() * torch.randn_like(mean) if self.training else mean
        return self.attributes(z), z, mean, log_deviation


def normalised_edges(edge_index: Tensor, weight: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Edges with a loop of weight 1 at every node, and the entries of D^-1/2 (A + I) D^-1/2 on them."""
    edges, weights = gcn_norm(edge_index, weight, n)
    return edges, weights


def kl_to_standard_normal(mean: Tensor, log_deviation: Tensor) -> Tensor:
    r"""KL(N(mu, sigma^2) || N(0, I)) of every row: :math:`\tfrac12 \sum_l \mu_l^2 + \sigma_l^2 - 1 - 2 \log\sigma_l`.

    Parameters
    ----------
    mean, log_deviation : Tensor of shape (N, L)

    Returns
    -------
    Tensor of shape (N,)
    """
    return 0.5 * (mean.square() + (2 * log_deviation).exp() - 1 - 2 * log_deviation).sum(dim=1)


def edge_loss(z: Tensor, pairs: Tensor, others: Tensor) -> Tensor:
    """Mean cross-entropy of the inner-product decoder on edges (2, P) and on pairs without one (2, Q)."""
    edge, other = ((z[i] * z[j]).sum(dim=1) for i, j in (pairs, others))
    loss = z.new_zeros(())
    if edge.numel():
        loss = loss + F.softplus(-edge).mean()
    if other.numel():
        loss = loss + F.softplus(other).mean()
    return loss


class PairsWithoutEdge:
    """Draws pairs of nodes of one graph that no edge joins.

    Parameters
    ----------
    edge_index : int64 Tensor of shape (2, M), both directions
    ptr : int64 Tensor of shape (G + 1,)
        First node of every graph, and the number of nodes.
    """

    def __init__(self, edge_index: Tensor, ptr: Tensor) -> None:
        self.n = int(ptr[-1])
        sizes = ptr.diff()
        graph = torch.repeat_interleave(torch.arange(sizes.numel(), device=ptr.device), sizes)
        self.first, self.size = ptr[:-1][graph], sizes[graph]
        self.sources = edge_index[0]
        self.codes = (edge_index[0] * self.n + edge_index[1]).sort().values

    def draw(self, generator: torch.Generator) -> Tensor:
        """(2, Q): for each edge (i, j) one pair (i, k), k any node of the graph, without loops and edges.

        Edges come in both directions, so each end of an edge is i once.
        """
        i = self.sources
        share = torch.rand(i.shape, generator=generator, device=i.device, dtype=torch.float64)
        k = self.first[i] + (share * self.size[i]).long().clamp(max=self.size[i] - 1)
        code = i * self.n + k
        at = torch.searchsorted(self.codes, code).clamp(max=max(0, self.codes.numel() - 1))
        kept = (i != k) & (self.codes[at] != code) if self.codes.numel() else i != k
        return torch.stack([i[kept], k[kept]])
