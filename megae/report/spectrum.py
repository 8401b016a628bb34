"""The graph spectrum of attributes before and after imputation (Figure 1 of the MEGAE paper, AAAI 2023)."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT_LIMIT = 2000
N_BINS = 40
N_BANDS = 24
MAX_PANELS = 12


@dataclass
class Energies:
    """Where on the spectrum [0, 2] the energy of each column lies.

    Parameters
    ----------
    edges : ndarray of shape (B + 1,)
        Bounds of B intervals of eigenvalues.
    shares : ndarray of shape (B, D)
        Share of each column's energy there; a column of zeros has none anywhere.
    exact : bool
        Whether the eigenvalues were computed, or bands of wavelets stand for them.
    """

    edges: np.ndarray
    shares: np.ndarray
    exact: bool


def spectral_energies(X: np.ndarray, A: Any, *, exact: bool | None = None) -> Energies:
    r"""Distribution of energy over the spectrum of the normalised Laplacian.

    Up to 2,000 nodes :math:`\hat x_i^2 / \sum_j \hat x_j^2` with :math:`\hat x = U^T x`, gathered in 40
    intervals of eigenvalues; beyond that :math:`\|g_m(L) x\|^2 / \sum_m \|g_m(L) x\|^2` for 24 uniform
    tight wavelets, without eigendecomposition.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Attributes without holes.
    A : scipy sparse of shape (N, N)
        Graph.
    exact : bool or None
        Force one of the two; None decides by N.

    Returns
    -------
    Energies

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> pair = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> found = spectral_energies(np.array([[1.0], [1.0]]), pair)
    >>> float(found.shares[0, 0])
    1.0
    """
    from megae.spectral import normalized_laplacian

    L = normalized_laplacian(A)
    values = np.asarray(X, dtype=np.float64)
    scale = np.abs(values).max(axis=0, initial=0.0)
    values = values / np.where(scale > 0, scale, 1.0)
    if exact is None:
        exact = L.shape[0] <= EXACT_LIMIT
    if exact:
        eigenvalues, U = np.linalg.eigh(L.toarray())
        edges = np.linspace(0.0, 2.0, N_BINS + 1)
        place = np.clip(np.searchsorted(edges, np.round(eigenvalues, 9), side="right") - 1, 0, N_BINS - 1)
        energy = np.zeros((N_BINS, values.shape[1]))
        np.add.at(energy, place, np.square(U.T @ values))
    else:
        edges = np.linspace(0.0, 2.0, N_BANDS + 1)
        energy = _band_energies(L, values)
    total = energy.sum(axis=0)
    return Energies(edges, energy / np.where(total > 0, total, 1.0), exact)


def _band_energies(L: Any, values: np.ndarray) -> np.ndarray:
    import torch

    from megae.kernels import apply
    from megae.spectral import TightFrame, chebyshev_coefficients

    C = chebyshev_coefficients(TightFrame(N_BANDS), tol=1e-2)
    energy = np.zeros((N_BANDS, values.shape[1]))
    for j in range(values.shape[1]):
        with torch.no_grad():
            bands = apply(L, torch.from_numpy(np.ascontiguousarray(values[:, None, j : j + 1])), C)
        energy[:, j] = bands.square().sum(dim=(0, 2)).numpy()
    return energy


def plot_spectrum(
    before: Any,
    after: Any,
    adjacency: Any,
    columns: Sequence[str],
    path: str | os.PathLike[str],
    *,
    result: Mapping[str, Any] | None = None,
) -> Path:
    """Draw the spectrum of some columns before and after imputation.

    Parameters
    ----------
    before, after : DataFrame of shape (N, D)
        Attributes without holes; `before` with whatever stands in for its holes.
    adjacency : scipy sparse of shape (N, N)
        The graph over the rows.
    columns : sequence of str
        The columns to draw, the first twelve of them.
    path : path
        ``.png``, ``.svg``, ``.pdf`` or ``.html``.
    result : mapping, optional
        What ``megae spectrum --json`` prints; a page shows its entropies and names its files.

    Returns
    -------
    pathlib.Path
        `path`.
    """
    target = Path(path)
    shown = list(columns)[:MAX_PANELS]
    both = np.concatenate([before[shown].to_numpy(dtype=np.float64), after[shown].to_numpy(dtype=np.float64)], axis=1)
    drawing = _draw(spectral_energies(both, adjacency), shown)
    if target.suffix.lower() in (".html", ".htm"):
        target.write_text(_page(drawing, len(list(columns)), len(shown), result), encoding="utf-8")
    else:
        drawing.savefig(target, dpi=150, metadata=_metadata(target.suffix.lower()))
    return target


def _metadata(suffix: str) -> dict[str, Any]:
    """No date inside, so that the same input gives the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})


