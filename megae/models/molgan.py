"""MolGAN (De Cao & Kipf 2018): a generator of whole graphs and a critic that reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from megae.models.gated_pooling import GatedPooling

GENERATOR_WIDTHS = (128, 256, 512)
CONVOLUTION_WIDTHS = (128, 64)
POOLED_WIDTH = 128
CRITIC_WIDTHS = (128, 64)


class RelationalConvolutions(nn.Module):
    r"""Relational graph convolutions with a gated sum over nodes at their end (Schlichtkrull et al. 2018).

    .. math::
        h_i^{(l+1)} = \tanh\Bigl(f_s^{(l)}([h_i^{(l)}, x_i])
        + \sum_j \frac{A_{ij}}{|N_i|} f^{(l)}([h_j^{(l)}, x_j])\Bigr), \qquad
        h_G = \mathrm{GatedPooling}([h_i^{(L)}, x_i])

    with one relation, being joined by an edge. :meth:`each` gives the :math:`[h_i^{(L)}, x_i]`, ``node_outputs`` wide.

    Shapes
    ------
    x (B, n, inputs), A (B, n, n), places that hold a node (B, n) -> (B, outputs)
    """

    def __init__(self, inputs: int, widths: Sequence[int] = CONVOLUTION_WIDTHS, outputs: int = POOLED_WIDTH) -> None:
        super().__init__()
        sizes = list(pairwise((0, *widths)))
        self.own = nn.ModuleList([nn.Linear(inputs + i, o) for i, o in sizes])
        self.joined = nn.ModuleList([nn.Linear(inputs + i, o) for i, o in sizes])
        self.node_outputs = inputs + widths[-1]
        self.pooling = GatedPooling(self.node_outputs, outputs)

    def forward(self, x: Tensor, A: Tensor, filled: Tensor) -> Tensor:
        return self.pooling(self.each(x, A), filled)

    def each(self, x: Tensor, A: Tensor) -> Tensor:
        """Attributes (B, n, inputs) and edges (B, n, n) -> what every node gathers, (B, n, node_outputs)."""
        share = A / A.sum(dim=2, keepdim=True).clamp_min(1.0)
        h = x
        for own, joined in zip(self.own, self.joined, strict=True):
            out = torch.tanh(own(h) + torch.bmm(share, joined(h)))
            h = torch.cat([out, x], dim=2)
        return h


class Generator(nn.Module):
    r"""From noise and what is seen of a graph to edges and attributes of all its nodes at once.

    .. math::
        h = \mathrm{MLP}([z, c]), \qquad \text{logits of } \tilde A = W_A h, \qquad \tilde X = W_X h, \qquad
        \hat x_i = \tilde x_i + g([e_i, x_i \odot m_i, m_i, \tilde x_i])

    The perceptron (128, 256, 512, tanh) and its two linear outputs for k nodes are MolGAN's. Conditioning is added:
    relational convolutions over :math:`[x_i \odot m_i, m_i]` read the visible graph, c is their gated sum, and g, a
    perceptron that all nodes share, lets what is visible at a node and, through their outputs :math:`e_i`, within two
    edges of it speak about its hidden attributes.

    Parameters
    ----------
    features : int
        Attributes E of a node.
    k : int
        Nodes of a generated graph.
    noise : int
        Length of z.
    node_width : int
        Width of g; 0 leaves it out.

    Shapes
    ------
    z (B, noise), x and visible (B, n, E), A (B, n, n), places that hold a node (B, n), n at most k
    -> logits (B, n, n, 2) of no edge and an edge, symmetric, and attributes (B, n, E)
    """

    def __init__(self, features: int, k: int, *, noise: int, node_width: int) -> None:
        super().__init__()
        self.k, self.features = k, features
        self.summary = RelationalConvolutions(2 * features)
        self.body = tanh_layers(noise + POOLED_WIDTH, *GENERATOR_WIDTHS)
        self.edges = nn.Linear(GENERATOR_WIDTHS[-1], 2 * k * k)
        self.nodes = nn.Linear(GENERATOR_WIDTHS[-1], k * features)
        self.each: nn.Module | None = None
        if node_width:
            inner = tanh_layers(self.summary.node_outputs + features, node_width, node_width)
            self.each = nn.Sequential(inner, nn.Linear(node_width, features))

    def forward(self, z: Tensor, x: Tensor, visible: Tensor, A: Tensor, filled: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        shown = visible.to(x.dtype)
        seen = torch.cat([x * shown, shown], dim=2)
        gathered = self.summary.each(seen, A)
        h = self.body(torch.cat([z, self.summary.pooling(gathered, filled)], dim=1))
        logits = self.edges(h).view(-1, self.k, self.k, 2)[:, :n, :n]
        attributes = self.nodes(h).view(-1, self.k, self.features)[:, :n]
        if self.each is not None:
            attributes = attributes + self.each(torch.cat([gathered, attributes], dim=2))
        return (logits + logits.transpose(1, 2)) / 2, attributes


def tanh_layers(*sizes: int) -> nn.Sequential:
    """Linear layers of these sizes, each followed by tanh."""
    return nn.Sequential(*(module for i, o in pairwise(sizes) for module in (nn.Linear(i, o), nn.Tanh())))


class Critic(nn.Module):
    """Relational convolutions, gated sum, perceptron (128, 64, tanh), one number per graph.

    Parameters
    ----------
    features : int
    minibatch : bool
        Let a graph's number depend on a summary of its whole batch, so that graphs all alike give themselves away
        (after Salimans et al. 2016).

    Shapes
    ------
    A (B, n, n), x (B, n, E), places that hold a node (B, n) -> (B,)
    """

    def __init__(self, features: int, *, minibatch: bool) -> None:
        super().__init__()
        self.read = RelationalConvolutions(features)
        self.body = tanh_layers(POOLED_WIDTH, *CRITIC_WIDTHS)
        few = POOLED_WIDTH // 8 if minibatch else 0
        self.one = nn.Linear(POOLED_WIDTH, few) if minibatch else None
        self.all = nn.Linear(few, few) if minibatch else None
        self.out = nn.Linear(CRITIC_WIDTHS[-1] + few, 1)

    def forward(self, A: Tensor, x: Tensor, filled: Tensor) -> Tensor:
        h = self.read(x, A, filled)
        out = self.body(h)
        if self.one is not None and self.all is not None:
            batch = self.all(self.one(h).tanh().mean(dim=0, keepdim=True)).tanh()
            out = torch.cat([out, batch.expand(len(out), -1)], dim=1)
        return self.out(out).squeeze(1)


def drawn_edges(logits: Tensor, how: str) -> Tensor:
    """Edges out of logits, differentiable: symmetric (B, n, n) with zero diagonal.

    Parameters
    ----------
    logits : Tensor of shape (B, n, n, 2), symmetric
    how : "soft" takes the softmax, "gumbel" adds Gumbel noise before it, "hard" also rounds, with the gradient of
        "gumbel" (straight-through)
    """
    if how != "soft":
        noise = -torch.empty_like(logits).exponential_().log()
        upper = torch.ones(logits.shape[1:3], dtype=torch.bool, device=logits.device).triu().unsqueeze(-1)
        logits = logits + torch.where(upper, noise, noise.transpose(1, 2))
    edges = logits.softmax(dim=-1)[..., 1]
    if how == "hard":
        edges = (edges > 0.5).to(edges.dtype) + (edges - edges.detach())
    return edges * (1 - torch.eye(edges.shape[1], device=edges.device))


def gradient_penalty(
    critic: Callable[[Tensor, Tensor], Tensor], real: tuple[Tensor, Tensor], fake: tuple[Tensor, Tensor], share: Tensor
) -> Tensor:
    r"""Mean of :math:`(\|\nabla D(\hat G)\| - 1)^2` at :math:`\hat G = \epsilon G + (1 - \epsilon) \tilde G` (WGAN-GP).

    Parameters
    ----------
    critic : (A, x) -> (B,)
    real, fake : pairs of Tensors of shapes (B, n, n) and (B, n, E)
    share : Tensor of shape (B,)
        The :math:`\epsilon` of each graph.
    """
    share = share.view(-1, 1, 1)
    between = [(share * r + (1 - share) * f).detach().requires_grad_() for r, f in zip(real, fake, strict=True)]
    slopes = torch.autograd.grad(critic(*between).sum(), between, create_graph=True)
    square = torch.stack([s.flatten(1).square().sum(dim=1) for s in slopes]).sum(dim=0)
    return ((square + 1e-12).sqrt() - 1).square().mean()
