"""Inv_MLP and Inv_GCN: MEGAE's wavelet encoder with a plain decoder, the ablations of its paper."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, Self

from megae.imputers.megae import MEGAEImputer


def _preset(decoder: str) -> Callable[..., None]:
    """A constructor with the keywords of MEGAEImputer, whose defaults are the paper's preset and this decoder."""
    defaults = {"preset": "paper", "decoder": decoder}
    original = inspect.signature(MEGAEImputer.__init__)

    @functools.wraps(MEGAEImputer.__init__)
    def __init__(self: MEGAEImputer, **settings: Any) -> None:
        MEGAEImputer.__init__(self, **{**defaults, **settings})

    parameters = [p.replace(default=defaults.get(p.name, p.default)) for p in original.parameters.values()]
    __init__.__signature__ = original.replace(parameters=parameters)  # type: ignore[attr-defined]
    return __init__


class _PlainDecoder(MEGAEImputer):
    """What both share: the decoder stays what the name says."""

    kind = "graph"
    inductive = True
    _decoder: str

    def _check_parameters(self) -> None:
        self._refuse_other_decoders()
        super()._check_parameters()

    def _refuse_other_decoders(self) -> None:
        if self.decoder != self._decoder:
            raise ValueError(
                f"{type(self).__name__} is MEGAE with decoder={self._decoder!r}, got decoder={self.decoder!r}; "
                "leave decoder out, or take MEGAEImputer for another one"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an imputer written by ``save``; a file of another decoder is refused."""
        loaded = super().load(path)
        loaded._refuse_other_decoders()
        return loaded


class InvMLPImputer(_PlainDecoder):
    r"""MEGAE's tight wavelet encoder with a perceptron for a decoder (Inv_MLP in Gao et al., AAAI 2023).

    .. math::
        Z^{(1)}_m = \phi(g_m(L) (X \odot R) W^{(0)}_m), \quad
        Z^{(2)}_m = \phi(Z^{(1)}_m W^{(1)}_m), \quad
        Z^{(3)}_m = \phi(Z^{(2)}_m W^{(2)}_m), \quad
        \tilde X = \phi([Z^{(3)}_1, \dots, Z^{(3)}_M] W^{(3)})

    Equations 5, 6, 8 and 9 of MEGAE with the inverse wavelet :math:`g_m^{-1}(L)` left out: the graph is not used on the
    way back. It is ``MEGAEImputer(preset="paper", decoder="mlp")``, bit for bit, and takes the same keywords.

    Deviations
    ----------
    Those of the preset ``paper``: Chebyshev polynomials in place of Maclaurin's; AdamW with one cycle of the learning
    rate, gradients clipped at norm 1 and the step chosen by held-out cells, of which the paper says nothing; on few
    graphs at most three tenths of a column are hidden. The paper names the ablation in one sentence; that the
    entropy term stays on (``regularize=False`` takes it off) is our reading.

    Parameters
    ----------
    preset : "paper" or "default"
    decoder : "mlp"
    others : as in :class:`megae.imputers.MEGAEImputer`

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> path = sp.eye_array(40, k=1)
    >>> filled = InvMLPImputer(max_steps=30, diagnose=False, random_state=0).fit_transform(X, graph=path)
    >>> filled.shape, bool(np.isnan(filled).any())
    ((40, 2), False)
    """

    _decoder = "mlp"
    __init__ = _preset("mlp")


class InvGCNImputer(_PlainDecoder):
    r"""MEGAE's tight wavelet encoder with a graph convolution for a decoder (Inv_GCN in Gao et al., AAAI 2023).

    .. math::
        Z^{(3)}_m = \phi\bigl(\tfrac12 (I + D^{-1/2} A D^{-1/2}) Z^{(2)}_m W^{(2)}_m\bigr), \quad
        \tilde X = \phi([Z^{(3)}_1, \dots, Z^{(3)}_M] W^{(3)})

    after the encoder of :class:`InvMLPImputer`: one graph convolution (Kipf & Welling, 2017), the low pass that MEGAE's
    inverse wavelet is compared with. It is ``MEGAEImputer(preset="paper", decoder="gcn")``, bit for bit, and takes the
    same keywords.

    Deviations
    ----------
    Those of the preset ``paper``: Chebyshev polynomials in place of Maclaurin's; AdamW with one cycle of the learning
    rate, gradients clipped at norm 1 and the step chosen by held-out cells, of which the paper says nothing; on few
    graphs at most three tenths of a column are hidden. The paper names the ablation in one sentence; that the
    entropy term stays on (``regularize=False`` takes it off) is our reading. The convolution is
    :math:`(I + D^{-1/2} A D^{-1/2}) / 2`, Kipf and Welling's first form before their renormalisation, scaled to norm 1.

    Parameters
    ----------
    preset : "paper" or "default"
    decoder : "gcn"
    others : as in :class:`megae.imputers.MEGAEImputer`

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> path = sp.eye_array(40, k=1)
    >>> filled = InvGCNImputer(max_steps=30, diagnose=False, random_state=0).fit_transform(X, graph=path)
    >>> filled.shape, bool(np.isnan(filled).any())
    ((40, 2), False)
    """

    _decoder = "gcn"
    __init__ = _preset("gcn")
