import numpy as np
import pytest

from megae.columns import Column
from megae.models.column_forests import ColumnForests, grew

COLUMNS = [Column("a", "continuous", 0, 1), Column("c", "categorical", 1, 4), Column("b", "continuous", 4, 5)]


def model(columns=COLUMNS, **settings) -> ColumnForests:
    width = columns[-1].stop
    mean = np.array([2.0, 0.2, 0.5, 0.3, -1.0])[:width]
    return ColumnForests(columns, mean, np.ones(width), "random", {"n_estimators": 5, **settings})


def test_holes_start_at_the_mean_and_the_most_frequent_category():
    x = np.full((2, 5), np.nan)
    x[0, 0] = 7.0
    np.testing.assert_array_equal(model().start(x), [[7, 0, 1, 0, -1], [2, 0, 1, 0, -1]])


def test_the_two_differences_by_hand():
    old = np.array([[1.0, 1, 0, 0, 3], [2.0, 0, 1, 0, 4], [5.0, 0, 0, 1, 6]])
    new = np.array([[1.0, 0, 1, 0, 4], [4.0, 0, 1, 0, 4], [5.0, 0, 0, 1, 6]])
    holes = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]], dtype=bool)
    both = model().differences(new, old, holes, np.zeros(3, dtype=int), 1)
    squares = 1 + 16 + 4**2 + 4**2 + 25 + 36
    np.testing.assert_allclose(both, [[(1 + 4) / squares, 1 / 2]])
    apart = model().differences(new, old, holes, np.arange(3), 3)
    np.testing.assert_allclose(apart, [[1 / 17, 1.0], [4 / 32, 0.0], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("now", "before", "stops"),
    [
        ((0.1, np.nan), (0.2, np.nan), False),
        ((0.2, np.nan), (0.1, np.nan), True),
        ((0.2, 0.1), (0.1, 0.3), False),
        ((0.1, 0.4), (0.2, 0.3), False),
        ((0.2, 0.4), (0.1, 0.3), True),
        ((np.nan, 0.4), (np.nan, 0.3), True),
        ((np.nan, 0.2), (np.nan, 0.3), False),
    ],
)
def test_rounds_stop_when_all_there_is_grew(now, before, stops):
    assert grew(np.array([now]), np.array([before]))[0] == stops


def test_a_category_is_classified_and_a_number_regressed():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 200)
    x = np.column_stack([code * 2.0, np.eye(3)[code], rng.standard_normal(200)])
    m, everything = model(), np.ones(200, dtype=bool)
    guess = x.copy()
    guess[:, 1:4] = 0.0
    m.predict(m.grow(x, everything, 1, seed=0), guess, everything, 1)
    np.testing.assert_array_equal(guess[:, 1:4], np.eye(3)[code])
    guess[:, 0] = 0.0
    m.predict(m.grow(x, everything, 0, seed=0), guess, everything, 0)
    np.testing.assert_allclose(guess[:, 0], code * 2.0, atol=1e-6)


def test_a_table_of_one_column_has_nothing_to_predict_from():
    only = model(COLUMNS[:1])
    assert only.grow(np.ones((4, 1)), np.ones(4, dtype=bool), 0, seed=0) is None
