"""Low-rank completion of a matrix with holes, and the projection of new rows on what it learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

EXACT = 2e8
"""Up to this N * E * min(N, E) singular values are computed exactly; above, by subspace iteration."""

OVERSAMPLING = 10
MOST = 128
"""Most singular values that are followed where they are not computed exactly."""

CHUNK = 1 << 22
"""Numbers in the normal equations of the rows that are solved at a time."""


@dataclass(frozen=True)
class Completion:
    """A matrix of low rank Z = U diag(d) V' beside column means.

    Parameters
    ----------
    mean : ndarray of shape (E,)
    d : ndarray of shape (k,), descending
    V : ndarray of shape (E, k)
    Z : ndarray of shape (N, E)
    change : float
        Of Z in the last iteration, relative to its norm.
    """

    mean: np.ndarray
    d: np.ndarray
    V: np.ndarray
    Z: np.ndarray
    n_iter: int
    change: float


def leading(
    Y: np.ndarray, k: int, basis: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first singular vectors and values of Y (N, E).

    A large matrix gets one subspace iteration from ``basis``, the right vectors of a matrix close to Y, or four from a
    random start (Halko, Martinsson & Tropp 2011).

    Parameters
    ----------
    k : int
    basis : ndarray of shape (E, at least k) or None

    Returns
    -------
    U, d, V : (N, p), (p,), (E, p) with p >= k where there are so many
    """
    n, e = Y.shape
    if n * e * min(n, e) <= EXACT:
        U, d, Vt = np.linalg.svd(Y, full_matrices=False)
        return U, d, Vt.T
    p = min(k + OVERSAMPLING, n, e)
    passes = 1
    if basis is None or basis.shape[1] < p:
        known = np.empty((e, 0)) if basis is None else basis
        basis = np.hstack([known, rng.standard_normal((e, p - known.shape[1]))])
        passes = 4
    basis = basis[:, :p]
    for _ in range(passes):
        Q = np.linalg.qr(Y @ basis)[0]
        small = Q.T @ Y
        basis = np.linalg.qr(small.T)[0]
    U, d, Vt = np.linalg.svd(small, full_matrices=False)
    return Q @ U, d, Vt.T


def complete(
    z: np.ndarray,
    *,
    rank: int | None = None,
    shrinkage: float = 0.0,
    center: bool = True,
    start: Completion | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    rng: np.random.Generator,
    late: Callable[[], bool] = lambda: False,
) -> Completion:
    r"""Fill the holes, approximate what is filled, fill again.

    .. math::
        Z \leftarrow S_\lambda\big(P_\Omega(X) + P_\Omega^\perp(Z)\big), \qquad
        S_\lambda(U D V^\top) = U\, \mathrm{diag}\big((d_i - \lambda)_+\big)_{i \le k} V^\top

    With :math:`\lambda = 0` and a rank k it is iterative SVD; with :math:`\lambda > 0` and all singular values it is
    SoftImpute, which minimises :math:`\tfrac12 \|P_\Omega(X - Z)\|_F^2 + \lambda \|Z\|_*`. With ``center`` both fit
    :math:`X - 1 m^\top` with free column means m, which are those of the filled matrix.

    Parameters
    ----------
    z : ndarray of shape (N, E), NaN in holes
    rank : int or None
        k; None for all.
    shrinkage : float
        :math:`\lambda`
    center : bool
    start : Completion or None
        What to begin with; None is 0, and the means of what is observed.
    tol : float
        Stop when Z changes by less than this share of its norm.
    late : says when to stop for lack of time
    """
    holes = np.isnan(z)
    n, e = z.shape
    exact = n * e * min(n, e) <= EXACT
    most = min(n, e) if exact else min(n, e, MOST)
    limit = most if rank is None else min(rank, n, e)
    Z, mean = np.zeros_like(z), np.zeros(e)
    if start is not None:
        Z, mean = start.Z, start.mean
    elif center:
        mean = np.nan_to_num(z).sum(axis=0) / np.maximum((~holes).sum(axis=0), 1)
    filled = np.where(holes, Z + mean, z)
    basis, followed, change = None if start is None else start.V, 0, np.inf
    d, V = np.zeros(0), np.zeros((e, 0))
    done = 0
    while done < max_iter:
        done += 1
        k = limit if rank is not None else min(limit, followed + OVERSAMPLING)
        if center:
            mean = filled.mean(axis=0)
        U, d, V = leading(filled - mean, k, basis, rng)
        basis = V
        d = d[:limit] - shrinkage
        followed = max(1, int((d > 0).sum()))
        d, V = d[:followed].clip(min=0.0), V[:, :followed]
        new = (U[:, :followed] * d) @ V.T
        size = float(np.linalg.norm(Z))
        moved = float(np.linalg.norm(new - Z))
        change = moved / size if size > 0 else (np.inf if moved > 0 else 0.0)
        Z = new
        filled = np.where(holes, Z + mean, z)
        if change < tol or late():
            break
    return Completion(mean, d, V, Z, done, change)


