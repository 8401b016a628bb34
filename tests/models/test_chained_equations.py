import numpy as np

from megae.models.chained_equations import ChainedEquations, affinities, replay, stream

FREE = np.full(4, -np.inf), np.full(4, np.inf)


def some_rows(n: int = 40, seed: int = 0) -> np.ndarray:
    """(n, 4) of rank two and noise, a fifth of the cells missing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((n, 4))
    z[rng.random(z.shape) < 0.2] = np.nan
    return z


def learn(z: np.ndarray, steps: int) -> ChainedEquations:
    chain = ChainedEquations(z, np.arange(4), None, FREE, stream(0, 0, z), np.random.RandomState(0))
    for _ in range(steps):
        chain.advance()
    return chain


def test_the_rows_learnt_from_come_back_with_the_draws_they_had():
    z = some_rows()
    chain = learn(z, 12)
    again = replay(chain.rounds(), z, np.array([0, 40]), FREE, [stream(0, 0, z)])
    np.testing.assert_allclose(again.draw, chain.filled, rtol=1e-10)
    seen = ~np.isnan(z)
    np.testing.assert_array_equal(again.draw[seen], z[seen])
    assert (again.variance[seen] == 0).all()
    assert (again.variance[~seen] > 0).all()


def test_columns_with_fewer_holes_come_first():
    z = some_rows()
    z[:30, 0] = np.nan
    z[:, 2] = np.nan_to_num(z[:, 2])
    columns = [e.column for e in learn(z, 4).equations]
    holes = np.isnan(z).sum(axis=0)[columns]
    assert columns[0] == 2
    assert columns[-1] == 0
    assert (np.diff(holes) >= 0).all()


def test_an_unfinished_round_is_left_out_unless_it_is_the_first():
    assert [len(r) for r in learn(some_rows(), 3).rounds()] == [3]
    assert [len(r) for r in learn(some_rows(), 9).rounds()] == [4, 4]
    assert [len(r) for r in learn(some_rows(), 12).rounds()] == [4, 4, 4]


def test_streams_depend_on_what_is_seen_alone():
    z = some_rows()
    other = z.copy()
    other[np.isnan(z)] = -np.nan
    first = stream(3, 1, z).random_sample(4)
    np.testing.assert_array_equal(first, stream(3, 1, other).random_sample(4))
    for seed, k, rows in ((4, 1, z), (3, 2, z), (3, 1, z[:20])):
        assert not np.array_equal(first, stream(seed, k, rows).random_sample(4))


def test_chances_of_predictors():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 4))
    z[:, 1] = z[:, 0] + 0.1 * rng.standard_normal(500)
    chance = affinities(z, np.array([0, 1, 2, 2]))
    near = np.abs(np.corrcoef(z.T))
    np.testing.assert_allclose(chance[:, 0], near[0] * [0, 1, 1, 1] / near[0, 1:].sum())
    assert chance[2, 3] == chance[3, 2] == 0
    np.testing.assert_allclose(chance.sum(axis=0), 1)
