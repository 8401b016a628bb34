"""GraphVAE (Simonovsky & Komodakis 2018): a whole graph in one code, decoded at once."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from megae.models.gated_pooling import GatedPooling

MOST_LOG_DEVIATION = 10.0


class EdgeConditionedConvolution(nn.Module):
    r"""Edge-conditioned convolution whose filters are affine in the weight of an edge (Simonovsky & Komodakis 2017).

    .. math::
        y_i = W x_i + b + \frac{1}{|N(i)|} \sum_{j \in N(i)} \Theta(w_{ij}) x_j, \qquad
        \Theta(w) = \Theta_0 + w\, \Theta_1

    One linear layer makes the filters, as in GraphVAE; being affine, it can be applied after the sum, so that no filter
    is built per edge.

    Shapes
    ------
    x (B, n, inputs), weights (B, n, n) with 0 for no edge -> (B, n, outputs)
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.constant = nn.Linear(inputs, outputs, bias=False)
        self.slope = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, A: Tensor) -> Tensor:
        joined = (A > 0).to(x.dtype)
        total = torch.bmm(joined, self.constant(x)) + torch.bmm(A, self.slope(x))
        return self.own(x) + total / joined.sum(dim=2, keepdim=True).clamp_min(1)


class GraphVAE(nn.Module):
    r"""Encoder to one Gaussian per graph, decoder to a probabilistic graph on k nodes.

    Two edge-conditioned convolutions (32, 64), gated pooling (128) and a linear layer give
    :math:`q(z|G) = N(\mu, \sigma^2)`; three layers (128, 256, 512) and two parallel linear ones decode z to
    :math:`\tilde A \in [0,1]^{k \times k}`, probabilities of nodes on the diagonal and of edges off it, and to
    :math:`\tilde F \in R^{k \times E}`, the means of Gaussian attributes.

    Parameters
    ----------
    features : int
        Attributes E of a node.
    k : int
        Nodes of a decoded graph.
    latent : int
    """

    upper: Tensor

    def __init__(self, features: int, k: int, *, latent: int = 40) -> None:
        super().__init__()
        self.k, self.features = k, features
        self.convolutions = nn.ModuleList(
            [EdgeConditionedConvolution(i, o) for i, o in pairwise((2 * features, 32, 64))]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(64)])
        self.pooling = GatedPooling(64 + 2 * features, 128)
        self.code = nn.Linear(128, 2 * latent)
        layers = ((nn.Linear(i, o), nn.LayerNorm(o), nn.ReLU()) for i, o in pairwise((latent, 128, 256, 512)))
        self.body = nn.Sequential(*(module for layer in layers for module in layer))
        self.edges = nn.Linear(512, k * (k + 1) // 2)
        self.attributes = nn.Linear(512, k * features)
        self.register_buffer("upper", torch.triu_indices(k, k), persistent=False)

    def encode(self, x: Tensor, visible: Tensor, A: Tensor, filled: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log deviation (B, latent) of graphs with attributes (B, n, E), of which some are visible."""
        shown = visible.to(x.dtype)
        x = torch.cat([x * shown, shown], dim=2)
        h = x
        for convolve, norm in zip(self.convolutions, self.norms, strict=True):
            h = F.relu(norm(convolve(h, A)))
        mean, log_deviation = self.code(self.pooling(torch.cat([h, x], dim=2), filled)).chunk(2, dim=1)
        return mean, log_deviation.clamp(max=MOST_LOG_DEVIATION)

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, k, k), symmetric, and attributes (B, k, E)."""
        h = self.body(z)
        flat = self.edges(h)
        logits = flat.new_empty((len(z), self.k, self.k))
        logits[:, self.upper[0], self.upper[1]] = flat
        logits[:, self.upper[1], self.upper[0]] = flat
        return logits, self.attributes(h).view(-1, self.k, self.features)


class NodeGaussian(nn.Module):
    r"""A common covariance of the attributes of a node around their decoded mean, to fill holes by.

    .. math::
        x_i \mid z \sim N(\tilde f_i, W W^\top + \mathrm{diag}(\psi)), \qquad
        E[x_i \mid x_{iO}, z] = \tilde f_i
        + W (I + W_O^\top \psi_O^{-1} W_O)^{-1} W_O^\top \psi_O^{-1} (x_{iO} - \tilde f_{iO})

    with O the visible attributes of node i. Without factors the attributes are independent given z, as in the paper,
    and nothing is learnt from O but the code and the matching.

    Parameters
    ----------
    features, factors : int
        E, and the columns of W.
    """

    eye: Tensor

    def __init__(self, features: int, factors: int) -> None:
        super().__init__()
        self.loadings = nn.Parameter(0.1 * torch.randn(features, factors))
        self.log_noise = nn.Parameter(torch.zeros(features))
        self.register_buffer("eye", torch.eye(factors), persistent=False)

    def forward(self, mean: Tensor, x: Tensor, visible: Tensor) -> Tensor:
        """Decoded means, values and what is visible of them, all (B, n, E) -> conditional means (B, n, E)."""
        W = self.loadings
        if W.shape[1] == 0:
            return mean
        precision = visible.to(x.dtype) * (-self.log_noise).exp()
        products = (W.unsqueeze(2) * W.unsqueeze(1)).flatten(1)  # (E, r^2)
        system = (precision @ products).unflatten(-1, self.eye.shape) + self.eye
        right = (precision * (x - mean)) @ W
        factors = torch.cholesky_solve(right.unsqueeze(-1), torch.linalg.cholesky(system)).squeeze(-1)
        return mean + factors @ W.T


def in_decoded_order(A: Tensor, filled: Tensor, match: Tensor, k: int) -> Tensor:
    """X A X^T of the paper, with the nodes themselves on the diagonal: (B, k, k) of zeros and ones.

    Parameters
    ----------
    A : Tensor of shape (B, n, n)
        Edge weights.
    filled : bool Tensor of shape (B, n)
    match : int64 Tensor of shape (B, n)
        Decoded node of each input node.
    """
    graph = torch.arange(len(A), device=A.device).view(-1, 1, 1)
    target = A.new_zeros((len(A), k, k))
    there = torch.diag_embed(filled.to(A.dtype))
    target[graph, match.unsqueeze(2), match.unsqueeze(1)] = (A > 0).to(A.dtype) + there
    return target


def structure_loss(logits: Tensor, target: Tensor) -> Tensor:
    """-log p(A'|z): cross-entropy, the mean over nodes plus the mean over pairs of nodes."""
    k = logits.shape[1]
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    nodes = entropy.diagonal(dim1=1, dim2=2)
    pairs = (entropy.sum() - nodes.sum()) / (len(logits) * max(1, k * (k - 1)))
    return nodes.mean() + pairs
