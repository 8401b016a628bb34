"""Small files in each official layout, and a web server on this machine that can break off."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import scipy.sparse as sp


def tu_texts(name: str = "TOY", columns: int = 2) -> dict[str, str]:
    """Three graphs: a path of 3 nodes, a pair with a repeated edge and a self-loop, a lone node."""
    x = np.arange(6 * columns).reshape(6, columns) / 4
    return {
        f"{name}_A.txt": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n4, 5\n4, 4\n",
        f"{name}_graph_indicator.txt": "1\n1\n1\n2\n2\n3\n",
        f"{name}_graph_labels.txt": "5\n-1\n5\n",
        f"{name}_node_labels.txt": "1\n2\n3\n1\n2\n3\n",
        f"{name}_node_attributes.txt": "".join(", ".join(f"{v:.2f}" for v in row) + "\n" for row in x),
    }


def write_zip(path: Path, texts: dict[str, str], folder: str = "TOY/", method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in texts.items():
            archive.writestr(folder + name, text)
    return path


def write_planetoid(folder: Path, name: str = "cora") -> None:
    """Eight nodes: 0-3 in allx, 4, 6 and 7 in the test index, out of order, 5 in no feature file.

    Edges: 0-1, 1-2, 2-4, 4-6 (stored in one direction only), 3-7, a self-loop at 3.
    """
    folder.mkdir(parents=True, exist_ok=True)
    x = np.eye(8, 4, dtype=np.float32)
    x[6] = [1, 1, 0, 0]
    x[7] = [0, 1, 1, 0]
    labels = np.eye(3, dtype=np.int32)[[0, 1, 2, 0, 1, 2, 2, 0]]
    test = [6, 4, 7]
    graph = defaultdict(list, {0: [1], 1: [0, 2], 2: [1, 4], 3: [3, 7], 4: [2, 6], 5: [], 6: [], 7: [3]})
    parts = {
        "x": sp.csr_matrix(x[:2]),
        "allx": sp.csr_matrix(x[:4]),
        "tx": sp.csr_matrix(x[test]),
        "y": labels[:2],
        "ally": labels[:4],
        "ty": labels[test],
        "graph": graph,
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=3))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{i}\n" for i in test))


def npz_arrays() -> dict[str, np.ndarray]:
    """Five nodes, directed edges 0>1, 1>0, 1>2, 3>4 and a self-loop at 2."""
    adj = sp.csr_matrix((np.ones(5, np.float32), ([0, 1, 1, 2, 3], [1, 0, 2, 2, 4])), shape=(5, 5))
    attr = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]], np.float32))
    arrays = {"labels": np.array([0, 1, 1, 0, 2])}
    for name, matrix in (("adj", adj), ("attr", attr)):
        arrays |= {f"{name}_data": matrix.data, f"{name}_indices": matrix.indices}
        arrays |= {f"{name}_indptr": matrix.indptr, f"{name}_shape": np.array(matrix.shape)}
    return arrays


class Server:
    """Files over HTTP with ranges and ETags; ``cut`` breaks the next answers off after so many bytes.

    Every answer waits for ``delay`` seconds.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etag = '"one"'
        self.cut: list[int] = []
        self.ranges: list[str | None] = []
        self.url = ""
        self.delay = 0.0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.files.get(handler.path.lstrip("/"))
        wanted = handler.headers.get("Range")
        self.ranges.append(wanted)
        time.sleep(self.delay)
        if body is None:
            handler.send_error(404)
            return
        start = 0
        if wanted and handler.headers.get("If-Range") == self.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                handler.send_error(416)
                return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        handler.send_header("Content-Length", str(len(body) - start))
        if self.etag:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        stop = start + self.cut.pop(0) if self.cut else len(body)
        handler.wfile.write(body[start:stop])
        handler.close_connection = True


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
