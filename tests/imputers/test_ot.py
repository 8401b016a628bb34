from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from imputer_cases import same_bits, table
from row_cases import as_graphs, correlated, graphs_error, punched, table_error
from torch_geometric.data import Data

from megae.imputers import OTImputer, ot

FAST = {
    "batch": {"form": "batch", "max_steps": 800, "batch_size": 64, "visits": 60, "learning_rate": 0.03},
    "round-robin": {"form": "round-robin", "max_steps": 600, "batch_size": 64, "pairs": 3, "model": "linear"},
}


@pytest.mark.parametrize("form", FAST)
def test_beats_the_mean_clearly_on_a_table_and_on_new_graphs(form):
    """The mean has 0.99; rounding alone moves the batch form from 0.59 to 0.62."""
    assert table_error(OTImputer(random_state=0, **FAST[form])) < 0.75
    assert graphs_error(OTImputer(random_state=0, **FAST[form])) < 0.75


def test_perceptrons_in_round_robin():
    assert table_error(OTImputer(random_state=0, **{**FAST["round-robin"], "model": "mlp"})) < 0.6


def test_auto_takes_the_form_with_the_lower_held_out_error():
    X = punched(correlated(300))
    kw = {"max_steps": 200, "batch_size": 32, "pairs": 2, "random_state": 0}
    auto = OTImputer(**kw).fit(X)
    assert auto.outcome_.best_rmse == min(h["val_rmse"] for h in auto.outcome_.history)
    poor = OTImputer(**{**kw, "noise": 50.0, "learning_rate": 1e-3}).fit(X)
    assert poor.form_ == "round-robin"
    assert OTImputer(**{**kw, "max_steps": 80}).fit(X).form_ == "batch", "80 steps do not reach six columns"
    assert OTImputer(**{**kw, "validation_fraction": 0.0}).fit(X).form_ == "batch"


def test_auto_judges_both_forms_where_training_graphs_have_holes():
    """At this learning rate models learn nothing; values of new graphs have a rate of their own."""
    kw = {"max_steps": 90, "batch_size": 32, "pairs": 2, "visits": 30, "learning_rate": 1e-9, "random_state": 0}
    imputer = OTImputer(**kw).fit(as_graphs(punched(correlated(400)), size=16))
    assert imputer.form_ == "batch"
    assert np.isfinite(imputer.outcome_.best_rmse)
    alone = OTImputer(form="round-robin", **kw).fit(as_graphs(punched(correlated(400)), size=16))
    assert imputer.outcome_.best_rmse < alone.outcome_.best_rmse


def held_out_error(imputer, ground, most: int = 2000) -> float:
    """RMSE in ranges on the held-out cells of the first graphs, in whole, of at most so many rows."""
    held, fill, n = ground.division.validation, imputer.transform, 0
    graphs = []
    for g in held.graphs:
        if graphs and n + len(g.x) > most:
            break
        graphs.append(g)
        n += len(g.x)
    visible, hidden = held.visible[:n], held.hidden[:n]
    truth = torch.cat([g.x for g in graphs])
    given = truth.masked_fill(~visible, torch.nan).split([len(g.x) for g in graphs])
    filled = torch.cat([g.x for g in fill([Data(x=x, edge_index=torch.empty(2, 0)) for x in given])])
    rows = torch.cat([g.x for g in ground.division.train])
    span = np.ptp(np.where(ground.division.trainable, rows, np.nan)[~rows.isnan().any(dim=1)], axis=0)
    return float(((filled - truth) / torch.from_numpy(span))[hidden].square().mean().sqrt())


@pytest.mark.parametrize("most", [2000, 150])
def test_both_forms_are_judged_on_the_same_cells_as_they_are_kept(most, monkeypatch):
    grounds, train = [], OTImputer._train
    monkeypatch.setattr(ot, "EXAM_ROWS", most)
    monkeypatch.setattr(OTImputer, "_train", lambda self, ground: grounds.append(ground) or train(self, ground))
    kw = {"max_steps": 200, "batch_size": 32, "pairs": 2, "visits": 10, "random_state": 0}
    imputer = OTImputer(**kw).fit(as_graphs(correlated(400)), validation=as_graphs(punched(correlated(200, seed=5))))
    assert len(torch.cat([g.x for g in grounds[0].division.validation.graphs])) > most or most == 2000
    assert set(imputer.form_errors_) == {"batch", "round-robin"}
    for form, error in imputer.form_errors_.items():
        imputer.form_ = form
        assert error == pytest.approx(held_out_error(imputer, grounds[0], most), rel=1e-4)


