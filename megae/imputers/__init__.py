"""One class per method, one interface: NaN in, a filled table or filled graphs out.

Constants
    :class:`ZeroImputer`, :class:`MeanImputer`, :class:`MedianImputer`, :class:`GraphMeanImputer`
Rows alone
    :class:`KNNImputer`, :class:`SVDImputer`, :class:`MICEImputer`, :class:`MissForestImputer`, :class:`GAINImputer`,
    :class:`OTImputer`, :class:`MIRACLEImputer`
The graph, nothing learnt
    :class:`FeaturePropagationImputer`, :class:`PCFIImputer`
The graph, learnt
    :class:`GRAPEImputer` (rows and columns are its graph), :class:`GDNImputer`, :class:`GCMCImputer`,
    :class:`SRMGCNNImputer`, :class:`VGAEImputer`, :class:`GraphVAEImputer`, :class:`MolGANImputer`,
    :class:`InvMLPImputer`, :class:`InvGCNImputer`, :class:`MEGAEImputer`

``REGISTRY`` maps the name of a method to its class, :func:`get_imputer` makes one by name.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from megae.imputers.base import GraphImputer
from megae.imputers.feature_propagation import FeaturePropagationImputer
from megae.imputers.gain import GAINImputer
from megae.imputers.gc_mc import GCMCImputer
from megae.imputers.gdn import GDNImputer
from megae.imputers.grape import GRAPEImputer
from megae.imputers.graph_mean import GraphMeanImputer
from megae.imputers.graphvae import GraphVAEImputer
from megae.imputers.inverse import InvGCNImputer, InvMLPImputer
from megae.imputers.knn import KNNImputer
from megae.imputers.mean import MeanImputer
from megae.imputers.median import MedianImputer
from megae.imputers.megae import MEGAEImputer
from megae.imputers.mice import MICEImputer
from megae.imputers.miracle import MIRACLEImputer
from megae.imputers.missforest import MissForestImputer
from megae.imputers.molgan import MolGANImputer
from megae.imputers.ot import OTImputer
from megae.imputers.pcfi import PCFIImputer
from megae.imputers.srmgcnn import SRMGCNNImputer
from megae.imputers.svd import SVDImputer
from megae.imputers.vgae import VGAEImputer
from megae.imputers.zero import ZeroImputer

REGISTRY: dict[str, type[GraphImputer]] = {
    "zero": ZeroImputer,
    "mean": MeanImputer,
    "median": MedianImputer,
    "graph-mean": GraphMeanImputer,
    "knn": KNNImputer,
    "svd": SVDImputer,
    "mice": MICEImputer,
    "missforest": MissForestImputer,
    "feature-propagation": FeaturePropagationImputer,
    "pcfi": PCFIImputer,
    "gain": GAINImputer,
    "ot": OTImputer,
    "miracle": MIRACLEImputer,
    "vgae": VGAEImputer,
    "grape": GRAPEImputer,
    "gdn": GDNImputer,
    "gc-mc": GCMCImputer,
    "srmgcnn": SRMGCNNImputer,
    "graphvae": GraphVAEImputer,
    "molgan": MolGANImputer,
    "inv-mlp": InvMLPImputer,
    "inv-gcn": InvGCNImputer,
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
    "GAINImputer",
    "GCMCImputer",
    "GDNImputer",
    "GRAPEImputer",
    "GraphImputer",
    "GraphMeanImputer",
    "GraphVAEImputer",
    "InvGCNImputer",
    "InvMLPImputer",
    "KNNImputer",
    "MEGAEImputer",
    "MICEImputer",
    "MIRACLEImputer",
    "MeanImputer",
    "MedianImputer",
    "MissForestImputer",
    "MolGANImputer",
    "OTImputer",
    "PCFIImputer",
    "SRMGCNNImputer",
    "SVDImputer",
    "VGAEImputer",
    "ZeroImputer",
    "get_imputer",
]