def _draw(energies: Energies, names: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    n = len(names)
    wide = min(n, 3)
    high = -(-n // wide)
    drawing = Figure(figsize=(4.2 * wide, 2.9 * high + 0.5), layout="constrained")
    axes = np.atleast_1d(np.asarray(drawing.subplots(high, wide, squeeze=False))).ravel()
    floor = 1e-6
    for j, (axis, name) in enumerate(zip(axes, names, strict=False)):
        first, second = energies.shares[:, j], energies.shares[:, n + j]
        axis.stairs(
            np.maximum(first, floor),
            energies.edges,
            fill=True,
            color="#c3c9d1",
            label="before",
            baseline=floor,
        )
        axis.stairs(
            np.maximum(second, floor),
            energies.edges,
            color="#c0392b",
            linewidth=1.4,
            label="after",
            baseline=floor,
        )
        axis.set(
            title=name if len(name) <= 40 else name[:37] + "...",
            yscale="log",
            ylim=(floor, 1.5),
            xlim=(0.0, 2.0),
        )
        axis.set_xlabel("eigenvalue" if energies.exact else "eigenvalue (wavelet bands)")
        axis.set_ylabel("share of energy")
    for axis in axes[n:]:
        axis.set_visible(False)
    axes[0].legend(frameon=False)
    return drawing


def _page(drawing: Figure, total: int, shown: int, result: Mapping[str, Any] | None) -> str:
    from megae.report.html import Markup, Page, facts, figure, versions

    buffer = io.BytesIO()
    drawing.savefig(buffer, format="svg", metadata=_metadata(".svg"))
    image = base64.b64encode(buffer.getvalue()).decode("ascii")
    page = Page("Graph spectrum before and after imputation", eyebrow="megae spectrum", generator="megae spectrum")
    which = ""
    if total > shown:
        which = f" The first {shown} of {total} columns{' by the number of their holes' if result else ''}."
    page.section(
        "Energy over the eigenvalues of the normalised Laplacian",
        figure(
            Markup(
                '<div class="scroll chart"><img alt="spectra" style="width:100%;background:#fff" '
                f'src="data:image/svg+xml;base64,{image}"></div>'
            ),
            f"Grey: before, holes set to the column mean. Red: after imputation. Logarithmic scale.{which}",
        ),
    )
    if result is not None:
        page.section("Entropy, column by column", _entropies(result))
        entries = [
            ("Table", f"{result['nodes']}, {result['rows']:,} rows"),
            ("Graph", result["edges"] or "in the file"),
        ]
        entries += [("Filled with", result["method"])] if result["method"] else [("Filled table", result["after"])]
        entries += [("Columns", "less their mean" if result["centered"] else "as they are"), ("Ids", result["ids"])]
        entries.append(("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())))
        page.section("How this page was made", facts(entries))
    return page.render()


def _entropies(result: Mapping[str, Any]) -> Any:
    from megae.report.html import number, table

    headers = [("Column", "text"), ("Holes", "num"), ("Spectral, before", "num"), ("After", "num")]
    headers += [("Wavelet, before", "num"), ("After", "num")]
    keys = [f"{kind}_entropy_{when}" for kind in ("spectral", "wavelet") for when in ("before", "after")]
    rows = [[r["name"], f"{r['holes']:,}", *(number(r[key], 3) for key in keys)] for r in result["columns"]]
    source = "an estimate of the eigenvalues" if result["bound_estimated"] else "the eigenvalues"
    caption = (
        "In nats: how evenly the energy of a column is spread over the spectrum. The wavelet entropy has "
        f"{result['bands']} bands, and differs from the spectral one by at most {number(result['bound'], 3)} "
        f"(from {source})."
    )
    return table(headers, rows, caption=caption)
