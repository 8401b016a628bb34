"""GraphML files: nodes and edges in one document, patched in place.

A node attribute is a column; a node without it (and without a declared default), or with NaN, has a hole
there. The attribute of edges named weight is the weight. Everything else in the document is written back
as it was.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from megae.io.columns import is_hole
from megae.io.document import Document, Fill, Flag, OutColumn, RawColumn
from megae.io.edges import EdgeList, check_weights
from megae.io.errors import InputError

__all__ = ["GraphMLFile", "write_graphml"]

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_REAL, _WHOLE = ("float", "double"), ("int", "integer", "long", "short")


@dataclass
class _Key:
    """One declared node attribute: the element that declares it, its type and its default."""

    id: str
    name: str
    type: str
    default: str | None


class GraphMLFile(Document):
    """A GraphML document with one flat graph (no nested graphs, no hyperedges); direction is not used."""

    format = "graphml"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            for _, (prefix, uri) in ET.iterparse(path, events=["start-ns"]):
                if not (prefix.startswith("ns") and prefix[2:].isdigit()):
                    ET.register_namespace(prefix, uri)
            parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
            self.tree = ET.parse(path, parser)
        except ET.ParseError as error:
            raise InputError(f"{path} is not well-formed XML ({error}); export the GraphML file again") from error
        root = self.tree.getroot()
        self._ns = root.tag[: root.tag.index("}") + 1] if root.tag.startswith("{") else ""
        graphs = list(root.iter(self._ns + "graph"))
        if root.tag != self._ns + "graphml" or not graphs:
            raise InputError(f"{path} is not GraphML; it needs a <graphml> element with a <graph> inside")
        if len(graphs) > 1 or next(root.iter(self._ns + "hyperedge"), None) is not None:
            raise InputError(f"{path} holds several or nested graphs, or hyperedges; give one flat graph per file")
        self._root, self._graph = root, graphs[0]
        self._nodes = self._graph.findall(self._ns + "node")
        self.ids = [self._required(node, "id") for node in self._nodes]
        self.n_rows = len(self._nodes)
        self._keys = self._declared("node")
        self.edges = self._read_edges()

    def where(self, row: int) -> str:
        return f"{self.path} node {self.ids[row]!r}" if self.ids else str(self.path)

    def raw_columns(self) -> list[RawColumn]:
        import pandas as pd

        data = [self._data(node) for node in self._nodes]
        columns = []
        for key in self._keys:
            cells = [d.get(key.id, key.default) for d in data]
            if key.type in _REAL:
                series = pd.Series([self._real(c, i, key) for i, c in enumerate(cells)], dtype=np.float64)
            elif key.type in _WHOLE:
                series = pd.Series(pd.array([self._whole(c, i, key) for i, c in enumerate(cells)], dtype="Int64"))
            elif key.type == "boolean":
                series = pd.Series(pd.array([self._truth(c, i, key) for i, c in enumerate(cells)], dtype="boolean"))
            else:
                series = pd.Series(cells, dtype=object)
            columns.append(RawColumn(key.name, series=series, note=key.type))
        return columns

    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        by_name = {key.name: key for key in self._keys}
        for fill in fills:
            key = by_name[fill.name]
            for row, value, text in zip(fill.rows.tolist(), fill.values, fill.texts, strict=True):
                self._set(self._nodes[row], key.id, _text(value) if key.type != "string" else text)
        for flag in flags:
            key_id = self._declare(flag.name)
            for node, value in zip(self._nodes, flag.mask.tolist(), strict=True):
                self._set(node, key_id, _text(value))
        self.tree.write(path, encoding="utf-8", xml_declaration=True)

    def _required(self, element: ET.Element, attribute: str) -> str:
        value = element.get(attribute)
        if value is None:
            kind = element.tag.removeprefix(self._ns)
            raise InputError(f"{self.path}: a <{kind}> element has no {attribute!r}; export the GraphML file again")
        return value

    def _declared(self, domain: str) -> list[_Key]:
        keys: list[_Key] = []
        for element in self._root.findall(self._ns + "key"):
            if element.get("for", "all") not in (domain, "all") or element.get("attr.name") is None:
                continue
            default = element.find(self._ns + "default")
            name = str(element.get("attr.name"))
            if any(key.name == name for key in keys):
                raise InputError(f"{self.path}: two {domain} attributes are named {name!r}; rename one of them")
            text = None if default is None else (default.text or "")
            keys.append(_Key(self._required(element, "id"), name, element.get("attr.type", "string"), text))
        return keys

    def _data(self, element: ET.Element) -> dict[str, str]:
        return {str(d.get("key")): d.text or "" for d in element.findall(self._ns + "data")}

    def _read_edges(self) -> EdgeList:
        elements = self._graph.findall(self._ns + "edge")
        source = [self._required(e, "source") for e in elements]
        target = [self._required(e, "target") for e in elements]

        def where(e: int) -> str:
            return f"{self.path} edge {e + 1} ({source[e]} to {target[e]})"

        key = next((k for k in self._declared("edge") if k.name.lower() == "weight"), None)
        weight = None
        if key is not None and elements:
            cells = [self._data(e).get(key.id, key.default) for e in elements]
            weight = np.asarray([_float(c) for c in cells])
            check_weights(weight, where)
        return EdgeList(self.path, source, target, weight, where)

    def _real(self, cell: str | None, row: int, key: _Key) -> float:
        if cell is None or is_hole(cell):
            return math.nan
        value = _float(cell)
        if math.isnan(value):
            raise self._wrong(cell, row, key)
        return value

    def _whole(self, cell: str | None, row: int, key: _Key) -> int | None:
        if cell is None or is_hole(cell):
            return None
        try:
            return int(cell)
        except ValueError:
            raise self._wrong(cell, row, key) from None

    def _truth(self, cell: str | None, row: int, key: _Key) -> bool | None:
        if cell is None or is_hole(cell):
            return None
        word = cell.strip().lower()
        if word not in ("true", "false", "1", "0"):
            raise self._wrong(cell, row, key)
        return word in ("true", "1")

    def _wrong(self, cell: str, row: int, key: _Key) -> InputError:
        return InputError(
            f"{self.where(row)}, attribute {key.name!r}: {cell!r} is not a value of type {key.type}; "
            "fix it, or leave the attribute out if the value is unknown"
        )

    def _declare(self, name: str) -> str:
        taken = {k.get("id") for k in self._root.findall(self._ns + "key")}
        key_id = next(f"imputed{i}" for i in range(len(taken) + 1) if f"imputed{i}" not in taken)
        attributes = {"id": key_id, "for": "node", "attr.name": name, "attr.type": "boolean"}
        self._root.insert(list(self._root).index(self._graph), ET.Element(self._ns + "key", attributes))
        return key_id

    def _set(self, node: ET.Element, key_id: str, text: str) -> None:
        for data in node.findall(self._ns + "data"):
            if data.get("key") == key_id:
                data.text = text
                return
        data = ET.SubElement(node, self._ns + "data", {"key": key_id})
        data.text = text


def write_graphml(path: Path, columns: Sequence[OutColumn], ids: Sequence[str], edges: Any) -> None:
    """Write a new GraphML document.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of OutColumn
        Node attributes; a missing value gives a node without the attribute.
    ids : sequence of str, length N
        Node ids.
    edges : scipy.sparse array of shape (N, N) or None
        Symmetric weights; each pair is written once.
    """
    from scipy.sparse import coo_array, triu

    ET.register_namespace("", NAMESPACE)
    root = ET.Element(f"{{{NAMESPACE}}}graphml")
    types = {"float": "double", "int": "long", "bool": "boolean"}

    def add(parent: ET.Element, tag: str, attributes: dict[str, str], text: str | None = None) -> ET.Element:
        element = ET.SubElement(parent, f"{{{NAMESPACE}}}{tag}", attributes)
        element.text = text
        return element

    for j, column in enumerate(columns):
        kind = types.get(column.kind, "string")
        add(root, "key", {"id": f"d{j}", "for": "node", "attr.name": column.name, "attr.type": kind})
    add(root, "key", {"id": "weight", "for": "edge", "attr.name": "weight", "attr.type": "double"})
    graph = add(root, "graph", {"edgedefault": "undirected"})
    cells = [c.values if c.kind in types else [t or None for t in c.as_texts()] for c in columns]
    for i, key in enumerate(ids):
        node = add(graph, "node", {"id": key})
        for j, values in enumerate(cells):
            if values[i] is not None:
                add(node, "data", {"key": f"d{j}"}, _text(values[i]))
    if edges is not None:
        upper = coo_array(triu(edges))
        for u, v, w in zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True):
            edge = add(graph, "edge", {"source": ids[u], "target": ids[v]})
            add(edge, "data", {"key": "weight"}, _text(float(w)))
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _float(cell: str | None) -> float:
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        return math.nan


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
