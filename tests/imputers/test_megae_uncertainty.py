"""Intervals and draws: nested, around the prediction, reproducible, and calibrated on what they should be."""

from __future__ import annotations

import math
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from imputer_cases import make, ring, same_bits
from megae_cases import collection, holes, megae, mixed, punched, waves

from megae.columns import Column
from megae.graphs import to_data
from megae.imputers.diagnostics import describe, simple_methods
from megae.imputers.uncertainty import MANY, Calibration
from megae.training.loop import Outcome
from megae.training.pool import GraphPool
from megae.training.task import Exam, exam_scores, first_entries

X = punched(waves(80), holes((80, 4)))
LOST = np.isnan(X)
A = ring(80)


@pytest.fixture(scope="module")
def fitted():
    return megae(calibration_fraction=0.3).fit(X, graph=A)


def test_intervals_hold_the_prediction_and_grow_with_coverage(fitted):
    filled, width = fitted.transform(X), 0.0
    for coverage in (0.5, 0.8, 0.9, 0.95):
        lower, upper = fitted.intervals(X, coverage=coverage)
        assert (lower <= filled).all()
        assert (filled <= upper).all()
        assert same_bits(lower[~LOST], X[~LOST])
        assert same_bits(upper[~LOST], X[~LOST])
        assert ((upper - lower)[LOST] > 0).all()
        now = (upper - lower)[LOST].mean()
        assert now > width
        width = now


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 90, float("nan")])
def test_impossible_coverage_is_refused(fitted, coverage):
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1"):
        fitted.intervals(X, coverage=coverage)


def test_half_width_is_the_conformal_quantile():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(99)
    calibration = Calibration(scores, np.zeros(99, dtype=np.int64), np.array([2.0, 0.5]))
    for coverage in (0.5, 0.9, 0.95):
        k = math.ceil(100 * coverage)
        assert np.allclose(calibration.half_width(coverage), np.sort(np.abs(scores))[k - 1] * np.array([2.0, 0.5]))
    assert np.isinf(calibration.half_width(0.995)).all()


def test_columns_with_many_cells_have_their_own_quantile():
    rng = np.random.default_rng(0)
    columns = np.repeat([0, 1, 2], [MANY, 3 * MANY, MANY - 1])
    scores = rng.standard_normal(columns.size) * np.array([1.0, 5.0, 1.0])[columns]
    half = Calibration(scores, columns, np.ones(3)).half_width(0.9)
    for e, own in ((0, scores[columns == 0]), (1, scores[columns == 1]), (2, scores)):
        k = math.ceil((own.size + 1) * 0.9)
        assert half[e] == np.sort(np.abs(own))[k - 1]
    assert half[1] > 3 * half[0]


def test_conformal_promise_on_exchangeable_errors():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        calibration = Calibration(rng.standard_t(3, 60), np.zeros(60, dtype=np.int64), np.ones(1))
        inside.append(np.abs(rng.standard_t(3, 50)) <= calibration.half_width(0.9)[0])
    assert 0.895 < np.mean(inside) < 0.925  # between 0.9 and 0.9 + 1/61, and 400 draws of noise


def test_spread_is_measured_on_the_cells_to_stop_by():
    X2 = X.copy()
    X2[:, 2] += 3.0 * np.random.default_rng(0).standard_normal(80)
    noisy = megae(calibration_fraction=0.2, validation_fraction=0.3).fit(X2, graph=A)
    lower, upper = noisy.intervals(X2, coverage=0.7)
    width = np.array([(upper - lower)[LOST[:, j], j].mean() / noisy.scale_[j] for j in range(4)])
    assert noisy.calibration_.spread.std() > 0
    assert np.allclose(width / noisy.calibration_.spread, (width / noisy.calibration_.spread)[0])


