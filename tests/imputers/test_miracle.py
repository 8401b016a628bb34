from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from imputer_cases import same_bits, table
from row_cases import as_graphs, correlated, error, graphs_error, punched, table_error
from scipy.linalg import expm

from megae.imputers import MICEImputer, MIRACLEImputer, OTImputer, miracle
from megae.imputers.miracle import dual_schedule
from megae.models.miracle import Multiplier, moment_gap

FAST = {"max_steps": 1000, "batch_size": 64, "random_state": 0}
QUICK = {
    "mice": {"n_imputations": 1, "max_iter": 2},
    "gain": {"max_steps": 100},
    "ot": {"form": "batch", "max_steps": 50, "visits": 5},
    "mean": {},
}


def test_refines_the_mean_clearly_on_a_table_and_on_new_graphs():
    assert table_error(MIRACLEImputer(baseline="mean", **FAST)) < 0.5
    assert graphs_error(MIRACLEImputer(baseline="mean", **FAST)) < 0.5


@pytest.mark.parametrize("baseline", ["mice", "gain", "ot"])
def test_refines_every_baseline(baseline):
    imputer = MIRACLEImputer(baseline=baseline, baseline_settings=QUICK[baseline], **{**FAST, "max_steps": 800})
    assert table_error(imputer) < 0.6
    assert imputer.baseline_.get_params().items() >= QUICK[baseline].items()
    assert imputer.baseline_errors_ == {}


def test_auto_takes_the_baseline_with_the_lowest_held_out_error(monkeypatch):
    monkeypatch.setattr("megae.imputers.miracle.CANDIDATES", {k: QUICK[k] for k in ("mice", "gain", "ot")})
    imputer = MIRACLEImputer(max_steps=20, random_state=0).fit(punched(correlated(300)))
    errors = imputer.baseline_errors_
    assert set(errors) == {"mice", "gain", "ot"}
    assert len(set(errors.values())) == 3
    best = min(errors, key=errors.get)
    assert type(imputer.baseline_).__name__.removesuffix("Imputer").lower() == best
    alone = MIRACLEImputer(max_steps=20, validation_fraction=0.0, random_state=0).fit(punched(correlated(60)))
    assert type(alone.baseline_) is MICEImputer
    assert alone.baseline_errors_ == {}


def test_the_baseline_is_fitted_to_what_may_be_seen(monkeypatch):
    given = []
    original = MICEImputer.fit
    monkeypatch.setattr(
        MICEImputer, "fit", lambda self, X, **kw: given.append(torch.cat([g.x for g in X])) or original(self, X, **kw)
    )
    X = punched(correlated(200))
    MIRACLEImputer(baseline="mice", baseline_settings=QUICK["mice"], max_steps=5, random_state=0).fit(X)
    hidden = given[0].isnan().numpy()
    assert (hidden >= np.isnan(X)).all()
    assert 0.05 < hidden[~np.isnan(X)].mean() < 0.2, "held-out cells must be holes to the baseline"


def test_new_rows_start_at_the_baseline_and_are_refined():
    X = correlated(200, seed=3)
    given = punched(X, seed=4)
    imputer = MIRACLEImputer(baseline="mean", **FAST).fit(as_graphs(correlated()))
    start = torch.cat([g.x for g in imputer.baseline_.transform(as_graphs(given))]).numpy()
    refined = torch.cat([g.x for g in imputer.transform(as_graphs(given))]).numpy()
    holes = np.isnan(given)
    assert error(refined, X, holes) < 0.6 * error(start, X, holes)


def plain_loss(network, x, r, lam, beta, mu):
    """The loss of the docstring on one batch with alpha = rho = 1, in numpy and double precision."""
    d = x.shape[1]
    first, c, u, e = (
        p.detach().double().numpy() for p in (network.first, network.first_bias, network.last, network.last_bias)
    )
    V, v = (p.detach().double().numpy() for p in (network.shared.weight, network.shared.bias))

    def elu(z):
        return np.where(z > 0, z, np.expm1(np.minimum(z, 0.0)))

    out, W = np.empty((len(x), 2 * d)), np.zeros((d, 2 * d))
    for o in range(2 * d):
        weights = np.where((np.arange(d) == o)[:, None], 0.0, first[:, o])
        W[:, o] = np.sqrt((weights**2).sum(axis=1))
        out[:, o] = elu(elu(x @ weights + c[o]) @ V.T + v) @ u[o] + e[o]
    f, p = out[:, :d], 1 / (1 + np.exp(-out[:, d:]))
    holes = [j for j in range(d) if (r[:, j] < 1).any()]
    h = np.trace(expm(W[:, :d] ** 2)) - d
    loss = lam * ((r * (x - f)) ** 2).sum() / len(x) + beta * W.sum() + h**2 / 2 + h
    for j in holes:
        loss -= (r[:, j] * np.log(p[:, j]) + (1 - r[:, j]) * np.log(1 - p[:, j])).mean()
        weight = r[:, j] / ((p[:, j] + 0.01) / 1.02)
        loss += mu * (f[:, j].mean() - (weight * x[:, j]).sum() / weight.sum()) ** 2
    return loss


