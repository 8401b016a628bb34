"""sRMGCNN: where the factors start, and that diffusion takes them further."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geometric_cases import geometric
from imputer_cases import ring, table

from megae.imputers import SRMGCNNImputer
from megae.imputers.srmgcnn import right_factor
from megae.models.srmgcnn import least_squares


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
