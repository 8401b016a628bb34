"""GRAPE's network against message passing written out edge by edge."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from megae.models.grape import BipartiteNetwork

N, E = 7, 4


def table(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shown = (torch.rand((N, E), generator=generator) < 0.7).float()
    shown[0] = 0.0
    return torch.rand((N, E), generator=generator) * shown, shown


def network(seed: int = 0) -> BipartiteNetwork:
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        return BipartiteNetwork(E, width=6, layers=3)


def edge_by_edge(net: BipartiteNetwork, values: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Nodes 0..N-1 are rows, N..N+E-1 columns."""
    ends = [(i, N + j) for i in range(N) for j in range(E) if shown[i, j]]
    h = torch.cat([torch.ones(N, E), torch.eye(E)])
    e = {(i, c): values[i, c - N].reshape(1) for i, c in ends}
    for layer in net.layers:
        after = []
        for v in range(N + E):
            heard = [
                F.relu(layer.message_node(h[c if i == v else i]) + layer.message_edge(e[i, c]))
                for i, c in ends
                if v in (i, c)
            ]
            mean = torch.stack(heard).mean(dim=0) if heard else torch.zeros(6)
            new = F.relu(layer.update_own(h[v]) + layer.update_heard(mean))
            after.append(new / new.norm().clamp_min(1e-12))
        h = torch.stack(after)
        if layer is not net.layers[-1]:
            e = {
                (i, c): F.relu(layer.edge_own(e[i, c]) + layer.edge_row(h[i]) + layer.edge_column(h[c]))
                for i, c in ends
            }
    z = net.embed(h)
    out = torch.empty(N, E)
    for i in range(N):
        for j in range(E):
            out[i, j] = net.head_out(F.relu(net.head_row(z[i]) + net.head_column(z[N + j])))
    return out


def test_dense_layers_pass_the_messages_of_the_edges():
    net, (values, shown) = network(), table()
    torch.testing.assert_close(net(values, shown), edge_by_edge(net, values, shown), rtol=1e-5, atol=1e-6)


def test_rows_attached_to_the_columns_of_their_own_table_get_the_same():
    net, (values, shown) = network(), table()
    parts = list(zip(values.split(3), shown.split(3), strict=True))
    states = net.column_states(parts)
    assert [tuple(s.shape) for s in states] == [(E, E), (E, 6), (E, 6), (E, 6)]
    torch.testing.assert_close(net.attach(values, shown, states), net(values, shown), rtol=1e-5, atol=1e-6)


def test_a_new_row_leaves_the_others_alone():
    net, (values, shown) = network(), table()
    states = net.column_states([(values, shown)])
    more_values, more_shown = table(seed=5)
    alone = net.attach(values, shown, states)
    together = net.attach(torch.cat([values, more_values]), torch.cat([shown, more_shown]), states)
    np.testing.assert_allclose(alone.detach(), together[:N].detach(), rtol=1e-5, atol=1e-6)