@pytest.mark.parametrize(("lam", "beta", "mu"), [(33.0, 0.1, 1.0), (0.0, 0.0, 0.0), (0.0, 0.5, 0.0), (0.0, 0.0, 20.0)])
def test_the_loss_of_a_batch_is_that_of_a_plain_twin(lam, beta, mu, monkeypatch):
    """A table of one batch, whose first column is complete: the order of its rows changes nothing."""
    X = punched(correlated(60))
    X[:, 0] = correlated(60)[:, 0]
    losses = []

    def compare(step, modules, **how):
        twin = plain_loss(modules[0], x, r, lam, beta, mu)
        losses.append((float(step(0, 0.0)), twin))

    refine = MIRACLEImputer._refine_and_learn

    def watched(self, ground, rows, observed, *more):
        nonlocal x, r
        with torch.no_grad():  # so that no term is tiny
            self.network_.first.mul_(5.0)
            self.network_.last_bias.add_(0.3)
        x, r = rows.double().numpy(), observed.double().numpy()
        refine(self, ground, rows, observed, *more)

    x = r = np.empty(0)
    monkeypatch.setattr(MIRACLEImputer, "_refine_and_learn", watched)
    monkeypatch.setattr(miracle, "descend", compare)
    weights = {"reconstruction_weight": lam, "sparsity": beta, "moment_weight": mu}
    MIRACLEImputer(baseline="mean", validation_fraction=0.0, batch_size=60, random_state=0, **weights).fit(X)
    assert losses[0][0] == pytest.approx(losses[0][1], rel=1e-5)


def test_the_moment_term_moves_predicted_means_to_those_of_complete_columns():
    """Large values go missing more often: the means of what is observed lie too low."""
    X = correlated(400)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    lost = np.random.default_rng(0).random(X.shape) < 0.8 / (1 + np.exp(-3 * z[:, [1, 0, 3, 2, 5, 4]]))
    given = np.where(lost, np.nan, X)
    gaps = {}
    for weight in (0.0, 10.0):
        imputer = MIRACLEImputer(
            baseline="mean", moment_weight=weight, reconstruction_weight=0.1, validation_fraction=0.0,
            batch_size=400, max_steps=250, window=500, random_state=0,
        ).fit(given)  # fmt: skip
        rows = imputer.scaler_.forward(torch.from_numpy(given))
        seen = rows.isfinite().float()
        with torch.no_grad():
            out = imputer.network_(rows.nan_to_num())
            gaps[weight] = float(moment_gap(out[:, :6], out[:, 6:], rows.nan_to_num(), seen, torch.ones(6)))
    assert gaps[10.0] < 0.1 * gaps[0.0]


