"""What every imputer shares: reading the input, the honesty rules, and giving back the type that came in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data
from torch_geometric.data import Batch, Data

from megae.columns import Column, collapse, expand, infer_kinds, keep_in_range
from megae.graphs import adjacency, is_graph_collection, knn_adjacency, to_data
from megae.tables import Table, check_finite, is_frame, read_table
from megae.training.task import first_entries


class GraphImputer(TransformerMixin, BaseEstimator):
    """Base of all imputers: NaN in, a filled table of the same type out, observed cells untouched.

    A method is a subclass with two hooks, both on PyG ``Data`` whose ``x`` is a float64 (N, E) matrix with
    NaN in its holes (categorical columns one-hot encoded, columns without a single observed cell left out):

    - ``_fit(graphs, validation)`` learns; ``validation`` may be empty;
    - ``_fill(graphs)`` returns one ndarray (N, E) without NaN per graph; observed cells are ignored.

    Parameters every subclass has: ``column_types``, ``clip``, ``fallback``, ``n_neighbors``,
    ``unknown_nodes``. A method that looks at rows alone sets ``_uses_graph = False``: no kNN graph is built
    for it where none is given. ``kind`` says what a method goes by: "statistical" (the table alone, no network),
    "learning" (a network on the table alone) or "graph". ``inductive`` is False where the method by its paper completes
    the one table it was given; new rows then need a step of their own, which its class describes.

    Beside those a method has ``random_state`` where it draws, ``device`` where it computes with torch, ``verbose``
    where there is something to wait for, and ``time_budget`` (seconds, above 0) where it can end early with a fill that
    means something. The exceptions, by their names in the registry:

    ================================== ================ ========== =========== ===============
    names                              ``random_state`` ``device`` ``verbose`` ``time_budget``
    ================================== ================ ========== =========== ===============
    zero, mean, median, graph-mean     nothing drawn    CPU        at once     at once
    feature-propagation                nothing drawn    CPU        at once     fixed steps
    knn                                yes              CPU        yes         half is no fill
    svd, mice, missforest, pcfi        yes              CPU        yes         yes
    all others                         yes              yes        yes         yes
    ================================== ================ ========== =========== ===============

    "CPU" methods compute with numpy, scipy and scikit-learn. With a budget, figures depend on the machine's speed.
    """

    kind: ClassVar[str] = "statistical"
    inductive: ClassVar[bool] = True
    _uses_graph = True

    column_types: Any
    clip: bool
    fallback: float
    n_neighbors: int
    unknown_nodes: str

    columns_: list[Column]
    usable_: np.ndarray
    graph_: sp.csr_array | None
    n_features_in_: int

    def __init__(
        self,
        *,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        n_neighbors: int = 10,
        unknown_nodes: str = "error",
    ) -> None:
        self.column_types = column_types
        self.clip = clip
        self.fallback = fallback
        self.n_neighbors = n_neighbors
        self.unknown_nodes = unknown_nodes

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        raise TypeError(f"{type(self).__name__} does not say how it learns")

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        raise TypeError(f"{type(self).__name__} does not say how it fills")

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, validation: Any = None) -> Self:
        """Learn from observed cells alone.

        Parameters
        ----------
        X : table of shape (N, D), or list of PyG ``Data`` (or a PyG dataset) whose ``x`` is (N_i, D)
            NaN marks a hole. Table: ndarray, tensor, DataFrame or scipy sparse matrix.
        y : ignored
        graph : graph over the rows of a table, see :func:`megae.graphs.adjacency`; None builds a kNN graph
            For scikit-learn's cross-validation give an edge table matched by index labels, and
            ``unknown_nodes="drop"``: each fold then gets the edges among its rows. scikit-learn cuts
            whatever is as long as X, so if the edge table is, give one of its edges twice (it counts once).
        validation : more graphs like X, or None
            Graphs to select on; methods that select nothing ignore them.

        Returns
        -------
        self
        """
        check_time_budget(getattr(self, "time_budget", None))
        graphs, _ = self._read(X, graph, reset=True)
        more = [] if validation is None else self._read(validation, None, reset=False)[0]
        self._fit(self._usable(graphs), self._usable(more))
        return self

    def transform(self, X: Any, *, graph: Any = None) -> Any:
        """Fill the holes of X.

        Parameters
        ----------
        X : as in :meth:`fit`
        graph : graph over the rows of X
            None takes the graph of ``fit`` if X has as many rows, and a kNN graph if ``fit`` built one too. Rows are
            then taken in the order of ``fit``; a DataFrame with other labels is warned about.

        Returns
        -------
        What X was: same type, shape, dtypes, index and columns, without holes.
        """
        check_is_fitted(self)
        if _holds_graphs(X) and _wants_frames(self):
            raise ValueError("graphs come out as graphs; call set_output(transform='default') to fill them")
        graphs, tables = self._read(X, graph, reset=False)
        if not any(t.holes.any() for t in tables):
            filled = [np.nan_to_num(g.x.numpy()) for g in graphs]
        else:
            filled = self._complete(graphs, self._fill(self._usable(graphs)))
        return self._restore(X, tables, filled)

    def fit_transform(self, X: Any, y: Any = None, *, graph: Any = None, validation: Any = None) -> Any:
        """``fit`` on X, then ``transform`` it on the same graph."""
        return self.fit(X, y, graph=graph, validation=validation).transform(X, graph=graph)

    def score(self, X: Any, y: Any = None, *, graph: Any = None) -> float:
        """Minus the RMSE on a tenth of the observed cells of X, hidden for the occasion; for model selection.

        Errors count in units of each column's standard deviation in X. A categorical cell is one cell: its squared
        error is that of all its one-hot entries, in units of the sum of their variances, so that predicting how often
        each category occurs errs by 1, as the mean of a column of numbers does. Which cells are hidden depends on the
        shape of X alone, so two models are scored on the same ones. Where a kNN graph is built, it is built without
        them.
        """
        check_is_fitted(self)
        graphs, _ = self._read(X, graph, reset=False)
        rng = np.random.default_rng(0)
        widths = [c.stop - c.start for c in self.columns_]
        drawn = [np.repeat(rng.random((len(g.x), len(widths))) < 0.1, widths, axis=1) for g in graphs]
        hide = [g.x.isfinite() & torch.from_numpy(d) for g, d in zip(graphs, drawn, strict=True)]
        blind = [Data(**{**g.to_dict(), "x": g.x.masked_fill(h, torch.nan)}) for g, h in zip(graphs, hide, strict=True)]
        if graph is None and self._built_knn and self._uses_graph and not _holds_graphs(X):
            blind = [to_data(b.x.numpy(), knn_adjacency(b.x.numpy(), self.n_neighbors)) for b in blind]
        filled = self._complete(blind, self._fill(self._usable(blind)))
        everything = np.concatenate([g.x.numpy() for g in graphs])
        some = ~np.isnan(everything).all(axis=0)
        scale = np.ones(everything.shape[1])
        scale[some] = np.nanstd(everything[:, some], axis=0)
        for c in self.columns_:
            if c.stop - c.start > 1:
                scale[c.start : c.stop] = np.sqrt(np.sum(scale[c.start : c.stop] ** 2))
        scale[scale == 0] = 1.0
        flat = np.concatenate(
            [((f - g.x.numpy()) / scale)[h.numpy()] for f, g, h in zip(filled, graphs, hide, strict=True)]
        )
        first = first_entries(self.columns_)
        if first is not None and flat.size:
            return -float(np.sqrt(np.sum(flat**2) / sum(int(h.numpy()[:, first].sum()) for h in hide)))
        return -float(np.sqrt(np.mean(flat**2))) if flat.size else 0.0

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that come out: those that went in."""
        check_is_fitted(self, "n_features_in_")
        from sklearn.utils.validation import _check_feature_names_in

        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    @property
    def column_types_(self) -> dict[str, str]:
        """Column name -> what it was taken for."""
        return {c.name: c.kind for c in self.columns_}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _read(self, X: Any, graph: Any, reset: bool) -> tuple[list[Data], list[Table]]:
        """Input -> encoded graphs and the tables they came from."""
        if _holds_graphs(X):
            return self._read_graphs(_members(X), graph, reset)
        _refuse_what_holds_tables_or_graphs(X)
        table = self._read_checked(X, reset)
        if reset:
            self._learn_columns(table, [table.cells])
        encoded = self._encode(table)
        return [to_data(encoded, self._graph_for(table, encoded, graph, reset))], [table]

    def _read_graphs(self, items: list[Data], graph: Any, reset: bool) -> tuple[list[Data], list[Table]]:
        if graph is not None:
            raise ValueError("these graphs bring their own edges; leave graph out")
        for k, item in enumerate(items):
            if not isinstance(item.get("x"), torch.Tensor) or item.x.dim() != 2:
                raise ValueError(f"graph {k} has no two-dimensional x; put the node attributes there, NaN in the holes")
            width = items[0].x.shape[1] if reset else self.n_features_in_
            if item.x.shape[1] != width:
                raise ValueError(f"graph {k} has {item.x.shape[1]} features, but {width} were expected")
        tables = [read_table(item.x) for item in items]
        check_finite(np.concatenate([t.cells for t in tables]), tables[0].names)
        if reset:
            self.n_features_in_ = tables[0].cells.shape[1]
            self._built_knn = False
            self.graph_ = None
            self._learn_columns(tables[0], [t.cells for t in tables])
        graphs = []
        for item, table in zip(items, tables, strict=True):
            n = table.cells.shape[0]
            A = adjacency(item, n) if item.get("edge_index") is not None else sp.csr_array((n, n))
            graphs.append(to_data(self._encode(table), A))
        return graphs, tables

    def _read_checked(self, X: Any, reset: bool) -> Table:
        """A table through scikit-learn's own checks, so that its errors are the ones users know."""
        if is_frame(X):
            table = read_table(X)
            _check_feature_names(self, X, reset=reset)
            self._check_width(X.shape, reset)
        elif isinstance(X, torch.Tensor):
            table = read_table(X)
            self._check_width(X.shape, reset)
        else:
            checked = validate_data(self, X, reset=reset, dtype="numeric", accept_sparse=True, ensure_all_finite=False)
            table = read_table(checked)
        check_finite(table.cells, table.names)
        return table

    def _check_width(self, shape: Sequence[int], reset: bool) -> None:
        if len(shape) == 2 and shape[0] == 0:
            raise ValueError(f"Found array with 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
        if len(shape) == 2 and shape[1] == 0:
            raise ValueError(f"0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
        if reset:
            self.n_features_in_ = int(shape[1])
        elif shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )

    def _learn_columns(self, table: Table, cells: list[np.ndarray]) -> None:
        stacked = cells[0] if len(cells) == 1 else np.concatenate(cells)
        self.columns_ = infer_kinds(stacked, table.names, table.categories, table.boolean, self.column_types)
        empty = [c for j, c in enumerate(self.columns_) if np.isnan(stacked[:, j]).all()]
        self.usable_ = np.ones(self.columns_[-1].stop, dtype=bool)
        for column in empty:
            self.usable_[column.start : column.stop] = False
        if empty:
            if not isinstance(self.fallback, (int, float, np.number)) or not np.isfinite(self.fallback):
                raise ValueError(f"fallback must be a finite number, got {self.fallback!r}")
            names = ", ".join(repr(c.name) for c in empty[:5]) + (", ..." if len(empty) > 5 else "")
            warnings.warn(
                f"no value is observed in column {names}: filled with the fallback {self.fallback:g} "
                "(the first category in a categorical column)",
                stacklevel=4,
            )

    def _encode(self, table: Table) -> np.ndarray:
        for j, column in enumerate(self.columns_):
            texts = tuple(table.categories.get(j, ()))
            if texts != column.categories:
                raise ValueError(
                    f"column {column.name!r} was fitted with categories {list(column.categories)} but now "
                    f"has {list(texts)}; give it the same pandas CategoricalDtype"
                )
        return expand(table.cells, self.columns_)

    def _graph_for(self, table: Table, encoded: np.ndarray, graph: Any, reset: bool) -> sp.csr_array:
        n = table.cells.shape[0]
        if graph is not None:
            A = adjacency(graph, n, table.labels, self.unknown_nodes)
        elif reset or self._built_knn:
            A = knn_adjacency(encoded, self.n_neighbors) if self._uses_graph else sp.csr_array((n, n))
        elif (fitted := getattr(self, "graph_", None)) is not None and fitted.shape[0] == n:
            A = fitted
            self._compare_labels(table.labels)
        else:
            raise ValueError(
                f"X has {n} rows, not those of the graph given to fit; pass the graph over these rows as graph="
            )
        if reset:
            self._built_knn = graph is None
            self.graph_ = None if graph is None else A
            self._labels = None if graph is None else table.labels
        return A

    def _compare_labels(self, labels: Any) -> None:
        """Say that rows of other labels than those of ``fit`` get its graph, in its order."""
        known = getattr(self, "_labels", None)
        if self._uses_graph and known is not None and labels is not None and not known.equals(labels):
            warnings.warn(
                "X has other row labels than the table given to fit, or another order of them, and is filled on the "
                "graph of fit, row by row; pass the graph over these rows as graph=",
                stacklevel=6,
            )

    def _usable(self, graphs: list[Data]) -> list[Data]:
        if self.usable_.all():
            return graphs
        keep = torch.from_numpy(self.usable_)
        return [Data(x=g.x[:, keep], edge_index=g.edge_index, edge_weight=g.edge_weight) for g in graphs]

    def _complete(self, graphs: list[Data], filled: list[np.ndarray], unknown: float | None = None) -> list[np.ndarray]:
        """Filled usable columns -> all encoded columns, in range, observed cells put back.

        Columns without data hold ``unknown``, the end of an interval (cells may then be infinite), or the fallback.
        """
        out = []
        for g, values in zip(graphs, filled, strict=True):
            x = g.x.numpy()
            whole = np.full(x.shape, float(self.fallback if unknown is None else unknown))
            whole[:, self.usable_] = values
            if unknown is None and not np.isfinite(whole).all():
                raise FloatingPointError(f"{type(self).__name__} produced a value that is not finite")
            whole = keep_in_range(whole, self.columns_, self.clip)
            out.append(np.where(np.isnan(x), whole, x))
        return out

    def _restore(self, X: Any, tables: list[Table], filled: list[np.ndarray]) -> Any:
        cells = [collapse(f, self.columns_) for f in filled]
        if isinstance(X, Data):
            return _with_x(X, torch.cat([t.restore(c) for t, c in zip(tables, cells, strict=True)]))
        if is_graph_collection(X):
            return [_with_x(g, t.restore(c)) for g, t, c in zip(X, tables, cells, strict=True)]
        return tables[0].restore(cells[0])


def check_time_budget(seconds: float | None) -> None:
    """Refuse a time budget in which nothing can be learnt.

    Parameters
    ----------
    seconds : float or None
        None is no limit.
    """
    if seconds is not None and not (isinstance(seconds, Real) and seconds > 0):
        raise ValueError(f"time_budget must be a number of seconds above 0, or None for no limit, got {seconds!r}")


def _holds_graphs(X: Any) -> bool:
    return isinstance(X, Data) or is_graph_collection(X)


def _refuse_what_holds_tables_or_graphs(X: Any) -> None:
    """Say what to give instead of an empty list, a data loader, or a list of graphs and other things."""
    if isinstance(X, (list, tuple)) and len(X) == 0:
        raise ValueError("X is an empty list; give a table, or at least one PyG Data (Found array with 0 sample(s))")
    if isinstance(X, torch.utils.data.DataLoader):
        raise ValueError("X is a DataLoader; give the graphs it loads: its dataset, or a list of PyG Data")
    if isinstance(X, (list, tuple)) and any(isinstance(item, Data) for item in X):
        other = next(item for item in X if not isinstance(item, Data))
        raise ValueError(f"X holds PyG graphs and {type(other).__name__}; give a list of PyG Data and nothing else")


def _wants_frames(estimator: GraphImputer) -> bool:
    return _get_output_config("transform", estimator)["dense"] != "default"


def _members(X: Data | Sequence[Data]) -> list[Data]:
    """The graphs in what was given; a PyG ``Batch`` is the graphs it was made of."""
    if isinstance(X, Batch):
        return X.to_data_list()
    return [X] if isinstance(X, Data) else list(X)


def _with_x(data: Data, x: torch.Tensor) -> Data:
    filled = data.clone()
    filled.x = x
    return filled
