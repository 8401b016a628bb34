"""One body over all imputers: bad input is refused with a way out, odd input is handled."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from imputer_cases import graphs, make, mixed_frame, ring, same_bits, table
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

pytestmark = pytest.mark.filterwarnings("ignore:the (model|graph) does not help")


def with_inf() -> np.ndarray:
    X = table()
    X[4, 2] = -np.inf
    return X


def edges_to(*nodes: object) -> pd.DataFrame:
    return pd.DataFrame({"u": [0, *nodes], "v": [1, *([0] * len(nodes))]})


NEGATIVE = sp.csr_array(-ring().toarray())
REFUSED = {
    "infinite value": (with_inf, None, r"infinity, at row 4, column 'x2'; replace infinite values by NaN"),
    "infinite value in a tensor": (lambda: torch.from_numpy(with_inf()), None, "row 4, column 'x2'"),
    "infinite value in a frame": (
        lambda: pd.DataFrame(with_inf(), columns=list("abcd")),
        None,
        "row 4, column 'c'",
    ),
    "value too large": (
        lambda: np.where(np.arange(24)[:, None] == 4, 1e308, table()),
        None,
        r"1e\+308, at row 4, column 'x0', too large to compute with.*1e\+150.*larger unit, or replace",
    ),
    "all holes": (lambda: np.full((5, 2), np.nan), None, "all holes"),
    "negative weights": (table, NEGATIVE, "weight -1.*finite and at least 0.*drop or repair"),
    "graph too small": (table, ring(9), r"graph has shape \(9, 9\) but X has 24 rows"),
    "graph cut by rows": (table, ring()[:9], r"unknown_nodes='drop'"),
    "dense graph too small": (table, ring(9).toarray(), r"shape \(9, 9\) for 24 rows"),
    "unknown endpoint": (table, np.array([[0, 1], [1, 24]]), "nodes 1 and 24.*remove the edge or pass"),
    "edges cut loose by cross-validation": (table, np.array([[0, 1], [1, 30]]), "give an edge table, whose ends"),
    "no graphs": (list, None, "X is an empty list; give a table, or at least one PyG Data"),
    "a loader of graphs": (lambda: DataLoader(graphs(3)), None, "give the graphs it loads: its dataset"),
    "graphs and something else": (lambda: [*graphs(2), None], None, "PyG graphs and NoneType; give a list of PyG Data"),
    "negative endpoint": (table, np.array([[0, 1], [1, -1]]), "nodes 1 and -1"),
    "unknown endpoint in a table": (
        table,
        edges_to(77),
        r"row 1: node (np.int64\()?77\)? is not a row of X; add it",
    ),
    "fractional edge_index": (table, np.array([[0.0, 1.5], [1.0, 2.0]]), "integer edge_index"),
    "text column": (
        lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]}),
        None,
        r"column 'b' holds 'x' \(row 0\).*pandas.to_numeric",
    ),
    "date column": (
        lambda: pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None])}),
        None,
        "drop it or turn it",
    ),
    "two columns of one name": (lambda: pd.DataFrame(table(), columns=list("abca")), None, "'a'; rename one"),
    "no column": (lambda: pd.DataFrame(index=range(3)), None, "0 feature"),
    "no row": (lambda: pd.DataFrame(columns=["a"], dtype=float), None, "0 sample"),
    "one dimension": (lambda: torch.ones(4), None, "two-dimensional"),
    "complex tensor": (lambda: torch.ones(4, 2, dtype=torch.complex64), None, "Complex data not supported"),
    "graph without x": (lambda: [Data(num_nodes=3)], None, "graph 0 has no two-dimensional x"),
    "graphs of other widths": (
        lambda: [*graphs(1, d=3), *graphs(1, d=2)],
        None,
        "graph 1 has 2 features, but 3",
    ),
    "graphs and a graph": (lambda: graphs(2), ring(8), "leave graph out"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_columns_of_the_largest_and_smallest_numbers_are_filled(name):
    units = np.array([1e149, 1e-149, 1e30, -1e149])
    X = table() * units
    out = make(name).fit_transform(X, graph=ring()) / units
    assert np.isfinite(out).all()
    assert np.abs(out).max() < 10


@pytest.mark.parametrize("fallback", [np.nan, np.inf, "x", None])
def test_a_fallback_that_fills_nothing_is_refused(fallback):
    X = np.column_stack([np.arange(8.0), np.full(8, np.nan)])
    with pytest.raises(ValueError, match="fallback must be a finite number"):
        make("mean", fallback=fallback).fit(X, graph=ring(8))


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), "10"])
def test_a_time_budget_that_is_no_time_is_refused(name, budget):
    if "time_budget" in make(name).get_params():
        with pytest.raises(ValueError, match="time_budget must be a number of seconds above 0, or None"):
            make(name, time_budget=budget).fit(table())


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_way_out(name, case):
    X, graph, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make(name).fit(X(), graph=graph)


def test_other_rows_need_a_graph(name):
    imputer = make(name).fit(table(), graph=ring())
    with pytest.raises(ValueError, match=r"X has 10 rows.*pass the graph over these rows as graph="):
        imputer.transform(table(10))
    assert np.isfinite(imputer.transform(table(10), graph=ring(10))).all()
    imputer.fit(graphs(3, d=4))
    with pytest.raises(ValueError, match="pass the graph"):
        imputer.transform(table())


def test_fitted_without_a_graph_takes_any_number_of_rows(name):
    imputer = make(name).fit(table())
    assert np.isfinite(imputer.transform(table(10, seed=4))).all()


def test_other_categories_at_transform_are_refused(name):
    imputer = make(name).fit(mixed_frame())
    other = mixed_frame()
    other["colour"] = other["colour"].cat.rename_categories({"red": "green"})
    with pytest.raises(ValueError, match=r"'colour' was fitted with categories \['blue', 'red'\].*CategoricalDtype"):
        imputer.transform(other)


def test_bad_column_types_are_refused(name):
    with pytest.raises(ValueError, match="'nope', which is not a column"):
        make(name, column_types={"nope": "binary"}).fit(table())
    with pytest.raises(ValueError, match="binary but holds values other than 0 and 1"):
        make(name, column_types=["binary"] * 4).fit(table())


@pytest.mark.parametrize("graph", [sp.csr_array((24, 24)), np.empty((2, 0)), np.empty((2, 0), dtype=int)])
def test_no_edges(name, graph):
    assert np.isfinite(make(name).fit_transform(table(), graph=graph)).all()


@pytest.mark.parametrize("graph", [None, np.zeros((1, 1)), np.empty((2, 0), dtype=int)])
def test_a_single_node(name, graph):
    X = np.array([[1.0, np.nan, 3.0]])
    with pytest.warns(UserWarning, match="no value is observed in column 'x1'"):
        out = make(name, fallback=-7.0).fit_transform(X, graph=graph)
    np.testing.assert_array_equal(out, [[1.0, -7.0, 3.0]])


def test_isolated_nodes_and_many_components(name):
    A = sp.block_diag([ring(8), sp.csr_array((3, 3)), ring(5), ring(8)]).tocsr()
    X = table()
    X[8:11, 0] = np.nan
    X[11:16, 1] = np.nan
    assert np.isfinite(make(name).fit_transform(X, graph=A)).all()


def test_a_column_of_holes_is_kept_and_filled_with_the_fallback(name):
    X = table()
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="no value is observed in column 'x2': filled with the fallback 2.5"):
        imputer = make(name, fallback=2.5).fit(X, graph=ring())
    out = imputer.transform(X)
    assert out.shape == X.shape
    assert (out[:, 2] == 2.5).all()
    rest = [0, 1, 3]
    assert same_bits(out[:, rest], make(name).fit_transform(X[:, rest], graph=ring()))
    later = imputer.transform(table())
    assert same_bits(later[~np.isnan(table())], table()[~np.isnan(table())])


def test_a_category_column_of_holes_gets_its_first_category(name):
    frame = mixed_frame()
    frame["colour"] = pd.Categorical([None] * len(frame), categories=["green", "blue"])
    with pytest.warns(UserWarning, match="'colour'"):
        out = make(name).fit_transform(frame)
    assert (out["colour"] == "green").all()


def test_a_column_that_only_new_rows_lack(name):
    imputer = make(name).fit(table(), graph=ring())
    X = table(seed=3)
    X[:, 1] = np.nan
    assert np.isfinite(imputer.transform(X)).all()


def test_a_row_of_holes(name):
    X = table()
    X[6] = np.nan
    for graph in (None, ring()):
        assert np.isfinite(make(name).fit_transform(X, graph=graph)).all()


def test_constant_columns(name):
    X = table()
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, 4.0)
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 0.0)
    out = make(name, clip=True).fit_transform(X, graph=ring())
    assert np.isfinite(out).all()
    assert (out[:, 1] == 4.0).all()
    assert (out[:, 3] == 0.0).all()


def test_clip_keeps_to_the_observed_range(name):
    X = table()
    out = make(name, clip=True).fit_transform(X, graph=ring())
    assert (out >= np.nanmin(X, axis=0)).all()
    assert (out <= np.nanmax(X, axis=0)).all()


def test_binary_columns_stay_between_0_and_1(name):
    X = table()
    X[:, 0] = np.where(np.isnan(X[:, 0]), np.nan, X[:, 0] > 3)
    imputer = make(name).fit(X, graph=ring())
    assert imputer.column_types_["x0"] == "binary"
    out = imputer.transform(X)[:, 0]
    assert ((out >= 0) & (out <= 1)).all()


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, torch.from_numpy, sp.csr_array])
def test_no_holes_is_the_identity(name, wrap):
    X = table(rate=0.0)
    X[3, 0] = -0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = make(name).fit_transform(wrap(X.copy()), graph=ring())
    dense = out.toarray() if sp.issparse(out) else np.asarray(out)
    np.testing.assert_array_equal(dense, X)
    if not sp.issparse(out):
        assert same_bits(dense, X)


def test_one_hole(name):
    X = table(rate=0.0)
    assert np.isnan(X).sum() == 1
    out = make(name).fit_transform(X, graph=ring())
    assert np.isfinite(out[3, 0])
    out[3, 0] = np.nan
    assert same_bits(out, X)