def test_of_a_table_both_forms_are_judged_on_all_held_out_cells(monkeypatch):
    X = punched(correlated(300))
    kw = {"max_steps": 200, "batch_size": 32, "pairs": 2, "random_state": 0}
    errors = OTImputer(**kw).fit(X).form_errors_
    for form, error in errors.items():
        alone = OTImputer(form=form, **kw).fit(X)
        assert alone.form_errors_ == {}
        if form == "batch":
            assert error == pytest.approx(alone.outcome_.best_rmse, rel=1e-4)
    assert len(set(errors.values())) == 2


def test_rows_of_the_fitted_table_come_back_as_fitted_and_new_ones_do_not_move_them():
    X = punched(correlated(100))
    imputer = OTImputer(form="batch", max_steps=20, visits=3, random_state=0).fit(X)
    donors = imputer.donors_.clone()
    out = imputer.transform(X)
    np.testing.assert_allclose(out, imputer.scaler_.backward(donors), rtol=1e-4)
    other = X.copy()
    other[0, :] = np.nan_to_num(other[0], nan=5.0) + 0.1
    other[0, 0] = np.nan
    assert not np.allclose(imputer.transform(other), out)
    assert torch.equal(imputer.donors_, donors)


def test_training_graphs_without_holes_are_the_donors_as_they_are():
    items = as_graphs(correlated(200))
    imputer = OTImputer(form="batch", random_state=0).fit(items, validation=as_graphs(punched(correlated(60, seed=2))))
    rows = torch.cat([g.x for g in items])
    torch.testing.assert_close(imputer.donors_, imputer.scaler_.forward(rows))


@pytest.mark.parametrize("form", FAST)
def test_graphs_are_filled_apart(form):
    imputer = OTImputer(random_state=0, **{**FAST[form], "max_steps": 30, "visits": 5}).fit(as_graphs(correlated(200)))
    new = as_graphs(punched(correlated(60, seed=2)))
    together = imputer.transform(new)
    torch.testing.assert_close(together[2].x, imputer.transform(new[2:])[0].x, rtol=1e-5, atol=1e-5)


def test_blur_is_five_percent_of_the_median_cost_in_standard_deviations():
    X = correlated(300)
    imputer = OTImputer(form="batch", validation_fraction=0.0, random_state=0).fit(X)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    cost = ((z[:, None] - z[None]) ** 2).sum(axis=2)[~np.eye(300, dtype=bool)] / 2
    assert imputer.blur_ == pytest.approx(0.05 * np.median(cost), rel=1e-3)
    assert OTImputer(form="batch", epsilon=0.7, max_steps=1, random_state=0).fit(X).blur_ == 0.7


@pytest.mark.parametrize("form", FAST)
def test_geomloss_gives_the_same_fill(form):
    pytest.importorskip("geomloss")
    X = punched(correlated(100))
    kw = {**FAST[form], "max_steps": 20, "epsilon": 0.5, "random_state": 0}
    own, theirs = (OTImputer(solver=s, **kw).fit_transform(X) for s in ("own", "geomloss"))
    holes = np.isnan(X)
    assert not np.allclose(own[holes], OTImputer(**{**kw, "max_steps": 1}).fit_transform(X)[holes], rtol=1e-2)
    np.testing.assert_allclose(((own - theirs) / np.nanstd(X, axis=0))[holes], 0.0, atol=1e-3)


@pytest.mark.parametrize("form", FAST)
def test_the_device_is_read_where_rows_are_filled(form):
    X = punched(correlated(60))
    imputer = OTImputer(form=form, max_steps=5, visits=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="device must be 'auto'"):
        imputer.set_params(device="abacus").transform(X[:30])


