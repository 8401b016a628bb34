import numpy as np
import pytest
import sklearn
import torch
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.datapipes import DatasetAdapter
from torch_geometric.transforms import Compose, NormalizeFeatures, ToUndirected

from megae.imputers import FeaturePropagationImputer, MeanImputer, MEGAEImputer
from megae.transforms import Impute

NAN = float("nan")


def graph(seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(1 + rng.random((10, 3))).float()
    x[torch.from_numpy(rng.random((10, 3)) < 0.3)] = NAN
    x[0] = 1.0
    x[3, 1] = NAN
    ends = torch.stack([torch.arange(9), torch.arange(1, 10)])
    return Data(x=x, edge_index=ends, y=torch.tensor([seed]))


def test_fills_without_touching_what_came_in():
    data, kept = graph(), graph()
    out = Impute(FeaturePropagationImputer())(data)
    assert not out.x.isnan().any()
    assert data.x.isnan().equal(kept.x.isnan())
    assert data.keys() == kept.keys()
    out.x.zero_()
    out.edge_index.zero_()
    assert data.x.nan_to_num().equal(kept.x.nan_to_num())
    assert data.edge_index.equal(kept.edge_index)


def test_is_the_imputer_on_that_graph_where_it_is_not_fitted():
    imputer = MeanImputer()
    transform = Impute(imputer)
    for seed in (0, 1):
        expected = MeanImputer().fit_transform(graph(seed))
        assert transform(graph(seed)).x.equal(expected.x)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(imputer)


def test_a_fitted_imputer_only_transforms():
    imputer = MeanImputer().fit([graph(5), graph(6)])
    mean = imputer.mean_.copy()
    out = Impute(imputer)(graph(0))
    holes = graph(0).x.isnan()
    np.testing.assert_allclose(out.x[holes], np.broadcast_to(mean, holes.shape)[holes], rtol=1e-6)
    np.testing.assert_array_equal(imputer.mean_, mean)


def test_mask_tells_what_was_filled():
    out = Impute("mean", mask_attr="imputed_mask")(graph())
    assert out.imputed_mask.equal(graph().x.isnan())
    assert "imputed_mask" not in Impute("mean")(graph())


def test_default_is_megae_with_its_arguments():
    transform = Impute(max_steps=3, hidden=8, random_state=0, diagnose=False)
    assert isinstance(transform.imputer, MEGAEImputer)
    assert transform.imputer.max_steps == 3
    out = transform(graph())
    assert not out.x.isnan().any()
    assert repr(transform).startswith("Impute(MEGAEImputer(")


def test_works_in_compose():
    out = Compose([ToUndirected(), Impute("feature-propagation"), NormalizeFeatures()])(graph())
    by_hand = NormalizeFeatures()(FeaturePropagationImputer().fit_transform(ToUndirected()(graph())))
    assert not out.x.isnan().any()
    assert out.x.equal(by_hand.x)


def test_functional_name():
    pipe = DatasetAdapter([graph(0), graph(1)]).impute("mean")
    assert [bool(g.x.isnan().any()) for g in pipe] == [False, False]


def test_no_holes_is_the_identity_and_needs_no_training():
    data = graph()
    data.x = data.x.nan_to_num()
    assert Impute(max_steps=-1)(data).x.equal(data.x)


def test_graphs_of_a_batch_are_filled_apart():
    imputer = FeaturePropagationImputer().fit([graph(0), graph(1)])
    out = Impute(imputer)(Batch.from_data_list([graph(0), graph(1)]))
    assert out.x.equal(torch.cat([g.x for g in imputer.transform([graph(0), graph(1)])]))


def test_does_not_mind_pandas_output_being_on():
    with sklearn.config_context(transform_output="pandas"):
        assert not Impute("knn")(graph()).x.isnan().any()


def test_wrong_use_is_refused():
    with pytest.raises(TypeError, match="set them on the imputer"):
        Impute(MeanImputer(), clip=True)
    with pytest.raises(TypeError, match="an imputer, its name or None, got int"):
        Impute(3)
    with pytest.raises(ValueError, match="no imputer named 'avg'"):
        Impute("avg")
    with pytest.raises(ValueError, match="data has no x"):
        Impute("mean")(Data(num_nodes=2))
    with pytest.raises(TypeError, match="one node type, got HeteroData"):
        Impute("mean")(HeteroData())
