"""One body over all imputers: scikit-learn's checks, and the same ideas on tables full of holes."""

from __future__ import annotations

import copy
import pickle
import random
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from imputer_cases import graphs, make, mixed_frame, ring, same_bits, table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from megae.imputers import REGISTRY, get_imputer

pytestmark = pytest.mark.filterwarnings("ignore:the (model|graph) does not help")


@parametrize_with_checks([make(name) for name in sorted(REGISTRY)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_registry_names_are_lower_case_with_hyphens(name):
    assert name == name.lower().replace("_", "-")
    assert type(get_imputer(name)) is REGISTRY[name]


def test_unknown_name_suggests_a_near_one():
    with pytest.raises(ValueError, match="did you mean 'graph-mean'"):
        get_imputer("graph_means")


NONE_OF_THEM = {"zero", "mean", "median", "graph-mean", "feature-propagation"}
LACKING = {
    "random_state": NONE_OF_THEM,
    "verbose": NONE_OF_THEM,
    "time_budget": NONE_OF_THEM | {"knn"},
    "device": NONE_OF_THEM | {"knn", "svd", "mice", "missforest", "pcfi"},
}


@pytest.mark.parametrize("parameter", LACKING)
def test_parameters_are_common_but_for_the_exceptions_that_the_base_lists(parameter):
    assert {name for name in REGISTRY if parameter not in make(name).get_params()} == LACKING[parameter]


def test_constructor_stores_arguments_untouched(name):
    imputer = make(name)
    for key, value in imputer.get_params().items():
        assert getattr(imputer, key) is value
    types = {"x0": "continuous"}
    assert make(name, column_types=types).column_types is types


def test_fit_transform_is_fit_then_transform(name):
    X, A = table(), ring()
    once = make(name).fit_transform(X, graph=A)
    assert same_bits(once, make(name).fit(X, graph=A).transform(X, graph=A))
    assert same_bits(once, make(name).fit(X, graph=A).transform(X))
    assert np.isfinite(once).all()


def test_without_a_graph_both_ways_agree(name):
    X = table()
    assert same_bits(make(name).fit_transform(X), make(name).fit(X).transform(X))


def test_fit_again_gives_the_same(name):
    X, A = table(), ring()
    imputer = make(name)
    first = imputer.fit_transform(X, graph=A)
    imputer.fit(table(30, 2, seed=5))
    assert same_bits(first, imputer.fit_transform(X, graph=A))


def test_transform_does_not_change_the_fitted_imputer(name):
    imputer = make(name).fit(table(), graph=ring())
    before = imputer.transform(table(), graph=ring())
    imputer.transform(table(10, seed=3), graph=ring(10))
    assert same_bits(before, imputer.transform(table()))


def test_clone_has_the_parameters_and_no_memory(name):
    imputer = make(name, clip=True).fit(table(), graph=ring())
    twin = clone(imputer)
    assert twin.get_params() == imputer.get_params()
    with pytest.raises(NotFittedError):
        twin.transform(table())
    assert same_bits(twin.fit_transform(table(), graph=ring()), imputer.transform(table()))


def test_fit_leaves_parameters_alone(name):
    imputer = make(name)
    before = copy.deepcopy(imputer.get_params())
    imputer.fit(table(), graph=ring())
    assert imputer.get_params() == before


def test_survives_the_trip_to_a_joblib_worker(name):
    imputer = make(name).fit(table(), graph=ring())
    twin = pickle.loads(pickle.dumps(imputer))
    assert same_bits(twin.transform(table()), imputer.transform(table()))


@pytest.mark.parametrize("writeable", [True, False])
def test_input_is_not_changed(name, writeable):
    X, A = table(), ring()
    X.setflags(write=writeable)
    before, edges = X.copy(), A.toarray()
    make(name).fit_transform(X, graph=A)
    assert same_bits(X, before)
    assert same_bits(A.toarray(), edges)
    frame, kept = mixed_frame(), mixed_frame()
    make(name).fit_transform(frame)
    pd.testing.assert_frame_equal(frame, kept)
    items = graphs()
    make(name).fit_transform(items)
    assert all(same_bits(a.x, b.x) for a, b in zip(items, graphs(), strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observed_cells_come_back_bit_for_bit(name, dtype):
    X = table().astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    X[:3, 1] = -0.0, tiny, 1 / 3
    seen = ~np.isnan(X)
    out = make(name).fit_transform(X, graph=ring())
    assert out.dtype == dtype
    assert same_bits(out[seen], X[seen])
    tensor = make(name).fit_transform(torch.from_numpy(X.copy()), graph=ring())
    assert same_bits(tensor.numpy()[seen], X[seen])
    frame = make(name).fit_transform(pd.DataFrame(X), graph=ring())
    assert same_bits(frame.to_numpy()[seen], X[seen])
    sparse = make(name).fit_transform(sp.csr_array(X), graph=ring())
    assert same_bits(sparse.toarray()[seen & (X != 0)], X[seen & (X != 0)])


def test_what_a_hole_is_made_of_changes_nothing(name):
    X = table()
    payload = X.copy()
    rng = np.random.default_rng(0)
    odd = rng.integers(1, 2**51, size=X.shape, dtype=np.uint64) | np.uint64(0x7FF8 << 48)
    odd |= rng.integers(0, 2, size=X.shape, dtype=np.uint64) << np.uint64(63)
    payload.view(np.uint64)[np.isnan(X)] = odd[np.isnan(X)]
    assert np.isnan(payload[np.isnan(X)]).all()
    assert not same_bits(payload, X)
    plain = make(name).fit_transform(X, graph=ring())
    assert same_bits(plain, make(name).fit_transform(payload, graph=ring()))
    nan, na = pd.DataFrame(X), pd.DataFrame(X).convert_dtypes(convert_integer=False)
    assert na.isna().to_numpy().sum() == np.isnan(X).sum()
    out = make(name).fit_transform(nan, graph=ring()).to_numpy()
    assert same_bits(out, plain)
    assert same_bits(out, make(name).fit_transform(na, graph=ring()).to_numpy(dtype=np.float64))


def test_global_random_state_is_untouched(name):
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    make(name).fit(table(), graph=ring()).transform(table())
    drawn = random.random(), np.random.random(), torch.rand(1).item()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert drawn == (random.random(), np.random.random(), torch.rand(1).item())  # noqa: NPY002


def test_result_does_not_depend_on_global_random_state(name):
    X, A = table(), ring()
    outputs = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        outputs.append(make(name).fit_transform(X, graph=A))
    assert same_bits(*outputs)


def test_feature_names_are_checked(name):
    frame = pd.DataFrame(table(), columns=list("abcd"))
    imputer = make(name).fit(frame, graph=ring())
    assert list(imputer.feature_names_in_) == list("abcd")
    assert list(imputer.get_feature_names_out()) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        imputer.transform(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names"):
        imputer.transform(frame[list("bacd")])
    assert list(make(name).fit(table()).get_feature_names_out()) == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize(
    "wrap",
    [np.asarray, pd.DataFrame, torch.from_numpy, sp.csr_array, np.ndarray.tolist],
    ids=lambda f: f.__name__,
)
def test_number_of_features_is_checked(name, wrap):
    imputer = make(name).fit(wrap(table(24, 4)), graph=ring())
    assert imputer.n_features_in_ == 4
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        imputer.transform(wrap(table(24, 3)))


def test_set_output_pandas(name):
    X = table()
    imputer = make(name).set_output(transform="pandas")
    out = imputer.fit_transform(X, graph=ring())
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["x0", "x1", "x2", "x3"]
    assert same_bits(out.to_numpy(), make(name).fit_transform(X, graph=ring()))
    with pytest.raises(ValueError, match="graphs come out as graphs"):
        imputer.fit(graphs()).transform(graphs())


def test_list_in_array_out(name):
    X = table()
    assert same_bits(make(name).fit_transform(X.tolist(), graph=ring()), make(name).fit_transform(X, graph=ring()))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_in_sparse_out(name, form, kind):
    X = table()
    X[5:9, 2] = 0.0
    S = getattr(sp, f"{form}_{kind}")(X)
    out = make(name).fit_transform(S, graph=ring())
    assert type(out) is type(S)
    assert out.format == form
    assert same_bits(out.toarray(), make(name).fit_transform(X, graph=ring()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensor_in_tensor_out(name, dtype):
    X = torch.from_numpy(table()).to(dtype).requires_grad_()
    out = make(name).fit_transform(X, graph=ring())
    assert isinstance(out, torch.Tensor)
    assert out.dtype == dtype
    assert not out.requires_grad
    assert same_bits(out.numpy(), make(name).fit_transform(X.detach().numpy(), graph=ring()))


def test_frame_keeps_index_columns_and_dtypes(name):
    frame = mixed_frame()
    out = make(name).fit_transform(frame, graph=ring())
    assert not out.isna().any(axis=None)
    pd.testing.assert_index_equal(out.index, frame.index)
    pd.testing.assert_index_equal(out.columns, frame.columns)
    assert out.dtypes.to_dict() == frame.dtypes.to_dict()
    pd.testing.assert_frame_equal(out.where(frame.notna()).convert_dtypes(), frame.convert_dtypes())


def test_graphs_in_graphs_out(name):
    items = graphs()
    out = make(name).fit(items).transform(items)
    assert len(out) == len(items)
    for before, after in zip(items, out, strict=True):
        seen = ~before.x.isnan()
        assert after.x.dtype == torch.float32
        assert not after.x.isnan().any()
        assert same_bits(after.x[seen], before.x[seen])
        assert torch.equal(after.edge_index, before.edge_index)
        assert torch.equal(after.y, before.y)


def test_new_graphs_without_refit(name):
    imputer = make(name).fit(graphs(seed=0), validation=graphs(2, seed=50))
    new = graphs(3, n=11, seed=9)
    together = imputer.transform(new)
    alone = [imputer.transform([g])[0] for g in new]
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a.x, b.x, rtol=1e-5, atol=1e-6)
