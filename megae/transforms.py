"""Imputation as a PyG transform."""

from __future__ import annotations

from typing import Any

import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from megae.imputers import GraphImputer, get_imputer


@functional_transform("impute")
class Impute(BaseTransform):
    r"""Fill the NaN in ``data.x`` (functional name: ``impute``); the graph that comes in stays as it is.

    A fitted imputer only transforms. One that is not fitted is fitted on each graph by itself, on a copy: the
    transform learns nothing from one graph for the next, so the order of graphs does not matter.

    Parameters
    ----------
    imputer : imputer, name of one, or None
        None is MEGAE.
    mask_attr : str or None
        Attribute that receives the boolean (N, D) mask of filled cells.
    **kw
        Arguments of the imputer's constructor where ``imputer`` is a name or None.

    Shapes
    ------
    ``x`` (N, D) with NaN in, (N, D) without NaN out; dtype and device kept.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> data = Data(x=torch.tensor([[1.0], [float("nan")], [3.0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
    >>> Impute("mean", mask_attr="imputed_mask")(data)
    Data(x=[3, 1], edge_index=[2, 2], imputed_mask=[3, 1])
    >>> bool(data.x.isnan().any())
    True
    """

    def __init__(self, imputer: GraphImputer | str | None = None, *, mask_attr: str | None = None, **kw: Any) -> None:
        if isinstance(imputer, GraphImputer):
            if kw:
                raise TypeError(
                    f"Impute got an imputer and its arguments {sorted(kw)}; set them on the imputer instead"
                )
            self.imputer = imputer
        elif imputer is None or isinstance(imputer, str):
            self.imputer = get_imputer("megae" if imputer is None else imputer, **kw)
        else:
            raise TypeError(f"imputer must be an imputer, its name or None, got {type(imputer).__name__}")
        self.mask_attr = mask_attr

    def forward(self, data: Any) -> Any:
        if not isinstance(data, Data):
            raise TypeError(f"Impute works on PyG Data with one node type, got {type(data).__name__}")
        x = data.get("x")
        if not isinstance(x, torch.Tensor):
            raise ValueError("data has no x; put the node attributes there, NaN in the holes")
        holes = x.isnan()
        filled = data.clone()
        if holes.any():
            filled.x = self._fill(data).x
        if self.mask_attr is not None:
            filled[self.mask_attr] = holes
        return filled

    def _fill(self, data: Data) -> Data:
        with sklearn.config_context(transform_output="default"):
            try:
                check_is_fitted(self.imputer)
            except NotFittedError:
                return clone(self.imputer).fit_transform(data)
            return self.imputer.transform(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.imputer!r})"