@dataclass(frozen=True)
class RowSpace:
    r"""Rows near a subspace: :math:`\hat x = m + B a` with :math:`a = (B_o^\top B_o + \rho I)^{-1} B_o^\top (x - m)_o`.

    o are the columns that a row shows. A row that shows nothing gets m.

    Parameters
    ----------
    mean : ndarray of shape (E,)
        m
    B : ndarray of shape (E, k)
    ridge : float
        :math:`\rho`
    """

    mean: np.ndarray
    B: np.ndarray
    ridge: float

    @classmethod
    def of_soft(cls, done: Completion, shrinkage: float) -> RowSpace:
        r"""Row by row the minimiser of the SoftImpute objective for the V that was learnt.

        Its nuclear norm is the least :math:`\tfrac12 (\|A\|_F^2 + \|B\|_F^2)` over all :math:`Z = A B^\top` (Mazumder
        et al. 2010, lemma 6), so that :math:`B = V D^{1/2}` and :math:`\rho = \lambda`: at the optimum this gives Z.
        """
        return cls(done.mean, done.V * np.sqrt(done.d), shrinkage)

    @classmethod
    def of_hard(cls, done: Completion, z: np.ndarray, ridge: float | None) -> RowSpace:
        r"""Least squares on the singular vectors, with the noise of probabilistic PCA as ridge unless one is given.

        :math:`\rho = \sigma^2 = \frac{1}{1 - k/E}` times the mean squared residual of the observed cells, and
        :math:`B = V (D^2/N - \sigma^2)^{1/2}` (Tipping & Bishop 1999); :math:`\rho = 0` is plain least squares, whose
        result on the rows that were completed is Z.
        """
        seen = ~np.isnan(z)
        k, (n, e) = done.d.size, z.shape
        if ridge is None:
            residual = float(np.mean((z - done.mean - done.Z)[seen] ** 2))
            ridge = residual / max(1 - k / e, 1 / e)
        variance = np.maximum(done.d**2 / n - ridge, 1e-6 * done.d**2 / n)
        return cls(done.mean, done.V * np.sqrt(variance), ridge)

    def fill(self, x: np.ndarray) -> np.ndarray:
        """Rows (N, E) with NaN in holes -> their projections (N, E), a block of rows at a time."""
        e, k = self.B.shape
        products = (self.B[:, :, None] * self.B[:, None, :]).reshape(e, k * k)
        floor = max(self.ridge, 1e-10 * float((self.B**2).sum(axis=0).max(initial=0.0)), 1e-12)
        out = np.empty(x.shape)
        step = max(1, CHUNK // max(k * k, e))
        for i in range(0, len(x), step):
            seen = ~np.isnan(x[i : i + step])
            shown = np.where(seen, x[i : i + step] - self.mean, 0.0)
            normal = (seen.astype(float) @ products).reshape(-1, k, k) + floor * np.eye(k)
            scores = np.linalg.solve(normal, (shown @ self.B)[:, :, None])[:, :, 0]
            out[i : i + step] = scores @ self.B.T + self.mean
        return out
