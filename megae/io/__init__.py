"""Node tables and edge lists in files: CSV, TSV, Parquet, GraphML and .npz, read and written without
losses."""

from megae.io.atomic import atomic_path
from megae.io.columns import HOLES, Column, is_hole
from megae.io.edges import EdgeCounts, EdgeList, adjacency, edges_of
from megae.io.errors import InputError
from megae.io.tables import FORMATS, Table, format_of, open_document, read_table, write_columns, write_table

__all__ = [
    "FORMATS",
    "HOLES",
    "Column",
    "EdgeCounts",
    "EdgeList",
    "InputError",
    "Table",
    "adjacency",
    "atomic_path",
    "edges_of",
    "format_of",
    "is_hole",
    "open_document",
    "read_table",
    "write_columns",
    "write_table",
]