def test_too_few_cells_give_infinite_ends_and_keep_categories():
    frame = mixed(40)
    small = megae(calibration_fraction=0.05).fit(frame, graph=ring(40))
    assert small.calibration_.scores.size < 99
    filled = small.transform(frame)
    lower, upper = small.intervals(frame, coverage=0.99)
    lost = frame["size"].isna()
    assert np.isneginf(lower["size"][lost]).all()
    assert np.isposinf(upper["size"][lost]).all()
    assert (lower["flag"][frame["flag"].isna()] == 0).all()
    assert (upper["flag"][frame["flag"].isna()] == 1).all()
    assert lower["colour"].equals(filled["colour"])
    assert upper["colour"].equals(filled["colour"])
    assert (lower["rank"] <= filled["rank"]).all()


def test_infinite_ends_of_whole_numbers():
    frame = mixed(40)
    small = megae(calibration_fraction=0.05).fit(frame, graph=ring(40))
    with pytest.warns(UserWarning, match="too few for a coverage of 0.99: intervals have no ends"):
        lower, upper = small.intervals(frame, coverage=0.99)
    lost = frame["rank"].isna()
    assert np.isneginf(lower["rank"][lost].astype(float)).all()
    assert np.isposinf(upper["rank"][lost].astype(float)).all()
    assert (upper["rank"][~lost] == frame["rank"][~lost]).all()


def test_frames_come_back_as_frames():
    frame = pd.DataFrame(X, columns=list("abcd")).set_axis([f"n{i}" for i in range(80)])
    fitted = megae(calibration_fraction=0.3).fit(frame, graph=A)
    for out in (*fitted.intervals(frame, coverage=0.5), *fitted.sample(frame, n=2)):
        assert out.index.equals(frame.index)
        assert out.columns.equals(frame.columns)
        assert not out.isna().any().any()


def test_draws_differ_in_the_holes_alone(fitted):
    draws = fitted.sample(X, n=30)
    assert len(draws) == 30
    assert all(same_bits(d[~LOST], X[~LOST]) for d in draws)
    spread = np.std(draws, axis=0)
    assert (spread[LOST] > 0).all()
    sizes = fitted.calibration_.spread * fitted.scale_ * fitted.calibration_.scores.std()
    assert np.allclose([spread[LOST[:, j], j].mean() / sizes[j] for j in range(4)], 1.0, atol=0.35)


