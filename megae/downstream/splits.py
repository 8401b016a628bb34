"""Which nodes to train on, to choose on and to report on."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from torch import Tensor


class Protocol(TypedDict):
    """How many nodes each part takes; ``test`` None is all that are left."""

    per_class: int
    validation: int
    test: int | None


NODE_PROTOCOLS: dict[str, Protocol] = {
    "Cora": {"per_class": 20, "validation": 500, "test": 1000},
    "Citeseer": {"per_class": 20, "validation": 500, "test": 1000},
    "Pubmed": {"per_class": 20, "validation": 500, "test": 1000},
    "AmaPhoto": {"per_class": 40, "validation": 500, "test": None},
}
"""Sizes of the MEGAE paper: those of Kipf & Welling (ICLR 2017), of GCNMF on AmaPhoto; new nodes in each run."""


def node_split(
    y: Any,
    per_class: int,
    validation: int,
    test: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw nodes for training, validation and test.

    So many of each class are drawn for training, then validation and test nodes from all other labelled ones.

    Parameters
    ----------
    y : int array of shape (N,)
        Class of each node; a negative number is no label, and such a node is in no part.
    per_class : int
        Training nodes of each class.
    validation : int
    test : int or None
        None takes all that are left.
    random_state : int, numpy Generator or None
        None takes fresh entropy.

    Returns
    -------
    train, validation, test : int ndarrays
        Sorted, disjoint positions.

    Examples
    --------
    >>> train, validation, test = node_split([0, 0, 1, 1, 1, -1], per_class=1, validation=2, random_state=0)
    >>> len(train), len(validation), len(test)
    (2, 2, 1)
    """
    labels = np.asarray(y.cpu().numpy() if isinstance(y, Tensor) else y)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"y must hold one integer class per node, got {labels.dtype} of shape {labels.shape}")
    for name, size, least in (("per_class", per_class, 1), ("validation", validation, 0), ("test", test, 0)):
        if size is not None and size < least:
            raise ValueError(f"{name} must be at least {least}, got {size}")
    rng = np.random.default_rng(random_state)
    labelled = np.flatnonzero(labels >= 0)
    chosen = []
    for c in np.unique(labels[labelled]):
        members = np.flatnonzero(labels == c)
        if len(members) < per_class:
            raise ValueError(f"class {c} has {len(members)} nodes, fewer than per_class={per_class}; ask for fewer")
        chosen.append(rng.choice(members, per_class, replace=False))
    if not chosen:
        raise ValueError("no node has a label (all are negative), so there is nothing to draw from")
    train = np.sort(np.concatenate(chosen))
    rest = rng.permutation(np.setdiff1d(labelled, train))
    wanted = validation + (test or 0)
    if len(rest) < wanted:
        raise ValueError(
            f"validation={validation} and test={test} need {wanted} nodes, but {len(rest)} labelled ones are left "
            "after training; ask for fewer"
        )
    end = len(rest) if test is None else wanted
    return train, np.sort(rest[:validation]), np.sort(rest[validation:end])
