"""Holes to learn from, and held-out errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from row_cases import as_graphs, correlated, punched

from megae.imputers.neural import Ground, NeuralImputer
from megae.imputers.rows import blinded, examiner, fixed_holes, missing_rates, ranges, rows_of


class Watch(NeuralImputer):
    """Keeps what it would have trained on."""

    _uses_graph = False

    def _train(self, ground: Ground) -> None:
        self.ground = ground


def ground(X, validation=None, **kw) -> Ground:
    return Watch(random_state=0, **kw).fit(X, validation=validation).ground


def test_complete_graphs_get_holes_as_frequent_as_in_validation_graphs():
    g = ground(as_graphs(correlated()), as_graphs(punched(correlated(seed=2), 0.3)))
    assert g.division.trainable.all()
    visible = fixed_holes(g)
    assert float((~visible).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert torch.equal(visible, fixed_holes(g))


def test_a_table_with_holes_keeps_those():
    g = ground(punched(correlated()))
    assert missing_rates(g.division.trainable, g) is None
    assert torch.equal(fixed_holes(g), g.division.trainable)


def test_no_column_loses_its_last_cell():
    X = np.full((30, 2), np.nan)
    X[:, 0] = np.arange(30.0)
    X[4, 1] = 1.0
    for seed in range(5):
        g = Watch(random_state=seed).fit(X).ground
        assert fixed_holes(g).any(dim=0).all()


def test_examiner_is_the_rmse_in_ranges_of_held_out_cells():
    X = punched(correlated())
    g = ground(X)
    held = g.division.validation
    assert held is not None
    seen = []

    def fill(graphs):
        seen.append(rows_of(graphs))
        return torch.zeros(X.shape, dtype=torch.float32)

    exam = examiner(g, fill)
    assert exam is not None
    low, span = g.scaler.shift, ranges(g)
    hidden = held.hidden.numpy()
    expected = np.sqrt(np.mean(((low - X) / span)[hidden] ** 2))
    assert exam() == pytest.approx(expected, rel=1e-9)
    assert seen[0][held.hidden].isnan().all()
    assert seen[0][held.visible].isfinite().all()


def test_examiner_looks_at_whole_graphs_up_to_a_number_of_rows():
    g = ground(as_graphs(correlated()), as_graphs(correlated(100, seed=2)))
    sizes = []
    exam = examiner(g, lambda graphs: sizes.append(len(rows_of(graphs))) or rows_of(graphs).nan_to_num().float(), 50)
    assert exam is not None
    exam()
    assert sizes == [40]


def test_without_held_out_cells_there_is_no_exam():
    assert examiner(ground(punched(correlated()), validation_fraction=0.0), rows_of) is None


def test_blinded_graphs_show_visible_cells_alone():
    items = as_graphs(correlated(40))
    visible = torch.rand(40, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    out = rows_of(blinded(items, visible))
    assert torch.equal(out.isnan(), ~visible)
    assert torch.equal(out[visible], rows_of(items)[visible])
    assert rows_of(items).isfinite().all()