def test_seeds_of_draws(fitted):
    a, b, c = (fitted.sample(X, n=2, random_state=s) for s in (5, 5, 6))
    assert all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    assert not same_bits(a[0], c[0])
    assert not same_bits(a[0], a[1])
    assert same_bits(fitted.sample(X, n=1)[0], fitted.sample(X, n=1)[0])
    state = torch.get_rng_state(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    fitted.sample(X, n=1)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.random.get_state()[1].tobytes() == state[1]  # noqa: NPY002


def test_no_draws_are_refused(fitted):
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        fitted.sample(X, n=0)


def test_draws_follow_predicted_probabilities():
    columns = [Column("c", "categorical", 0, 3, categories=("a", "b", "c")), Column("f", "binary", 3, 4)]
    values = np.tile([0.2, 0.5, 0.3, 0.7], (6000, 1))
    calibration = Calibration(np.zeros(5), np.zeros(5, dtype=np.int64), np.ones(4))
    drawn = calibration.draw(values, np.ones(4), columns, np.random.default_rng(0))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert (drawn[:, :3].sum(axis=1) == 1).all()
    assert np.allclose(drawn.mean(axis=0), values[0], atol=0.03)


def test_errors_are_drawn_from_the_column_itself_where_it_has_enough():
    columns = [Column("a", "continuous", 0, 1), Column("b", "continuous", 1, 2)]
    scores = np.concatenate([np.full(60, 1.0), np.full(10, -9.0)])
    calibration = Calibration(scores, np.repeat([0, 1], [60, 10]), np.array([0.5, 2.0]))
    drawn = calibration.draw(np.zeros((500, 2)), np.array([10.0, 1.0]), columns, np.random.default_rng(0))
    assert (drawn[:, 0] == 5.0).all()
    assert set(np.unique(drawn[:, 1])) == {2.0, -18.0}


def test_graphs_come_back_as_graphs():
    graphs = collection(24)
    fitted = megae().fit(graphs)
    lower, upper = fitted.intervals(graphs[:3], coverage=0.8)
    (draw,) = fitted.sample(graphs[:3], n=1)
    for g, lo, up, d in zip(graphs, lower, upper, draw, strict=False):
        seen = ~torch.isnan(g.x)
        assert (lo.x <= up.x).all()
        assert torch.equal(lo.x[seen], g.x[seen])
        assert torch.equal(d.x[seen], g.x[seen])
        assert torch.isfinite(d.x).all()


MIXED = [Column("n", "continuous", 0, 1), Column("c", "categorical", 1, 4, categories=("a", "b", "c"))]


def exam_of(n: int, seed: int, columns: list[Column], copies: int = 1) -> Exam:
    """Rows of one number and one category, a third of the cells hidden, each category whole."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), np.eye(3)[rng.integers(0, 3, n)]])
    graphs = [to_data(part, ring(len(part))) for part in np.split(x, copies)]
    hidden = torch.from_numpy(np.repeat(rng.random((n, 2)) < 0.33, [1, 3], axis=1))
    pool = GraphPool(graphs, np.zeros(4), np.ones(4), torch.device("cpu"))
    return Exam(pool, ~hidden, hidden, first=first_entries(columns))


def by_hand(exam: Exam, values: np.ndarray, weight: np.ndarray) -> list[float]:
    """One squared error per hidden cell of the table, in a plain loop."""
    squares = []
    truth, hidden = exam.pool.whole.values.numpy(), exam.hidden.numpy()
    for i in range(len(values)):
        if hidden[i, 0]:
            squares.append((weight[0] * (values[i, 0] - truth[i, 0])) ** 2)
        if hidden[i, 1]:
            squares.append(sum((weight[e] * (values[i, e] - truth[i, e])) ** 2 for e in (1, 2, 3)) / 2)
    return squares


def test_a_category_is_one_cell_of_the_diagnostics():
    exam, centre, weight = exam_of(60, 0, MIXED), np.array([0.1, 0.5, 0.3, 0.2]), np.array([2.0, 1.0, 1.0, 1.0])
    squares = by_hand(exam, np.tile(centre, (60, 1)), weight)
    rmse = simple_methods(exam, centre, weight)
    assert rmse["mean"] == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-6)
    told = describe({"megae": 0.1} | rmse, Outcome(), exam, "range", {})
    assert told["n_held_out"] == len(squares) == int(exam.hidden[:, :2].sum())


def test_a_sure_and_wrong_category_counts_one():
    exam = exam_of(60, 1, MIXED)
    wrong = np.roll(exam.pool.whole.values.numpy(), 1, axis=1)
    errors = (wrong - exam.pool.whole.values.numpy())[exam.hidden.numpy()]
    errors[exam.columns() == 0] = 1.0
    one_hot = exam.columns() > 0
    errors[one_hot] = np.tile([1.0, -1.0, 0.0], one_hot.sum() // 3)
    assert exam.rms(errors) == 1.0


def test_a_category_is_one_cell_of_the_scores_to_stop_by():
    exam, weight = exam_of(40, 2, MIXED, copies=2), np.array([3.0, 1.0, 1.0, 1.0])

    class Centre:
        def at_rest(self, pool, visible):
            yield pool.whole, torch.full_like(pool.whole.values, 0.25), []

    scores = exam_scores(Centre(), exam, weight)  # type: ignore[arg-type]
    cells = exam.hidden[:, :2].sum(dim=1).numpy()
    squares = by_hand(exam, np.full((40, 4), 0.25), weight)
    ends = np.cumsum(cells)
    expected = [math.sqrt(np.mean(squares[: ends[19]])), math.sqrt(np.mean(squares[ends[19] :]))]
    assert np.allclose(scores, expected, rtol=1e-6)


def test_without_categories_each_entry_is_a_cell():
    assert first_entries([Column("a", "continuous", 0, 1), Column("b", "binary", 1, 2)]) is None
    exam = exam_of(30, 3, [Column(f"c{j}", "continuous", j, j + 1) for j in range(4)])
    assert exam.first is None
    errors = np.random.default_rng(0).normal(size=int(exam.hidden.sum()))
    assert exam.rms(errors) == np.sqrt(np.mean(errors**2))
    assert exam.cells() is exam.hidden


def test_score_counts_a_category_as_one_cell():
    rng = np.random.default_rng(4)
    number, codes = rng.normal(size=400), rng.choice(5, 400, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    frame = pd.DataFrame({"n": number, "c": pd.Categorical.from_codes(codes, list("abcde"))})
    hidden = np.random.default_rng(0).random((400, 2)) < 0.1
    hot = np.eye(5)[codes]
    of_numbers = ((number - number.mean()) / number.std())[hidden[:, 0]] ** 2
    of_codes = (((hot - hot.mean(axis=0)) ** 2).sum(axis=1) / hot.var(axis=0).sum())[hidden[:, 1]]
    expected = np.sqrt(np.mean([*of_numbers, *of_codes]))
    assert make("mean").fit(frame).score(frame) == pytest.approx(-expected, rel=1e-9)
    assert 0.8 < np.sqrt(of_codes.mean()) < 1.2


def test_the_graph_of_fit_is_not_used_for_other_rows_in_silence():
    frame = pd.DataFrame(X, columns=list("abcd")).set_axis([f"n{i}" for i in range(80)])
    fitted = make("feature-propagation").fit(frame, graph=A)
    rows_alone = make("mean").fit(frame, graph=A)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(frame)
        fitted.transform(frame.iloc[::-1], graph=A)
        rows_alone.transform(frame.iloc[::-1])
    for other in (frame.iloc[::-1], frame.set_axis(range(80)), frame.iloc[:79].reindex([*frame.index[:79], "n93"])):
        with pytest.warns(UserWarning, match="X has other row labels .* pass the graph over these rows as graph="):
            fitted.transform(other)


@pytest.mark.parametrize("as_graph", [lambda t: t, lambda t: nx.from_pandas_edgelist(t, "u", "v")])
@pytest.mark.parametrize(("index", "node", "held"), [(str, "80", "'80': str where"), (int, "'80'", "80: int where")])
def test_a_node_of_another_type_than_the_index_is_told_so(as_graph, index, node, held):
    frame = pd.DataFrame(X, columns=list("abcd")).set_axis(pd.Index([index(i) for i in range(80, 160)], dtype=object))
    edges = pd.DataFrame({"u": range(80, 159), "v": range(81, 160)})
    edges = as_graph(edges if index is str else edges.astype(str))
    with pytest.raises(ValueError, match=f"node {node} is not a row of X, whose index holds {held} the edges have"):
        make("feature-propagation").fit(frame, graph=edges)


def test_a_text_column_adds_its_cells_to_those_held_out_and_no_more():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=200), "c": pd.Categorical(rng.choice(list("abcdefghij"), 200))})
    frame = frame.mask(rng.random(frame.shape) < 0.2).astype({"c": "category"})
    fitted = megae(diagnose=True).fit(frame, graph=ring(200))
    columns = fitted.calibration_.columns
    in_text = int((columns > 0).sum()) // 10
    assert fitted.diagnostics_["n_held_out"] == int((columns == 0).sum()) + in_text
    error = fitted.calibration_.scores * (fitted.calibration_.spread * fitted.scale_ / fitted.unit_)[columns]
    total = (error[columns == 0] ** 2).sum() + (error[columns > 0] ** 2).sum() / 2
    expected = math.sqrt(total / fitted.diagnostics_["n_held_out"])
    assert fitted.diagnostics_["rmse"]["megae"] == pytest.approx(expected, rel=1e-9)
    assert set(fitted.diagnostics_["rmse"]) == {"megae", "graph_free", "mean", "propagation"}
