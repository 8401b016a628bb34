"""GRAPE: a table as a bipartite graph of rows and columns, whose observed cells are the edges."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BipartiteLayer(nn.Module):
    r"""One layer of message passing between rows and columns, and the new embeddings of the edges.

    .. math::
        n_v &= \mathrm{mean}_{u \in N(v)} \mathrm{ReLU}(P [h_u, e_{uv}]) \\
        h_v' &= \mathrm{ReLU}(Q [h_v, n_v]), \text{ scaled to length 1} \\
        e_{uv}' &= \mathrm{ReLU}(W [e_{uv}, h_u', h_v'])

    P and Q serve rows and columns alike, as in the authors' code.

    Parameters
    ----------
    nodes_in, edges_in : int
        Widths of the embeddings that come in.
    width : int
        Of those that go out.
    last : bool
        Without new edge embeddings, which nobody would read.

    Shapes
    ------
    rows (n, nodes_in) or (1, nodes_in) where all are equal, columns (E, nodes_in), edges (n, E, edges_in), shown (n, E)
    """

    def __init__(self, nodes_in: int, edges_in: int, width: int, *, last: bool = False) -> None:
        super().__init__()
        self.last = last
        self.message_node = nn.Linear(nodes_in, width)
        self.message_edge = nn.Linear(edges_in, width, bias=False)
        self.update_own = nn.Linear(nodes_in, width)
        self.update_heard = nn.Linear(width, width, bias=False)
        if not last:
            self.edge_own = nn.Linear(edges_in, width)
            self.edge_row = nn.Linear(width, width, bias=False)
            self.edge_column = nn.Linear(width, width, bias=False)

    def to_rows(self, columns: Tensor, heard: Tensor, shown: Tensor) -> Tensor:
        """Mean message of each row, (n, width); ``heard`` (n, E, width) is what the edges add to it."""
        messages = F.relu(heard + self.message_node(columns))
        return torch.bmm(shown.unsqueeze(1), messages).squeeze(1) / shown.sum(dim=1, keepdim=True).clamp_min(1.0)

    def to_columns(self, rows: Tensor, heard: Tensor, shown: Tensor) -> Tensor:
        """Sum of the messages to each column, (E, width)."""
        messages = F.relu(heard + self.message_node(rows).unsqueeze(1))
        return torch.einsum("new,ne->ew", messages, shown)

    def update(self, own: Tensor, heard: Tensor) -> Tensor:
        return F.normalize(F.relu(self.update_own(own) + self.update_heard(heard)), dim=-1)

    def update_edges(self, edges: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return F.relu(self.edge_own(edges) + self.edge_row(rows).unsqueeze(1) + self.edge_column(columns))


class BipartiteNetwork(nn.Module):
    r"""GRAPE's network: rows start as ones, columns as one-hot, edges as the values of their cells.

    After the layers a perceptron embeds every node, and :math:`\hat x_{ij} = \mathrm{MLP}([h_i, h_j])`.

    Parameters
    ----------
    features : int
        Columns E.
    width, layers : int

    Shapes
    ------
    values (n, E), zero where not shown; shown (n, E), zeros and ones; output (n, E)
    """

    def __init__(self, features: int, *, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.features = features
        self.stack: list[BipartiteLayer] = [
            BipartiteLayer(width if k else features, width if k else 1, width, last=k == layers - 1)
            for k in range(layers)
        ]
        self.layers = nn.ModuleList(self.stack)
        self.embed = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head_row = nn.Linear(width, width)
        self.head_column = nn.Linear(width, width, bias=False)
        self.head_out = nn.Linear(width, 1)

    def forward(self, values: Tensor, shown: Tensor) -> Tensor:
        """All rows and columns of one bipartite graph at once."""
        rows, columns, edges = self._start(values)
        per_column = shown.sum(dim=0).clamp_min(1.0).unsqueeze(1)
        for layer in self.stack:
            heard = layer.message_edge(edges)  # (n, E, width)
            to_rows = layer.to_rows(columns, heard, shown)
            to_columns = layer.to_columns(rows, heard, shown) / per_column
            rows, columns = layer.update(rows, to_rows), layer.update(columns, to_columns)
            if not layer.last:
                edges = layer.update_edges(edges, rows, columns)
        return self._head(rows, columns)

    def column_states(self, parts: Iterable[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Embeddings of the columns before the first and after every layer, over a table that comes in parts.

        Parameters
        ----------
        parts : re-iterable of (values, shown), each (n_k, E)
        """
        states = [self._start(next(iter(parts))[0])[1]]
        for k, layer in enumerate(self.stack):
            total: Tensor | float = 0.0
            count: Tensor | float = 0.0
            for values, shown in parts:
                rows, edges = self._rows(values, shown, states, k)
                total = total + layer.to_columns(rows, layer.message_edge(edges), shown)
                count = count + shown.sum(dim=0)
            heard = torch.as_tensor(total) / torch.as_tensor(count).clamp_min(1.0).unsqueeze(1)
            states.append(layer.update(states[k], heard))
        return states

    def attach(self, values: Tensor, shown: Tensor, states: list[Tensor]) -> Tensor:
        """Predict rows that hang on columns whose embeddings are known; rows do not see each other."""
        rows, _ = self._rows(values, shown, states, len(self.stack))
        return self._head(rows, states[-1])

    def _start(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        E = self.features
        return values.new_ones((1, E)), torch.eye(E, dtype=values.dtype, device=values.device), values.unsqueeze(-1)

    def _rows(self, values: Tensor, shown: Tensor, states: list[Tensor], depth: int) -> tuple[Tensor, Tensor]:
        """Rows and edges after ``depth`` layers."""
        rows, _, edges = self._start(values)
        for k, layer in enumerate(self.stack[:depth]):
            heard = layer.message_edge(edges)
            rows = layer.update(rows, layer.to_rows(states[k], heard, shown))
            if not layer.last:
                edges = layer.update_edges(edges, rows, states[k + 1])
        return rows, edges

    def _head(self, rows: Tensor, columns: Tensor) -> Tensor:
        pairs = self.head_row(self.embed(rows)).unsqueeze(1) + self.head_column(self.embed(columns))
        return self.head_out(F.relu(pairs)).squeeze(-1)