def test_dual_steps_come_evenly_over_the_run_or_over_its_time(monkeypatch):
    rises = []
    ascend = Multiplier.ascend

    def by(pace, count):
        def run(step, modules, **how):
            for k in range(count):
                step(k, pace(k))
                while len(rises[-1]) > len(told[-1]):
                    told[-1].append(k + 1)

        return run

    told = []
    monkeypatch.setattr(Multiplier, "ascend", lambda self, h: rises[-1].append(h) or ascend(self, h))
    X = punched(correlated(60))
    for max_steps, dual_steps in ((100, 10), (37, 3), (7, 10), (40, 0)):
        rises.append([]), told.append([])
        monkeypatch.setattr(miracle, "descend", by(lambda k, n=max_steps: min(1.0, k / n), max_steps))
        kw = {"baseline": "mean", "validation_fraction": 0.0, "dual_steps": dual_steps, "random_state": 0}
        MIRACLEImputer(max_steps=max_steps, **kw).fit(X)
        assert told[-1] == dual_schedule(max_steps, dual_steps)
        assert set(told[-1]) == {max_steps * (k + 1) // (dual_steps + 1) for k in range(dual_steps)} - {0}
    rises.append([]), told.append([])
    monkeypatch.setattr(miracle, "descend", by(lambda k: k / 50, 50))
    MIRACLEImputer(max_steps=10_000, baseline="mean", validation_fraction=0.0, random_state=0).fit(X)
    assert len(told[-1]) == 10, "fifty steps are all that time allows"
    assert max(abs(a - 50 * (k + 1) / 11) for k, a in enumerate(told[-1])) < 2


def test_dual_steps_push_the_graph_towards_no_cycle():
    X = correlated()
    kw = {**FAST, "baseline": "mean", "validation_fraction": 0.0, "sparsity": 0.0}
    free, soft, hard = (MIRACLEImputer(dual_steps=k, **kw).fit(punched(X)).acyclicity_ for k in (0, 3, 10))
    assert hard < 0.3 * free
    assert hard <= soft <= free


def test_holes_move_with_the_predictions_of_the_window():
    X = punched(correlated(128))
    kw = {"baseline": "mean", "batch_size": 64, "validation_fraction": 0.0, "random_state": 0}
    never = MIRACLEImputer(max_steps=40, window=50, **kw).fit(X)
    often = MIRACLEImputer(max_steps=40, window=2, **kw).fit(X)
    pairs = zip(never.network_.parameters(), often.network_.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


@pytest.mark.filterwarnings("ignore:mice")
@pytest.mark.parametrize("baseline", ["auto", "mean"])
def test_keeps_to_the_time_budget(baseline, ticking):
    imputer = MIRACLEImputer(baseline=baseline, max_steps=200, time_budget=7200.0, random_state=0)
    imputer.fit(punched(correlated()))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 120
    assert 7200 <= ticking.passed < 10_800, "baselines take their time from the same budget"


@pytest.mark.filterwarnings("ignore:mice")
@pytest.mark.parametrize("baseline", ["auto", "ot"])
def test_leaves_time_for_the_network_where_a_baseline_fills_slowly(baseline, ticking, monkeypatch):
    """OT fills a new graph in many steps, each of which takes a minute."""
    from megae.imputers import ot

    make = ot.make_divergence

    def made(*settings):
        divergence = make(*settings)

        def slow(x, y):
            ticking.looks += 1
            return divergence(x, y)

        return slow

    monkeypatch.setattr(ot, "make_divergence", made)
    monkeypatch.setattr(miracle, "CANDIDATES", {"mice": QUICK["mice"], "ot": {"form": "batch"}})
    settings = {"form": "batch"} if baseline == "ot" else None
    imputer = MIRACLEImputer(baseline=baseline, baseline_settings=settings, time_budget=800 * 60.0, random_state=0).fit(
        as_graphs(correlated(600)), validation=as_graphs(punched(correlated(200, seed=5)))
    )
    assert imputer.outcome_.stopped == "time"
    assert imputer.outcome_.seconds > 150 * 60.0
    assert imputer.outcome_.best_rmse < np.inf
    assert 800 * 60.0 <= ticking.passed < 1000 * 60.0
    if baseline == "auto":
        assert all(np.isfinite(e) and e > 0 for e in imputer.baseline_errors_.values())
    else:
        assert isinstance(imputer.baseline_, OTImputer)


@pytest.mark.parametrize("baseline", ["gain", "ot"])
def test_the_device_is_read_where_rows_are_filled_by_the_baseline_too(baseline):
    X = punched(correlated(60))
    imputer = MIRACLEImputer(baseline=baseline, baseline_settings=QUICK[baseline], max_steps=5, random_state=0).fit(X)
    assert imputer.baseline_.device == "auto"
    imputer.baseline_.device = "cuda"
    assert np.isfinite(imputer.transform(X)).all()
    with pytest.raises(ValueError, match="device must be 'auto'"):
        imputer.set_params(device="abacus").transform(X)


def test_a_pickled_imputer_fills_the_same():
    X = punched(correlated(60))
    imputer = MIRACLEImputer(baseline="gain", baseline_settings=QUICK["gain"], max_steps=5, random_state=0).fit(X)
    assert same_bits(pickle.loads(pickle.dumps(imputer)).transform(X), imputer.transform(X))


@pytest.mark.gpu
@pytest.mark.parametrize("baseline", ["gain", "ot"])
def test_a_fit_on_a_gpu_fills_on_a_machine_without_one(baseline, monkeypatch):
    X = punched(correlated(200))
    imputer = MIRACLEImputer(baseline=baseline, baseline_settings=QUICK[baseline], max_steps=30, random_state=0).fit(X)
    assert next(imputer.network_.parameters()).is_cuda
    out, kept = imputer.transform(X), pickle.dumps(imputer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    np.testing.assert_allclose(pickle.loads(kept).transform(X), out, rtol=1e-3)


def test_same_seed_same_bits_other_seed_other_fill():
    X = punched(correlated(100))
    a, b, c = (MIRACLEImputer(baseline="mean", max_steps=30, random_state=s).fit_transform(X) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not np.allclose(a, c)


@pytest.mark.parametrize(
    "setting", [{"baseline": "knn"}, {"window": 0}, {"sweeps": 0}, {"hidden": 0}, {"sparsity": -1.0}]
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        MIRACLEImputer(**setting).fit(table())
