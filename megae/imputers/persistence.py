"""A fitted MEGAE imputer as one file: tensors in safetensors, all else in its JSON header."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from megae.columns import Column
from megae.imputers.build import build_network
from megae.imputers.uncertainty import Calibration
from megae.models import FilterBank
from megae.training.checkpoint import read_tensors, write_tensors

if TYPE_CHECKING:
    from megae.imputers.megae import MEGAEImputer

FORMAT = "megae-model"
VERSION = 1

I = TypeVar("I", bound="MEGAEImputer")


def save_imputer(imputer: MEGAEImputer, path: str | os.PathLike[str]) -> None:
    """Write a fitted imputer, atomically."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(imputer)
    params = imputer.get_params(deep=False)
    if not isinstance(params["random_state"], (int, np.integer, type(None))):
        params["random_state"] = None
    names = getattr(imputer, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "megae": _installed("megae"),
        "torch": torch.__version__,
        "params": {k: _plain(v) for k, v in params.items()},
        "config": imputer.config_,
        "columns": [c.to_dict() for c in imputer.columns_],
        "feature_names": None if names is None else [str(n) for n in names],
        "n_features": imputer.n_features_in_,
        "seed": imputer.seed_,
        "by_graph": imputer.by_graph_,
        "built_knn": imputer._built_knn,
        "graph_nodes": None if imputer.graph_ is None else imputer.graph_.shape[0],
        "diagnostics": imputer.diagnostics_,
    }
    tensors: dict[str, Tensor] = {f"network.{k}": v for k, v in imputer.network_.state_dict().items()}
    arrays: dict[str, Any] = {
        "usable": imputer.usable_,
        "mean": imputer.mean_,
        "scale": imputer.scale_,
        "unit": imputer.unit_,
    }
    if imputer.graph_ is not None:
        coo = imputer.graph_.tocoo()
        arrays |= {"graph.index": np.stack(coo.coords).astype(np.int64), "graph.weight": coo.data}
    if imputer.calibration_ is not None:
        c = imputer.calibration_
        arrays |= {"calibration.scores": c.scores, "calibration.columns": c.columns, "calibration.spread": c.spread}
    write_tensors(path, tensors | {k: torch.as_tensor(np.ascontiguousarray(v)) for k, v in arrays.items()}, header)


def load_imputer(cls: type[I], path: str | os.PathLike[str]) -> I:
    """Read what :func:`save_imputer` wrote."""
    tensors, header = read_tensors(path, FORMAT, VERSION)
    try:
        return _assembled(cls, tensors, header)
    except (KeyError, TypeError, StopIteration, RuntimeError) as error:
        raise ValueError(f"{path} does not hold what its header describes; make it again ({error})") from error


def _assembled(cls: type[I], tensors: dict[str, Tensor], header: dict[str, Any]) -> I:
    imputer = cls(**header["params"])
    imputer.config_ = header["config"]
    imputer.columns_ = [Column.from_dict(c) for c in header["columns"]]
    imputer.n_features_in_ = header["n_features"]
    if header["feature_names"] is not None:
        imputer.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    imputer.seed_, imputer.by_graph_ = header["seed"], header["by_graph"]
    imputer._built_knn = header["built_knn"]
    imputer.diagnostics_ = header["diagnostics"]
    unknown = {k: np.nan for k, v in imputer.diagnostics_["rmse"].items() if v is None}
    imputer.diagnostics_["rmse"] |= unknown
    imputer.usable_ = tensors["usable"].numpy()
    imputer.mean_, imputer.scale_, imputer.unit_ = (tensors[k].numpy() for k in ("mean", "scale", "unit"))
    imputer.graph_ = _read_graph(tensors, header["graph_nodes"])
    imputer.calibration_ = None
    if "calibration.scores" in tensors:
        imputer.calibration_ = Calibration(
            *(tensors[f"calibration.{k}"].numpy() for k in ("scores", "columns", "spread"))
        )
    weights = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
    imputer.network_ = build_network(
        imputer.config_,
        imputer._seen_columns(),
        imputer.mean_,
        imputer.scale_,
        imputer.unit_,
        imputer.binary_loss,
        imputer.by_graph_,
        imputer.use_graph,
        _read_filters(weights),
        imputer.seed_,
    )
    imputer.network_.carry(weights.get("carried"))
    imputer.network_.load_state_dict(weights)
    imputer.network_.eval()
    return imputer


def _read_filters(weights: dict[str, Tensor]) -> FilterBank:
    """The filter bank that all blocks share, found wherever the network keeps it."""
    analysis = next(v for k, v in weights.items() if k.endswith("filters.analysis"))
    synthesis = next((v for k, v in weights.items() if k.endswith("filters.synthesis")), None)
    return FilterBank(analysis.numpy(), None if synthesis is None else synthesis.numpy())


def _read_graph(tensors: dict[str, Tensor], n: int | None) -> sp.csr_array | None:
    if n is None:
        return None
    rows, cols = tensors["graph.index"].numpy()
    return sp.csr_array((tensors["graph.weight"].numpy(), (rows, cols)), shape=(n, n))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
