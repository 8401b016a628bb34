"""GDN: the graph it filters with, and its settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from imputer_cases import graphs, ring, same_bits, table

from megae.graphs import laplacian, to_data
from megae.imputers import GDNImputer
from megae.imputers.gdn import LoopedPool, looped_laplacian
from megae.kernels import FilterOperator


def test_looped_laplacian_is_that_of_the_graph_with_loops():
    A = ring(12)
    looped = A.toarray() + np.eye(12)
    D = looped.sum(axis=1)
    expected = np.eye(12) - looped / np.sqrt(np.outer(D, D))
    np.testing.assert_allclose(looped_laplacian(A).toarray(), expected, atol=1e-12)
    spectrum = np.linalg.eigvalsh(expected)
    assert spectrum.min() > -1e-12
    assert spectrum.max() < 2 - 1e-3


def test_a_pool_takes_graphs_with_their_loops():
    items = [to_data(g.x.double().numpy(), ring(n)) for g, n in zip(graphs(3), (8, 8, 8), strict=True)]
    pool = LoopedPool(items, np.zeros(3), np.ones(3), torch.device("cpu"))
    batch = pool.take(np.array([2]))
    alone = FilterOperator.from_laplacian(looped_laplacian(ring(8)))
    assert torch.equal(batch.operator.indices, alone.indices)
    torch.testing.assert_close(batch.operator.values, alone.values)
    assert pool.whole.operator.values.numel() == laplacian(items[0]).nnz * 3


def test_columns_are_centred_and_in_units_of_their_ranges():
    X = table() * [1.0, 10.0, 100.0, 0.1]
    scaler = GDNImputer(max_steps=1, hidden=4, validation_fraction=0.0, random_state=0).fit(X, graph=ring()).scaler_
    np.testing.assert_allclose(scaler.shift, np.nanmean(X, axis=0))
    per_range = scaler.scale / (np.nanmax(X, axis=0) - np.nanmin(X, axis=0))
    np.testing.assert_allclose(per_range, per_range[0])
    assert np.sqrt(np.mean((np.nanstd(X, axis=0) / scaler.scale) ** 2)) == pytest.approx(1.0)


@pytest.mark.parametrize("setting", [{"kernel": "gcn", "order": 3}, {"wavelet_scale": 0.5}, {"order": 2}])
def test_the_filters_matter(setting):
    X, A = table(), ring()
    plain = GDNImputer(max_steps=3, hidden=8, random_state=0).fit_transform(X, graph=A)
    assert not same_bits(plain, GDNImputer(max_steps=3, hidden=8, random_state=0, **setting).fit_transform(X, graph=A))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"order": 0}, "order must be at least 1"),
        ({"kernel": "ppr"}, "kernel must be one of heat, gcn"),
        ({"wavelet_scale": 0.0}, "wavelet_scale must be above 0"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        GDNImputer(**setting).fit(table(), graph=ring())
