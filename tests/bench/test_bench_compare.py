"""Comparing methods on a table of one's own: the same hidden cells for all, nothing of them seen, scored as said."""

from __future__ import annotations

import inspect
import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from compare_cases import mixed, oracle, ring, wave

from megae.bench import compare as module
from megae.bench.compare import compare, fill_hidden
from megae.bench.hidden_cells import draw_repeat
from megae.imputers import REGISTRY, GraphImputer, MeanImputer
from megae.tables import read_table
from tests.imputers.imputer_cases import SMALL

SIMPLE = ["zero", "mean", "knn", "feature-propagation"]


def small(name: str) -> dict[str, object]:
    """Settings under which the method is quick."""
    known = inspect.signature(REGISTRY[name]).parameters
    quick = {"max_steps": 5, "max_iter": 2, "verbose": 0, "diagnose": False, "device": "cpu"}
    return {k: v for k, v in quick.items() if k in known} | SMALL.get(name, {})


def seen_by_methods(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> dict[str, list[np.ndarray]]:
    """Record the tables that the methods of these names are fitted on."""
    seen: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for name in names:

        class Spy(REGISTRY[name]):  # type: ignore[misc]
            record = seen[name]

            def fit_transform(self, X, y=None, *, graph=None, validation=None):
                self.record.append(read_table(X).cells.copy())
                return super().fit_transform(X, y, graph=graph, validation=validation)

        monkeypatch.setitem(REGISTRY, name, Spy)
    return seen


@pytest.mark.parametrize("graph", [ring(), None], ids=["graph", "no-graph"])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_changing_a_hidden_value_changes_no_bit_of_any_fill(name, graph):
    X = wave()
    repeat = draw_repeat(X, 0.15, "mcar", "range", (3, 4), graph)
    rng = np.random.default_rng(0)
    other = np.where(repeat.hidden, 1e4 * rng.standard_normal(X.shape), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = fill_hidden(X, graph, repeat, name, small(name))
        second = fill_hidden(other, graph, repeat, name, small(name))
        assert first.tobytes() == second.tobytes()
        moved = np.where(repeat.hidden, X, 2.0 * X + rng.random(X.shape))
        third = fill_hidden(moved, graph, repeat, name, small(name))
    if name != "zero":
        assert third[repeat.hidden].tobytes() != first[repeat.hidden].tobytes(), "visible cells must matter"


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_changing_hidden_values_of_a_mixed_frame_changes_no_bit(name):
    frame = mixed()
    repeat = draw_repeat(frame, 0.15, "mcar", "range", (3, 4))
    other = frame.copy()
    for j, column in enumerate(frame.columns):
        values = frame[column].array.copy()
        known = np.flatnonzero(~frame[column].isna().to_numpy() & ~repeat.hidden[:, j])
        values[np.flatnonzero(repeat.hidden[:, j])] = values[known[-1]]
        other[column] = values
    assert not other.equals(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (fill_hidden(f, ring(), repeat, name, small(name)) for f in (frame, other))
    assert first.tobytes() == second.tobytes()


def another_kind(frame: pd.DataFrame, hidden: np.ndarray) -> pd.DataFrame:
    """The table with one hidden cell in each column that, seen, would change what the column is."""
    other = frame.copy()
    strange = {"whole": 2.5, "flag": 2, "colour": "amber", "sure": 2, "count": 0.1, "bit": 2}
    for name, value in strange.items():
        j = frame.columns.get_loc(name)
        column = frame[name].astype(object)
        column.iloc[np.flatnonzero(hidden[:, j])[0]] = value
        other[name] = column.astype("category") if name == "colour" else column
        if name in ("whole", "count", "bit"):
            other[name] = pd.to_numeric(column.astype("Float64"))
    return other


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_hidden_values_that_would_change_what_a_column_is_change_no_bit(name):
    frame = mixed().assign(bit=np.arange(60) % 3 % 2)
    repeat = draw_repeat(frame, 0.15, "mcar", "range", (3, 4))
    other = another_kind(frame, repeat.hidden)
    assert not (other.dtypes == frame.dtypes)[["whole", "flag", "colour", "sure", "count", "bit"]].any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (fill_hidden(f, ring(), repeat, name, small(name)) for f in (frame, other))
    assert first.tobytes() == second.tobytes()


def test_a_category_seen_nowhere_else_counts_as_wrong(monkeypatch):
    rng = np.random.default_rng(0)
    colours = [f"a{i}" if rng.random() < 0.2 else ("red", "blue")[i % 2] for i in range(200)]
    frame = pd.DataFrame({"colour": pd.Categorical(colours)})
    hidden: list[np.ndarray] = []

    class Knowing(GraphImputer):
        def __init__(self):
            super().__init__()

        def fit_transform(self, X, y=None, *, graph=None, validation=None):
            hidden.append(X["colour"].isna().to_numpy())
            known = X["colour"].cat.categories
            truth = pd.Series([c if c in known else known[0] for c in colours])
            return X.assign(colour=X["colour"].where(X["colour"].notna(), truth))

    monkeypatch.setitem(REGISTRY, "knowing", Knowing)
    knowing = compare(frame, None, ["knowing"], rate=0.2).winner
    unique = np.concatenate([np.array([c.startswith("a") for c in colours])[h] for h in hidden])
    assert 0 < unique.mean() < 1
    assert knowing.error_rate == pytest.approx(unique.mean())


def test_score_is_the_rmse_over_hidden_cells_in_visible_ranges(monkeypatch):
    seen = seen_by_methods(monkeypatch, ["mean"])
    X = wave(80, 3)
    for unit, spread in (("range", lambda v: v.max() - v.min()), ("std", lambda v: v.std())):
        seen["mean"].clear()
        result = compare(X, ring(80), ["mean"], unit=unit, repeats=2)
        assert len(seen["mean"]) == 2
        errors, columns = [], []
        for shown in seen["mean"]:
            for i, j in np.argwhere(np.isnan(shown) & ~np.isnan(X)):
                visible = shown[:, j][~np.isnan(shown[:, j])]
                errors.append((visible.mean() - X[i, j]) / spread(visible))
                columns.append(j)
        errors, columns = np.array(errors), np.array(columns)
        assert result.winner.score == pytest.approx(math.sqrt(np.mean(errors**2)))
        assert result.winner.rmse == result.winner.score
        assert result.winner.mae == pytest.approx(np.mean(np.abs(errors)))
        assert result.winner.error_rate is None
        for column in result.columns():
            own = errors[columns == int(column["name"][1:])]
            assert column["cells"] == len(own)
            assert column["figures"]["mean"] == pytest.approx(math.sqrt(np.mean(own**2)))
        assert result.to_dict()["cells"]["hidden"] == len(errors)


def test_every_method_gets_the_same_cells_and_each_repeat_others(monkeypatch):
    seen = seen_by_methods(monkeypatch, SIMPLE)
    X = wave()
    result = compare(X, ring(), SIMPLE, repeats=3, rate=0.2)
    assert [len(tables) for tables in seen.values()] == [3] * len(SIMPLE)
    for tables in seen.values():
        for mine, others in zip(tables, seen["mean"], strict=True):
            assert mine.tobytes() == others.tobytes()
    masks = [np.isnan(t) & ~np.isnan(X) for t in seen["mean"]]
    assert not np.array_equal(masks[0], masks[1])
    observed = (~np.isnan(X)).sum()
    assert all(0.1 < m.sum() / observed < 0.3 for m in masks)
    for shown in seen["mean"]:
        kept = ~np.isnan(shown)
        np.testing.assert_array_equal(shown[kept], X[kept])
    assert result.to_dict()["cells"]["hidden"] == sum(m.sum() for m in masks)


def test_without_a_graph_each_method_builds_one_from_what_it_is_shown(monkeypatch):
    built = []
    import megae.imputers.base as base

    real = base.knn_adjacency
    monkeypatch.setattr(base, "knn_adjacency", lambda x, k: built.append(np.array(x)) or real(x, k))
    seen = seen_by_methods(monkeypatch, ["feature-propagation"])
    compare(wave(), None, ["feature-propagation", "mean"], repeats=2)
    assert built
    shown = {table.tobytes() for table in seen["feature-propagation"]}
    assert {table.tobytes() for table in built} <= shown


def test_a_better_method_wins_and_equal_ones_are_tied(monkeypatch):
    X = wave(120, 4)
    monkeypatch.setitem(REGISTRY, "good", oracle(X, 0.02))
    monkeypatch.setitem(REGISTRY, "same", oracle(X, 0.02))
    monkeypatch.setitem(REGISTRY, "near", oracle(X, -0.02))
    monkeypatch.setitem(REGISTRY, "poor", oracle(X, 0.2))
    result = compare(X, None, ["poor", "near", "good", "same"])
    assert {result.winner.method, result.entries[1].method, result.entries[2].method} == {"good", "same", "near"}
    assert {e.method for e in result.tied} | {result.winner.method} == {"good", "same", "near"}
    poor = result.entries[3]
    assert (poor.method, poor.status) == ("poor", "behind")
    assert poor.difference_low > 0
    assert result.winner.low < 0.02 < result.winner.high
    assert "not distinguishable" in result.verdict()
    assert "mean" not in result.verdict()


def test_failing_methods_are_listed_and_the_rest_goes_on(monkeypatch):
    class Broken(MeanImputer):
        def _fit(self, graphs, validation):
            raise RuntimeError("it fell\nover")

    class Vandal(MeanImputer):
        def fit_transform(self, X, y=None, *, graph=None, validation=None):
            return super().fit_transform(X, graph=graph) + 1.0

    class Lazy(MeanImputer):
        def fit_transform(self, X, y=None, *, graph=None, validation=None):
            return X

    for name, cls in (("broken", Broken), ("vandal", Vandal), ("lazy", Lazy)):
        monkeypatch.setitem(REGISTRY, name, cls)
    result = compare(wave(), ring(), ["broken", "vandal", "mean", "lazy", "zero"])
    assert [e.method for e in result.entries] == ["mean", "zero", "broken", "vandal", "lazy"]
    said = {e.method: e.error for e in result.failed}
    assert said["broken"] == "RuntimeError: it fell over"
    assert "changed observed cells" in said["vandal"]
    assert "left holes open" in said["lazy"]
    assert "failed: RuntimeError: it fell over" in str(result)
    with pytest.raises(ValueError, match="no method could be scored; broken failed with RuntimeError: it fell over"):
        compare(wave(), ring(), ["broken"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far", [1e200, -1e308])
def test_a_method_whose_error_is_not_finite_is_not_ranked(monkeypatch, far):
    class Astray(MeanImputer):
        def _fill(self, graphs):
            return [np.full(g.x.shape, far) for g in graphs]

    monkeypatch.setitem(REGISTRY, "astray", Astray)
    result = compare(wave(), ring(), ["astray", "mean", "zero"])
    assert [e.method for e in result.entries] == ["mean", "zero", "astray"]
    assert "their error is not a finite number" in result.entries[-1].error
    assert result.entries[-1].rank is None
    assert "inf" not in f"{result}".replace("infinite", "")
    with pytest.raises(ValueError, match="no method could be scored; astray failed with"):
        compare(wave(), ring(), ["astray"])


def test_values_that_cannot_be_squared_are_refused():
    X = wave()
    X[5, 1] = 1e308
    with pytest.raises(ValueError, match=r"1e\+308, at row 5, column 'x1', too large to compute with"):
        compare(X, ring(), ["mean", "svd"])


@pytest.mark.parametrize("budget", [0, 0.0, -1.0, float("nan"), "10"])
def test_a_time_budget_that_is_no_time_is_refused(budget):
    with pytest.raises(ValueError, match="time_budget must be a number of seconds above 0, or None"):
        compare(wave(), ring(), ["mean"], time_budget=budget)


def test_a_method_that_fails_in_one_repeat_alone_is_not_ranked(monkeypatch):
    calls = []

    class Moody(MeanImputer):
        def _fit(self, graphs, validation):
            calls.append(1)
            if len(calls) == 2:
                raise ValueError("not today")
            super()._fit(graphs, validation)

    monkeypatch.setitem(REGISTRY, "moody", Moody)
    result = compare(wave(), ring(), ["moody", "mean"])
    assert result.entries[-1].error == "ValueError: not today"
    assert result.entries[-1].rank is None


def test_mean_runs_beside_the_methods_asked_for_and_cannot_win():
    X = wave()
    X = np.random.default_rng(0).permutation(X)  # no neighbour tells anything
    result = compare(X, ring(), ["zero"])
    assert [(e.method, e.rank) for e in result.entries] == [("zero", 1), ("mean", None)]
    assert [e.status for e in result.entries] == ["winner", "reference"]
    result = compare(X, ring(), ["feature-propagation"])
    assert result.winner.method == "feature-propagation"
    assert "mean, which was not asked for, has a lower error still" in result.verdict()
    asked = compare(X, ring(), ["mean", "zero"])
    assert [e.rank for e in asked.entries] == [1, 2]


def test_trivial_methods_that_are_as_good_are_named(monkeypatch):
    X = np.random.default_rng(0).standard_normal((80, 3))
    result = compare(X, None, ["mean", "median", "graph-mean"])
    assert "nothing shows that the graph or a model helps" in result.verdict()
    monkeypatch.setitem(REGISTRY, "fancy", type("Fancy", (MeanImputer,), {}))
    result = compare(X, None, ["fancy", "mean"])
    assert result.winner.method == "fancy"
    assert "mean cannot be told from the winner here" in result.verdict()
    assert (result.winner.best, result.entries[1].best) == (1.0, 0.0), "of two that fill alike, one is first throughout"


def test_all_registered_methods_take_part_by_default(monkeypatch):
    kept = {name: REGISTRY[name] for name in ("knn", "mean", "zero")}
    monkeypatch.setattr(module, "REGISTRY", kept)
    result = compare(wave(), ring())
    assert {e.method for e in result.entries} == set(kept)


def test_unknown_method_suggests_a_near_one():
    with pytest.raises(ValueError, match=r"no imputer named 'feature_propagation'; did you mean 'feature-propagation'"):
        compare(wave(), ring(), ["mean", "feature_propagation"])
    with pytest.raises(ValueError, match=r"methods must be a list of names, got the text 'mean'"):
        compare(wave(), ring(), "mean")
    with pytest.raises(ValueError, match="names no method"):
        compare(wave(), ring(), [])


def test_options_reach_the_methods_that_have_them(monkeypatch):
    made = []

    class Listening(MeanImputer):
        def __init__(self, *, time_budget=None, device="auto", random_state=None, depth=1):
            super().__init__()
            self.time_budget, self.device, self.random_state, self.depth = time_budget, device, random_state, depth
            made.append(self)

    monkeypatch.setitem(REGISTRY, "listening", Listening)
    settings = {"listening": {"depth": 7}}
    result = compare(wave(), ring(), ["listening", "mean"], time_budget=2.5, device="cpu", settings=settings)
    assert len(made) == 3
    assert {(m.time_budget, m.device, m.depth) for m in made} == {(2.5, "cpu", 7)}
    assert result.notes == [], "it had time to spare"
    [note] = compare(wave(), ring(), ["listening", "mean"], time_budget=1e-9).notes
    assert note == "the time budget of 1e-09 s was used up by listening: with more, they may do better"
    assert len({m.random_state for m in made}) == 3
    assert result.to_dict()["settings"]["methods"] == settings
    with pytest.raises(ValueError, match="settings names 'knn', which does not take part"):
        compare(wave(), ring(), ["mean"], settings={"knn": {}})
    with pytest.raises(ValueError, match="mean has no argument 'depth'"):
        compare(wave(), ring(), ["mean"], settings={"mean": {"depth": 1}})


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar", "whole-node"])
def test_every_mechanism(mechanism, monkeypatch):
    seen = seen_by_methods(monkeypatch, ["mean"])
    X = wave(100, 5)
    result = compare(X, ring(100), ["mean", "knn"], mechanism=mechanism, rate=0.2)
    assert result.settings["mechanism"] == mechanism
    hidden = [np.isnan(shown) & ~np.isnan(X) for shown in seen["mean"]]
    if mechanism == "whole-node":
        assert all((h == ~np.isnan(X))[h.any(axis=1)].all() for h in hidden)
    if mechanism == "mnar":
        standard = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
        assert np.mean([standard[h].mean() for h in hidden]) > 0.3


def test_the_seed_decides_everything_and_global_state_nothing():
    X, A = wave(), ring()
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    runs = [compare(X, A, SIMPLE, random_state=s, n_resamples=200).to_dict() for s in (0, 0, 1)]
    for run in runs:
        for method in run["methods"]:
            method.pop("seconds")
    assert json.dumps(runs[0]) == json.dumps(runs[1])
    assert json.dumps(runs[0]["methods"]) != json.dumps(runs[2]["methods"])
    drawn = np.random.random(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert drawn == (np.random.random(), torch.rand(1).item())  # noqa: NPY002


def test_tables_of_all_kinds_give_the_same_ranking():
    X, A = wave(), ring()
    wanted = compare(X, A, SIMPLE, n_resamples=50).entries
    frame = pd.DataFrame(X, index=[f"n{i}" for i in range(len(X))])
    edges = np.argwhere(A.toarray() > 0)
    named = pd.DataFrame({"source": [f"n{i}" for i in edges[:, 0]], "target": [f"n{i}" for i in edges[:, 1]]})
    for table, graph in ((X.tolist(), A), (torch.from_numpy(X), edges.T), (sp.csr_array(X), A), (frame, named)):
        found = compare(table, graph, SIMPLE, n_resamples=50).entries
        assert [e.method for e in found] == [e.method for e in wanted]
        assert [e.score for e in found] == pytest.approx([e.score for e in wanted])


def test_input_is_left_as_it_was():
    frame, kept, A = mixed(), mixed(), ring()
    compare(frame, A, ["mean", "knn"])
    pd.testing.assert_frame_equal(frame, kept)
    X, before = wave(), wave()
    compare(X, A, ["mean"])
    assert X.tobytes() == before.tobytes()


def test_categories_are_scored_as_right_or_wrong(monkeypatch):
    frame = mixed(200)[["colour", "double"]]
    seen: list[pd.DataFrame] = []

    class Red(GraphImputer):
        def __init__(self):
            super().__init__()

        def fit_transform(self, X, y=None, *, graph=None, validation=None):
            seen.append(X)
            return X.assign(colour=X["colour"].fillna("red"), double=X["double"].fillna(0.0))

    monkeypatch.setitem(REGISTRY, "red", Red)
    result = compare(frame, None, ["red"], repeats=2, rate=0.2)
    hidden = [shown["colour"].isna() & frame["colour"].notna() for shown in seen]
    wrong = np.concatenate([(frame["colour"][h] != "red").to_numpy() for h in hidden])
    red = result.winner
    assert red.error_rate == pytest.approx(wrong.mean())
    numbers = [
        (frame["double"][h].to_numpy() / np.ptp(shown["double"].dropna()))
        for shown in seen
        if (h := shown["double"].isna() & frame["double"].notna()).any()
    ]
    flat = np.concatenate(numbers)
    assert red.rmse == pytest.approx(np.sqrt(np.mean(flat**2)))
    assert red.score == pytest.approx(np.sqrt((wrong.sum() + (flat**2).sum()) / (len(wrong) + len(flat))))
    kinds = {column["name"]: column["measure"] for column in result.columns()}
    assert kinds == {"colour": "error_rate", "double": "rmse"}
    alone = compare(frame[["colour"]], None, ["mean", "zero"])
    assert alone.winner.rmse is None
    assert alone.winner.score == pytest.approx(math.sqrt(alone.winner.error_rate))


def test_tiny_tables_are_refused_with_what_is_needed():
    with pytest.raises(ValueError, match=r"40 observed cells, too few .* a share of 0.1 needs at least 50"):
        compare(np.arange(40.0).reshape(20, 2), None, ["mean"])
    compare(np.arange(40.0).reshape(20, 2) % 7, None, ["mean"], rate=0.2)
    wide = np.random.default_rng(0).random((4, 100))
    with pytest.raises(ValueError, match=r"in [0-4] rows could be hidden .* every column keeps 3 .* 5 cells in 5 rows"):
        compare(wide, None, ["mean"])
    with pytest.raises(ValueError, match=r"every column holds one and the same value .* a column that varies"):
        compare(np.ones((100, 3)), None, ["mean"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": 1.5}, "rate must be a number strictly between 0 and 1"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
        ({"n_resamples": 2.5}, "n_resamples must be a whole number"),
        ({"mechanism": "luck"}, "mechanism 'luck' is not known"),
        ({"unit": "mile"}, "unit must be one of"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        compare(wave(), ring(), ["mean"], **options)


def test_infinity_and_all_holes_are_refused():
    X = wave()
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity, at row 3, column 'x2'"):
        compare(X, ring(), ["mean"])
    with pytest.raises(ValueError, match="all holes"):
        compare(np.full((60, 3), np.nan), ring(), ["mean"])


def test_constant_columns_do_not_count_and_are_named():
    X = wave()
    X[:, 1] = 5.0
    result = compare(X, ring(), ["mean", "zero"])
    assert "x1" not in {column["name"] for column in result.columns()}
    assert any("'x1'" in note for note in result.notes)
    assert result.winner.score < 1.0


def test_few_rows_are_said():
    X = np.random.default_rng(0).random((10, 30))
    assert any("rows have hidden cells" in note for note in compare(X, None, ["mean"]).notes)
    assert compare(wave(), ring(), ["mean"]).notes == []


def test_what_methods_warn_of_is_kept_beside_them(monkeypatch):
    class Worried(MeanImputer):
        def _fit(self, graphs, validation):
            warnings.warn("mind the gap", stacklevel=2)
            super()._fit(graphs, validation)

    monkeypatch.setitem(REGISTRY, "worried", Worried)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = compare(wave(), ring(), ["worried", "mean"])
    assert {e.method: e.warnings for e in result.entries} == {"worried": ("mind the gap",), "mean": ()}


def test_interrupting_one_training_ends_the_comparison(monkeypatch):
    from megae.training.loop import Trainer

    def interrupted(self, step, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(wave(), ring(), ["megae", "mean"], settings={"megae": small("megae")})
