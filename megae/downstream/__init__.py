"""Classification on filled features: what an imputation is worth to the model behind it.

Nodes of one graph
    :class:`NodeClassifier`, the interface; :class:`GCNClassifier`; :func:`node_split` with ``NODE_PROTOCOLS``
Nodes of one graph, features with holes
    :class:`GCNMFClassifier`, :class:`PaGNNClassifier`
Whole graphs
    :class:`GraphClassifier`
Features
    :func:`prepare_features`

``CLASSIFIERS`` maps the name of a classifier of nodes to its class; ``GCN_SETTINGS`` holds, by dataset, where the GCN
leaves its defaults.
"""

from __future__ import annotations

from megae.downstream.base import NodeClassifier
from megae.downstream.features import PREPARATIONS, prepare_features
from megae.downstream.gcn import GCN_SETTINGS, GCNClassifier
from megae.downstream.gcnmf import GCNMFClassifier
from megae.downstream.graphs import GraphClassifier
from megae.downstream.pagnn import PaGNNClassifier
from megae.downstream.splits import NODE_PROTOCOLS, node_split

CLASSIFIERS: dict[str, type[NodeClassifier]] = {
    "gcn": GCNClassifier,
    "gcnmf": GCNMFClassifier,
    "pagnn": PaGNNClassifier,
}

__all__ = [
    "CLASSIFIERS",
    "GCN_SETTINGS",
    "NODE_PROTOCOLS",
    "PREPARATIONS",
    "GCNClassifier",
    "GCNMFClassifier",
    "GraphClassifier",
    "NodeClassifier",
    "PaGNNClassifier",
    "node_split",
    "prepare_features",
]
