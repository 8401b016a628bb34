"""Nothing hidden is ever seen, nothing held out is trained on, and the same seed gives the same bits."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from imputer_cases import edge_index, ring, same_bits
from megae_cases import collection, holes, megae, punched, same_weights, waves
from torch_geometric.data import Data

from megae.imputers import megae as module

TRUTH = waves()
MASK = holes(TRUTH.shape)
X = punched(TRUTH, MASK)
A = ring(40)


@pytest.fixture
def divisions(monkeypatch):
    """Every division of cells that a fit makes."""
    seen = []
    divide = module.divide
    monkeypatch.setattr(module, "divide", lambda *a: seen.append(divide(*a)) or seen[-1])
    return seen


def test_same_seed_same_bits_and_another_seed_other_bits():
    a, b, c = (megae(random_state=s).fit_transform(X, graph=A) for s in (3, 3, 4))
    assert same_bits(a, b)
    assert not same_bits(a, c)


@pytest.mark.parametrize("kind", ["one graph", "many graphs"])
def test_global_generators_neither_matter_nor_move(kind, monkeypatch):
    def run():
        if kind == "one graph":
            return megae(diagnose=True).fit_transform(X, graph=A)
        return torch.cat([g.x for g in megae().fit(collection()).transform(collection())]).numpy()

    reseeded = []
    torch.manual_seed(0)
    first = run()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", reseeded.append)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.default_generator.manual_seed(5)
    states = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state()  # noqa: NPY002
    second = run()
    assert same_bits(first, second)
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tobytes() == states[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])
    assert reseeded == []


@pytest.mark.parametrize("state", [np.random.RandomState(7), np.random.default_rng(7)], ids=["legacy", "generator"])
def test_random_states_are_drawn_from(state):
    fitted = megae(random_state=state).fit(X, graph=A)
    again = megae(random_state=state).fit(X, graph=A)
    assert fitted.seed_ != again.seed_


def test_a_random_state_that_is_none_of_these_is_refused():
    with pytest.raises(ValueError, match="random_state must be a non-negative int"):
        megae(random_state="seven").fit(X, graph=A)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("graph", [A, None], ids=["graph", "knn"])
def test_observed_bits_come_back(dtype, graph):
    table = X.astype(dtype)
    table[0, 0] = -0.0
    filled = megae().fit_transform(table, graph=graph)
    assert filled.dtype == dtype
    assert same_bits(filled[~MASK], table[~MASK])
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("graph", [A, None], ids=["graph", "knn"])
def test_what_a_nan_carries_in_its_bits_changes_nothing(graph):
    def run(seed):
        table = TRUTH.astype(np.float64)
        payload = np.random.default_rng(seed).integers(2**51, size=int(MASK.sum()), dtype=np.uint64)
        table.view(np.uint64)[MASK] = np.uint64(0x7FF8000000000000) | payload
        assert np.array_equal(np.isnan(table), MASK)
        imputer = megae(diagnose=True).fit(table, graph=graph)
        return (
            imputer.transform(table),
            *imputer.intervals(table, coverage=0.8),
            imputer.sample(table, n=1)[0],
        )

    assert all(same_bits(a, b) for a, b in zip(run(0), run(1), strict=True))


def moved(cells: np.ndarray) -> np.ndarray:
    return np.where(cells, X + 0.01 + 10 * np.random.default_rng(3).random(X.shape), X)


@pytest.mark.parametrize("graph", [A, None], ids=["graph", "knn"])
def test_calibration_cells_leave_no_trace_in_the_weights(divisions, graph):
    first = megae().fit(X, graph=graph)
    cells = divisions[0].calibration.hidden.numpy()
    assert cells.any()
    second = megae().fit(moved(cells), graph=graph)
    assert torch.equal(divisions[1].calibration.hidden, divisions[0].calibration.hidden)
    assert same_weights(first, second)
    assert same_bits(first.mean_, second.mean_)
    assert same_bits(first.scale_, second.scale_)
    assert not same_bits(first.calibration_.scores, second.calibration_.scores)
    # the test can fail: a trained cell does leave a trace
    trained = divisions[0].trainable.numpy() & (np.arange(40) == 5)[:, None]
    assert not same_weights(first, megae().fit(moved(trained), graph=graph))


@pytest.mark.parametrize("graph", [A, None], ids=["graph", "knn"])
def test_cells_to_stop_by_are_not_trained_on(divisions, graph):
    first = megae(patience=1000).fit(X, graph=graph)
    cells = divisions[0].validation.hidden.numpy()
    second = megae(patience=1000).fit(moved(cells), graph=graph)
    losses = [[h["loss"] for h in f.diagnostics_["history"]] for f in (first, second)]
    scores = [[h["val_rmse"] for h in f.diagnostics_["history"]] for f in (first, second)]
    assert cells.any()
    assert losses[0] == losses[1]
    assert scores[0] != scores[1]
    assert same_bits(first.mean_, second.mean_)


def test_held_out_cells_do_not_shape_the_neighbours_they_are_judged_on(monkeypatch):
    rebuilt = []
    original = module.rebuilt_knn
    monkeypatch.setattr(module, "rebuilt_knn", lambda *a: rebuilt.append(original(*a)) or rebuilt[-1])
    megae().fit(X)
    cells = (rebuilt[0].calibration.hidden | rebuilt[0].validation.hidden).numpy()
    megae().fit(moved(cells))

    def edges(division):
        held = (division.train, division.validation.graphs)
        return [graphs[0].edge_index for graphs in held]

    assert all(torch.equal(a, b) for a, b in zip(edges(rebuilt[0]), edges(rebuilt[1]), strict=True))
    only = rebuilt[0].calibration.hidden.numpy()
    megae().fit(moved(only))
    judged = [r.calibration.graphs[0].edge_index for r in rebuilt]
    assert torch.equal(judged[0], judged[2])
    assert not torch.equal(judged[0], judged[1])  # cells to stop by are visible there, and moved


def test_set_aside_graphs_leave_no_trace_in_the_weights(divisions):
    graphs = collection(30)
    first = megae().fit(graphs)
    aside = {id(g.x.untyped_storage()): g for g in divisions[0].calibration.graphs}
    changed = []
    for g in graphs:
        is_aside = any(torch.equal(torch.nan_to_num(g.x), torch.nan_to_num(c.x)) for c in aside.values())
        changed.append(Data(x=g.x * 3 + 1 if is_aside else g.x, edge_index=g.edge_index))
    assert sum(a is not b.x for a, b in zip([g.x for g in graphs], changed, strict=True)) == 3
    second = megae().fit(changed)
    assert same_weights(first, second)
    assert same_bits(first.scale_, second.scale_)
    assert not same_bits(first.calibration_.scores, second.calibration_.scores)


def test_one_table_is_a_list_of_one_graph():
    data = Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(edge_index(A)))
    table = megae().fit_transform(X, graph=A)
    (graph,) = megae().fit_transform([data])
    assert same_bits(table, graph.x.numpy())
    assert same_bits(table, megae().fit_transform(data).x.numpy())


def test_rows_in_another_order_with_their_graph_get_the_same_values():
    fitted = megae(max_steps=30).fit(X, graph=A)
    order = np.random.default_rng(0).permutation(40)
    there = fitted.transform(X[order], graph=A[order][:, order])
    assert np.allclose(there, fitted.transform(X)[order], atol=1e-5)
    assert not np.allclose(there, fitted.transform(X[order]), atol=1e-4)


def test_scale_of_a_column_does_not_matter():
    scales = np.array([1.0, 1e-14, 1e9, 1e-3])
    a = megae().fit(X, graph=A)
    b = megae().fit(X * scales, graph=A)
    assert np.allclose(a.transform(X), b.transform(X * scales) / scales, rtol=1e-4)
    assert a.diagnostics_["rmse"]["megae"] == pytest.approx(b.diagnostics_["rmse"]["megae"], rel=1e-3)
