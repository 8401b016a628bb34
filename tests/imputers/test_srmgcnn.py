"""sRMGCNN: where the factors start, and that diffusion takes them further."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geometric_cases import geometric
from imputer_cases import ring, table

from megae.graphs import knn_adjacency
from megae.imputers import SRMGCNNImputer
from megae.imputers.srmgcnn import right_factor
from megae.kernels import FilterOperator
from megae.models.srmgcnn import least_squares
from megae.spectral import normalized_laplacian


@pytest.mark.parametrize("shape", [(30, 6), (300, 240)])
def test_right_factor_spans_the_leading_singular_vectors(shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape[0], 5)) @ rng.standard_normal((5, shape[1])) + 0.1 * rng.standard_normal(shape)
    H = right_factor(x, 3)
    U, s, V = np.linalg.svd(x, full_matrices=False)
    best = (U[:, :3] * s[:3]) @ V[:3]
    W = np.linalg.lstsq(H.astype(float), x.T, rcond=None)[0].T
    np.testing.assert_allclose(W @ H.T, best, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(W, axis=0) / np.linalg.norm(H, axis=0), np.sqrt(shape[0]), rtol=1e-4)


def test_right_factor_of_columns_that_sum_to_zero_exactly():
    """The vector of ones that the sparse decomposition starts from is then lost on a table wider than long."""
    half = np.sign(np.random.default_rng(0).standard_normal((120, 300)))
    x = np.concatenate([half, -half])
    s = np.linalg.svd(x, compute_uv=False)[:3]
    np.testing.assert_allclose(np.linalg.norm(right_factor(x, 3), axis=0) ** 2, s / np.sqrt(240), rtol=1e-5)
    assert (right_factor(np.zeros((240, 240)), 3) == 0).all()


def test_a_wide_table_of_constant_columns_is_filled_with_them():
    X = np.where(np.random.default_rng(0).random((220, 220)) < 0.1, np.nan, 4.0)
    filled = SRMGCNNImputer(max_steps=2, random_state=0).fit_transform(X, graph=ring(220))
    np.testing.assert_allclose(filled, 4.0, atol=0.1)


def test_rank_is_at_most_that_of_the_table():
    assert right_factor(np.random.default_rng(0).random((4, 3)), 10).shape == (3, 3)


def test_diffusion_lowers_the_error_of_the_factorisation_it_starts_from():
    X, A, nodes = geometric(seed=2)
    shown = np.where(nodes[:, None], np.nan, X)
    imputer = SRMGCNNImputer(max_steps=200, learning_rate=1e-2, random_state=0).fit(shown, graph=A)
    z = imputer.scaler_.forward(torch.from_numpy(shown))
    body = imputer.network_.body
    W = least_squares(torch.nan_to_num(z), z.isfinite(), body.start, body.ridge)
    start = imputer.scaler_.backward(W @ body.start.T)
    end = imputer.transform(shown)
    errors = [np.sqrt(np.mean((x - X)[nodes] ** 2)) for x in (start, end)]
    assert errors[1] < 0.6 * errors[0]
    losses = [h["loss"] for h in imputer.outcome_.history]
    assert losses[-1] < 0.5 * losses[0]


def test_smoothness_smooths():
    X, A = table(), ring()

    def roughness(gamma: float) -> float:
        settings = {"max_steps": 60, "learning_rate": 1e-2, "loss_on": "observed", "validation_fraction": 0.0}
        imputer = SRMGCNNImputer(smoothness=gamma, random_state=0, **settings).fit(X, graph=A)
        with torch.no_grad():
            x = imputer._predict(imputer._read(X, A, reset=False)[0]).numpy()
        D = np.asarray(A.sum(axis=1)).ravel()
        L = np.eye(len(X)) - A.toarray() / np.sqrt(np.outer(D, D))
        return float(np.trace(x.T @ L @ x))

    assert roughness(10.0) < 0.5 * roughness(0.0)


def test_loss_is_the_error_on_asked_cells_and_the_dirichlet_energies_over_rows_and_columns():
    X, A = table(24, 7), ring()
    settings = {"max_steps": 3, "smoothness": 3.0, "column_neighbors": 2, "validation_fraction": 0.0}
    network = SRMGCNNImputer(random_state=0, **settings).fit(X, graph=A).network_
    z = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    values, shown = torch.from_numpy(np.nan_to_num(z)).float(), torch.from_numpy(np.isfinite(z))
    asked = shown & (torch.rand(shown.shape, generator=torch.Generator().manual_seed(0)) < 0.3)
    rows, columns = normalized_laplacian(A), normalized_laplacian(knn_adjacency(z.T, 2))
    given = (values, shown & ~asked)
    operator = FilterOperator.from_laplacian(rows)
    with torch.no_grad():
        x, found = network(*given, operator), network.loss(*given, asked, operator)
    error = ((x - values)[asked] ** 2).mean().item()
    x = x.double().numpy()
    over_rows, over_columns = np.trace(x.T @ rows.toarray() @ x), np.trace(x @ columns.toarray() @ x.T)
    assert min(over_rows, over_columns) > 0.1 * x.size
    assert found.item() == pytest.approx(error + 3.0 / 2 * (over_rows + over_columns) / x.size, rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rank": 0}, "rank must be at least 1"),
        ({"diffusion_steps": 0}, "diffusion_steps must be at least 1"),
        ({"ridge": 0.0}, "ridge must be above 0"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        SRMGCNNImputer(**setting).fit(table(), graph=ring())
