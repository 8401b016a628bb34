"""One graph and many, validation graphs, budgets, threads, interrupts, progress, diagnostics."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from imputer_cases import ring, same_bits, table
from megae_cases import collection, holes, megae, punched, same_weights, waves

from megae.imputers import learner
from megae.imputers import megae as module
from megae.training import task

X = punched(waves(), holes((40, 4)))
A = ring(40)


def xs(graphs) -> np.ndarray:
    return torch.cat([g.x for g in graphs]).numpy()


def test_new_graphs_are_filled_without_another_fit(monkeypatch):
    fitted = megae().fit(collection())
    new = collection(5, n=13, seed=100)
    before = [w.clone() for w in fitted.network_.state_dict().values()]
    monkeypatch.setattr(learner.Trainer, "run", lambda self: pytest.fail("trained again"))
    filled = fitted.transform(new)
    assert np.isfinite(xs(filled)).all()
    seen = ~np.isnan(xs(new))
    assert same_bits(xs(filled)[seen], xs(new)[seen])
    assert all(torch.equal(a, b) for a, b in zip(before, fitted.network_.state_dict().values(), strict=True))
    alone = np.concatenate([xs(fitted.transform([g])) for g in new])
    assert np.allclose(alone, xs(filled), atol=1e-4)


@pytest.mark.parametrize("given", [None, 4, 12])
def test_many_graphs_with_and_without_validation_graphs(given):
    validation = None if given is None else collection(given, seed=50)
    fitted = megae().fit(collection(26), validation=validation)
    assert fitted.by_graph_
    assert fitted.calibration_ is not None
    assert fitted.diagnostics_["n_held_out"] == fitted.calibration_.scores.size > 0
    assert np.isfinite(xs(fitted.transform(collection(3, seed=70)))).all()


def test_validation_graphs_select_the_step():
    graphs = collection(26)
    a = megae(max_steps=20).fit(graphs, validation=collection(4, seed=50))
    b = megae(max_steps=20).fit(graphs, validation=collection(4, seed=90))
    histories = [[h["val_rmse"] for h in f.diagnostics_["history"]] for f in (a, b)]
    assert histories[0] != histories[1]


def test_a_table_without_a_graph_takes_validation_rows():
    fitted = megae().fit(X, validation=punched(waves(30, seed=2), holes((30, 4), seed=3)))
    assert np.isfinite(fitted.transform(X)).all()


@pytest.mark.parametrize("diagnose", [False, True])
def test_time_budget_is_kept(diagnose, ticking):
    fitted = megae(max_steps=200, time_budget=1200.0, diagnose=diagnose, patience=200).fit(X, graph=A)
    assert fitted.diagnostics_["stopped"] == "time"
    assert 0 < fitted.diagnostics_["steps"] < 25
    assert ("graph_free" in fitted.diagnostics_["rmse"]) == diagnose
    assert 1200 <= ticking.passed < 2000, "the twin takes its time from the same budget"


def test_threads_are_put_back_and_do_not_change_the_fit():
    before = torch.get_num_threads()
    a = megae(n_jobs=1).fit(X, graph=A)
    assert torch.get_num_threads() == before
    megae(n_jobs=2, max_steps=1).fit(X, graph=A).transform(X)
    assert torch.get_num_threads() == before
    assert same_weights(a, megae(n_jobs=1).fit(X, graph=A))


def test_interrupt_keeps_what_was_learnt_and_trains_no_twin(monkeypatch):
    objective, calls = task.ImputationNetwork.objective, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return objective(self, *args)

    monkeypatch.setattr(task.ImputationNetwork, "objective", interrupted)
    with pytest.warns(UserWarning, match="megae: interrupted at step 8; keeping the best state so far"):
        fitted = megae(diagnose=True).fit(X, graph=A)
    assert len(calls) == 9
    assert fitted.diagnostics_["stopped"] == "interrupted"
    assert np.isfinite(fitted.transform(X)).all()
    assert fitted.intervals(X, coverage=0.5)[0].shape == X.shape


def test_verbose_logs_and_silence_does_not(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="megae"):
        megae(verbose=0).fit(X, graph=A)
        assert not caplog.messages
        megae(verbose=1, diagnose=True).fit(X, graph=A)
    assert any("megae step" in m and "validation RMSE" in m and "entropy" in m for m in caplog.messages)
    assert any("graph-free twin step" in m for m in caplog.messages)
    assert capsys.readouterr().out == ""


def test_diagnostics_against_numpy(monkeypatch):
    divisions = []
    divide = module.divide
    monkeypatch.setattr(module, "divide", lambda *a: divisions.append(divide(*a)) or divisions[-1])
    fitted = megae(diagnose=True).fit(X, graph=A)
    d = fitted.diagnostics_
    assert set(d["rmse"]) == {"megae", "graph_free", "mean", "propagation"}
    assert all(np.isfinite(v) for v in d["rmse"].values())
    assert {"units", "n_held_out", "steps", "best_step", "stopped", "seconds", "history", "warnings"} <= set(d)
    assert set(d["polynomials"]) == {"order", "filter_error", "frame_error"}
    trainable = divisions[0].trainable.numpy()
    hidden, visible = divisions[0].calibration.hidden.numpy(), divisions[0].calibration.visible.numpy()
    seen = np.where(trainable, X, np.nan)
    mean, span = np.nanmean(seen, axis=0), np.nanmax(seen, axis=0) - np.nanmin(seen, axis=0)

    def rmse(values):
        return float(np.sqrt(np.mean(((values - X) / span)[hidden] ** 2)))

    assert d["n_held_out"] == hidden.sum()
    assert d["rmse"]["mean"] == pytest.approx(rmse(np.broadcast_to(mean, X.shape)), rel=1e-4)
    degree = A.sum(axis=1)
    S = A.toarray() / np.sqrt(np.outer(degree, degree))
    start = np.where(visible, X - mean, 0.0)
    z = start
    for _ in range(40):
        z = np.where(visible, start, S @ z)
    assert d["rmse"]["propagation"] == pytest.approx(rmse(z + mean), rel=1e-3)
    blind = np.where(visible, X, np.nan)
    assert d["rmse"]["megae"] == pytest.approx(rmse(fitted.transform(blind)), rel=1e-3)


def test_units_of_error():
    by_range, by_std = (megae(unit=u).fit(X, graph=A) for u in ("range", "std"))
    assert by_std.diagnostics_["rmse"]["mean"] > 1.5 * by_range.diagnostics_["rmse"]["mean"]
    assert "standard deviation" in by_std.diagnostics_["units"]
    with pytest.raises(ValueError, match="unit must be 'range' or 'std', got 'metre'"):
        megae(unit="metre").fit(X, graph=A)


def test_a_graph_without_edges_does_not_help_and_says_so():
    with pytest.warns(UserWarning, match="the graph does not help"):
        fitted = megae(diagnose=True).fit(X, graph=sp.csr_array((40, 40)))
    assert fitted.diagnostics_["rmse"]["megae"] == fitted.diagnostics_["rmse"]["graph_free"]
    assert any("the graph does not help" in w for w in fitted.diagnostics_["warnings"])


def test_noise_on_a_random_graph_is_called_what_it_is():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((80, 3))
    noise[rng.random((80, 3)) < 0.2] = np.nan
    upper = np.triu(rng.random((80, 80)) < 0.1, 1).astype(float)
    with pytest.warns(UserWarning, match="the (model|graph) does not help: held-out RMSE"):
        fitted = megae(diagnose=True).fit(noise, graph=sp.csr_array(upper + upper.T))
    assert fitted.diagnostics_["warnings"]


def test_twin_is_only_trained_when_asked_for():
    assert "graph_free" not in megae(diagnose=False).fit(X, graph=A).diagnostics_["rmse"]
    assert "graph_free" not in megae(diagnose=True, use_graph=False).fit(X, graph=A).diagnostics_["rmse"]


def test_learning_beats_the_mean_on_a_smooth_graph():
    truth = waves(120, 3)
    mask = holes(truth.shape, 0.2)
    filled = megae(max_steps=150, hidden=32, learning_rate=3e-3).fit_transform(punched(truth, mask), graph=ring(120))
    mean = np.broadcast_to(np.nanmean(punched(truth, mask), axis=0), truth.shape)
    errors = [np.sqrt(np.mean((values - truth)[mask] ** 2)) for values in (filled, mean)]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_steps": 0}, "max_steps must be an integer and at least 1, got 0"),
        ({"max_steps": 2.5}, "max_steps must be an integer and at least 1, got 2.5"),
        ({"blocks": 0}, "blocks must be an integer and at least 1"),
        ({"hole_rate": "often"}, "hole_rate must be"),
        ({"preset": "best"}, "preset must be one of default, paper, got 'best'"),
        ({"frame": "haar"}, "frame must be one of"),
        ({"decoder": "cnn"}, "decoder must be one of"),
        ({"n_jobs": 0}, "n_jobs must be a positive number"),
        ({"device": "gpu"}, "device must be"),
        ({"hole_rate": 1.5}, "hole_rate must be"),
        ({"binary_loss": "hinge"}, "binary_loss must be"),
        ({"validation_fraction": 0.6, "calibration_fraction": 0.5}, "must sum to less than 1"),
        ({"calibration_fraction": -0.1}, "must not be negative"),
        ({"gamma": -1}, "gamma must be a number of at least 0, got -1"),
        ({"gamma": "x"}, "gamma must be a number of at least 0, got 'x'"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, got 0"),
        ({"weight_decay": float("nan")}, "weight_decay must be a number of at least 0, got nan"),
        ({"patience": 0}, "patience must be None or an integer and at least 1, got 0"),
        ({"regularize": "no"}, "regularize must be True or False, got 'no'"),
        ({"use_graph": 3}, "use_graph must be True or False, got 3"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        megae(**settings).fit(X, graph=A)


def test_resuming_needs_a_file_to_go_on_from():
    with pytest.raises(ValueError, match="resume=True needs checkpoint="):
        megae().fit(X, graph=A, resume=True)


EMPTY_COLUMN = "no value is observed in column"


def edge_case(name: str) -> tuple[np.ndarray, sp.csr_array]:
    X, A = table(24), ring(24)
    if name == "no edges":
        A = sp.csr_array((24, 24))
    elif name == "one node":
        X, A = np.array([[1.0, np.nan, 3.0]]), sp.csr_array((1, 1))
    elif name == "isolated nodes":
        dense = A.toarray()
        dense[:6] = dense[:, :6] = 0.0
        A = sp.csr_array(dense)
    elif name == "empty column":
        X[:, 1] = np.nan
    elif name == "empty row":
        X[5] = np.nan
    elif name == "constant columns":
        X[:, :2] = np.where(np.isnan(X[:, :2]), np.nan, 4.25)
    elif name == "all constant":
        X = np.where(np.isnan(X), np.nan, -2.0)
    elif name == "no holes":
        X = np.nan_to_num(X, nan=1.0)
    elif name == "one hole":
        X = np.nan_to_num(X, nan=1.0)
        X[3, 2] = np.nan
    elif name == "one observed cell per column":
        keep = X[:1].copy()
        X[:] = np.nan
        X[0] = keep
    elif name == "huge and tiny":
        X = X * np.array([1e149, 1e-149, 1e30, 1e-30])
    return X, A


@pytest.mark.filterwarnings("ignore:the model does not help")
def test_the_shortest_budget_is_worth_one_step():
    assert megae(time_budget=1e-9).fit(X, graph=A).diagnostics_["steps"] == 1


@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
@pytest.mark.filterwarnings("ignore:too few observed cells")
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(
    "name",
    ["no edges", "one node", "isolated nodes", "empty row", "constant columns", "all constant", "no holes",
     "one hole", "one observed cell per column", "huge and tiny"],
)  # fmt: skip
def test_edge_cases_are_filled(name, preset):
    X, A = edge_case(name)
    fitted = megae(preset=preset, diagnose=True, max_steps=4).fit(X, graph=A)
    filled = fitted.transform(X)
    seen = ~np.isnan(X)
    assert np.isfinite(filled).all()
    assert same_bits(filled[seen], X[seen])
    if name == "no holes":
        assert same_bits(filled, X)
    if name == "constant columns" and preset == "default":
        assert np.allclose(filled[:, :2], 4.25, atol=0.5)


def test_an_empty_column_is_filled_with_the_fallback_and_a_warning():
    X, A = edge_case("empty column")
    with pytest.warns(UserWarning, match=EMPTY_COLUMN):
        fitted = megae(fallback=-7.5).fit(X, graph=A)
    assert (fitted.transform(X)[:, 1] == -7.5).all()
    lower, upper = fitted.intervals(X, coverage=0.5)
    assert np.isneginf(lower[:, 1]).all()
    assert np.isposinf(upper[:, 1]).all()
    assert all((draw[:, 1] == -7.5).all() for draw in fitted.sample(X, n=2))


@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
def test_too_little_to_hold_out_is_said():
    with pytest.warns(UserWarning, match="too few observed cells to set any aside"):
        fitted = megae(diagnose=True).fit(np.array([[1.0, 2.0], [np.nan, 3.0]]), graph=np.array([[0], [1]]))
    with pytest.raises(ValueError, match="no cells were set aside for calibration"):
        fitted.intervals(np.array([[1.0, 2.0], [np.nan, 3.0]]))


@pytest.mark.parametrize("seed", range(3))
def test_a_column_observed_in_one_of_many_graphs(seed):
    graphs = collection(24)
    for g in graphs[1:]:
        g.x[:, 2] = torch.nan
    filled = megae(random_state=seed, max_steps=3).fit(graphs).transform(graphs)
    assert np.isfinite(xs(filled)).all()
