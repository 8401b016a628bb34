"""Which node of one graph is which of another: max-pooling matching and the Hungarian algorithm."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def max_pooling_matching(A: Tensor, A_decoded: Tensor, similarity: Tensor, iterations: int = 75) -> Tensor:
    r"""Soft assignment of nodes i of input graphs to nodes a of decoded ones (Cho et al., CVPR 2014).

    .. math::
        x_{ia} \leftarrow x_{ia} S_{ia;ia} + \sum_{j \in N(i)} \max_{b} x_{jb} S_{ia;jb}, \qquad x \leftarrow x / \|x\|

    with the similarities of GraphVAE's equation 4,

    .. math::
        S_{ia;jb} = e_{ia;jb} A_{ij} \tilde A_{ab} \tilde A_{aa} \tilde A_{bb} \;\; (i \ne j, a \ne b), \qquad
        S_{ia;ia} = s_{ia} \tilde A_{aa},

    where the agreement of edges e is that of their ends, :math:`s_{ia} s_{jb}`: edges have no types here, and edges
    that all agree would drown what attributes say. The maximum over b then depends on i through A_ij alone, so an
    iteration takes O(n k^2) instead of O(n^2 k^2), and S is never built.

    Parameters
    ----------
    A : Tensor of shape (B, n, n), 0 or 1, zero diagonal
        Zero rows pad smaller graphs.
    A_decoded : Tensor of shape (B, k, k)
        Probabilities of edges, and of nodes on the diagonal.
    similarity : Tensor of shape (B, n, k), in [0, 1]
        s, how well the attributes of i fit those of a; zero rows pad smaller graphs.
    iterations : int
        Of none, the assignment is the similarity.

    Returns
    -------
    Tensor of shape (B, n, k)
    """
    if iterations == 0:
        return similarity
    exists = A_decoded.diagonal(dim1=1, dim2=2)  # (B, k)
    edge = A_decoded - torch.diag_embed(exists)
    to = (edge * exists.unsqueeze(1)).unsqueeze(1)  # (B, 1, k, k): at a, b
    own = similarity * exists.unsqueeze(1)
    x = torch.ones_like(similarity)
    for _ in range(iterations):
        best = ((x * similarity).unsqueeze(2) * to).amax(dim=3)  # (B, n, k): at j, a
        x = own * (x + torch.bmm(A, best))
        x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min(1e-30)
    return x


def attribute_similarity(x: Tensor, visible: Tensor, decoded: Tensor, weight: Tensor, temperature: float) -> Tensor:
    r"""How well each node fits each decoded one, relative to the one it fits best.

    .. math::
        s_{ia} = \exp\bigl((d_i - d_{ia}) / 2 \tau\bigr), \qquad
        d_{ia} = \frac{\sum_{j \in O_i} w_j (x_{ij} - \tilde f_{aj})^2}{\sum_{j \in O_i} w_j}, \qquad
        d_i = \min_a d_{ia}

    A node without a visible attribute fits all alike.

    Parameters
    ----------
    x, visible : Tensor of shape (B, n, E)
    decoded : Tensor of shape (B, k, E)
    weight : Tensor of shape (E,)
    temperature : float

    Returns
    -------
    Tensor of shape (B, n, k), at most 1
    """
    w = visible.to(x.dtype) * weight
    back = decoded.transpose(1, 2)
    far = (w * x.square()).sum(dim=2, keepdim=True) - 2 * torch.bmm(w * x, back) + torch.bmm(w, back.square())
    far = far / w.sum(dim=2, keepdim=True).clamp_min(1e-6)
    return ((far.amin(dim=2, keepdim=True) - far) / (2 * temperature)).exp()


def hungarian(assignment: Tensor, sizes: np.ndarray) -> Tensor:
    """Strict assignment of the largest total: for each input node its decoded node, int64 (B, n).

    Parameters
    ----------
    assignment : Tensor of shape (B, n, k), n at most k
    sizes : ndarray of shape (B,)
        Nodes of each input graph; rows past them get the decoded nodes left over.
    """
    scores = assignment.detach().double().cpu().numpy()
    B, n, k = scores.shape
    out = np.empty((B, n), dtype=np.int64)
    for b in range(B):
        m = int(sizes[b])
        out[b, :m] = linear_sum_assignment(scores[b, :m], maximize=True)[1]
        out[b, m:] = np.setdiff1d(np.arange(k), out[b, :m])[: n - m]
    return torch.from_numpy(out).to(assignment.device)