@pytest.mark.gpu
@pytest.mark.parametrize("form", FAST)
def test_a_fit_on_a_gpu_fills_on_a_machine_without_one(form, monkeypatch):
    X = punched(correlated(200))
    imputer = OTImputer(random_state=0, **{**FAST[form], "max_steps": 30}).fit(X)
    out, kept = imputer.transform(X), pickle.dumps(imputer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    np.testing.assert_allclose(pickle.loads(kept).transform(X), out, rtol=1e-3)


@pytest.mark.parametrize("form", ["auto", *FAST])
def test_keeps_to_the_time_budget(form, ticking):
    imputer = OTImputer(form=form, max_steps=200, time_budget=3600.0, random_state=0).fit(punched(correlated(200)))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 60
    assert 3600 <= ticking.passed < 5400, "two forms share the budget"


@pytest.fixture
def slow_divergence(monkeypatch, ticking):
    """Every divergence takes a minute, wherever it is asked for; gives the clock."""
    make = ot.make_divergence

    def made(*settings):
        divergence = make(*settings)

        def slow(x, y):
            ticking.looks += 1
            return divergence(x, y)

        return slow

    monkeypatch.setattr(ot, "make_divergence", made)
    return ticking


@pytest.mark.parametrize("complete", [True, False])
def test_both_forms_get_their_share_of_the_time_where_graphs_have_to_be_filled(complete, slow_divergence, monkeypatch):
    outcomes, descend = [], ot.descend
    monkeypatch.setattr(ot, "descend", lambda *a, **how: outcomes.append(descend(*a, **how)) or outcomes[-1])
    train = as_graphs(correlated(400) if complete else punched(correlated(400)))
    imputer = OTImputer(time_budget=600 * 60.0, random_state=0)
    imputer.fit(train, validation=as_graphs(punched(correlated(200, seed=5))))
    assert len(outcomes) == (1 if complete else 2)
    assert outcomes[-1].stopped == "time"
    assert 60 < outcomes[-1].steps < 300, "round-robin has half of the time"
    assert all(np.isfinite(e) and e > 0 for e in imputer.form_errors_.values())
    assert 600 * 60.0 <= slow_divergence.passed < 800 * 60.0


def test_a_hurry_ends_with_its_context(slow_divergence):
    imputer = OTImputer(form="batch", visits=30, random_state=0).fit(as_graphs(correlated(200)))
    new, start = as_graphs(punched(correlated(60, seed=2))), slow_divergence.passed
    with imputer.hurried(30 * 60.0):
        hurried = torch.cat([g.x for g in imputer.transform(new)])
    assert 30 * 60.0 <= slow_divergence.passed - start < 50 * 60.0
    assert hurried.isfinite().all()
    start = slow_divergence.passed
    whole = torch.cat([g.x for g in imputer.transform(new)])
    assert slow_divergence.passed - start > 80 * 60.0
    assert not torch.equal(hurried, whole)


def test_a_column_is_compared_with_rows_that_show_it(monkeypatch):
    """Of the two batches of round-robin the first is any rows with that column filled, the second shows it."""
    columns, clouds, checked = [], [], []
    column, make = ot.ColumnModels.column, ot.make_divergence
    monkeypatch.setattr(ot.ColumnModels, "column", lambda self, rows, j: columns.append(j) or column(self, rows, j))

    def made(*settings):
        divergence = make(*settings)

        def watched(x, y):
            clouds.append((columns[-1], x.detach().clone(), y.clone(), x.requires_grad))
            return divergence(x, y)

        return watched

    monkeypatch.setattr(ot, "make_divergence", made)
    X = punched(correlated(100), rate=0.4)
    imputer = OTImputer(form="round-robin", max_steps=180, pairs=2, batch_size=16, validation_fraction=0.0)
    imputer.set_params(random_state=0).fit(X)
    z = imputer.scaler_.forward(torch.from_numpy(X))
    for j, mine, shown, moves in clouds:
        known = z[:, j][z[:, j].isfinite()]
        assert torch.isin(shown[..., j], known).all()
        assert moves
        checked.append((j, bool(torch.isin(mine[..., j], known).all())))
    assert {j for j, _ in checked} == set(range(6))
    assert not all(whole for _, whole in checked), "the first batch holds rows that lack the column too"


def test_same_seed_same_bits_other_seed_other_fill():
    X = punched(correlated(100))
    a, b, c = (OTImputer(max_steps=100, pairs=2, random_state=s).fit_transform(X) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not np.allclose(a, c)


@pytest.mark.parametrize(
    "setting",
    [{"form": "both"}, {"model": "tree"}, {"solver": "pot"}, {"batch_size": 0}, {"visits": 0}, {"epsilon": 0.0}],
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        OTImputer(**setting).fit(table())
