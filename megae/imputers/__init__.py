"""One class per method, one interface: NaN in, a filled table or filled graphs out.

Constants
    :class:`ZeroImputer`, :class:`MeanImputer`, :class:`MedianImputer`, :class:`GraphMeanImputer`
Rows alone
    :class:`KNNImputer`
The graph, nothing learnt
    :class:`FeaturePropagationImputer`
The graph, learnt
    :class:`MEGAEImputer`

``REGISTRY`` maps the name of a method to its class, :func:`get_imputer` makes one by name.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from megae.imputers.base import GraphImputer
from megae.imputers.feature_propagation import FeaturePropagationImputer
from megae.imputers.graph_mean import GraphMeanImputer
from megae.imputers.knn import KNNImputer
from megae.imputers.mean import MeanImputer
from megae.imputers.median import MedianImputer
from megae.imputers.megae import MEGAEImputer
from megae.imputers.zero import ZeroImputer

REGISTRY: dict[str, type[GraphImputer]] = {
    "zero": ZeroImputer,
    "mean": MeanImputer,
    "median": MedianImputer,
    "graph-mean": GraphMeanImputer,
    "knn": KNNImputer,
    "feature-propagation": FeaturePropagationImputer,
    "megae": MEGAEImputer,
}


def get_imputer(name: str, **kw: Any) -> GraphImputer:
    """Make the imputer of that name, passing ``kw`` to its constructor.

    Examples
    --------
    >>> get_imputer("knn", n_neighbors=3)
    KNNImputer(n_neighbors=3)
    """
    if name not in REGISTRY:
        near = get_close_matches(str(name).lower().replace("_", "-"), REGISTRY, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"there is no imputer named {name!r}{hint} Known names: {', '.join(REGISTRY)}")
    return REGISTRY[name](**kw)


__all__ = [
    "REGISTRY",
    "FeaturePropagationImputer",
    "GraphImputer",
    "GraphMeanImputer",
    "KNNImputer",
    "MEGAEImputer",
    "MeanImputer",
    "MedianImputer",
    "ZeroImputer",
    "get_imputer",
]
