"""A downloader for pooch that goes on where an interrupted download stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ResumingDownloader"]

_CHUNK = 1 << 13  # what a broken connection can lose: urllib3 drops an unfinished chunk
_TIMEOUT = (10, 60)


class ResumingDownloader:
    """Download into a part file that survives a failure, and continue it with an HTTP range request.

    The part is continued only if the server confirms by ``If-Range`` that the file is still the one begun; else it
    starts over. A connection that breaks after some bytes is taken up again at once.

    Parameters
    ----------
    part : path
        Where the unfinished file lies; the validator of the server (ETag or date) stands beside it in ``.tag``.
    report : callable, optional
        Called with the bytes there are and the bytes there will be (None where the server does not say).
    retries : int
        How often a broken connection is taken up again.

    Examples
    --------
    >>> ResumingDownloader(Path("x.zip.part")).retries
    3
    """

    def __init__(
        self, part: Path, report: Callable[[int, int | None], None] | None = None, retries: int = 3, wait: float = 0.5
    ) -> None:
        self.part = part
        self.tag = part.with_name(f"{part.name}.tag")
        self.report = report or (lambda done, total: None)
        self.retries = retries
        self.wait = wait

    def __call__(self, url: str, output_file: Any, pooch: Any = None, check_only: bool = False) -> None:
        """Download `url` and move the finished part to `output_file` (the protocol of pooch's downloaders)."""
        import requests

        broken = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
        for attempt in range(self.retries + 1):
            before = self._size()
            try:
                self._stream(url)
                break
            except broken:
                if attempt == self.retries or self._size() <= before:
                    raise
                time.sleep(self.wait * 2**attempt)
        os.replace(self.part, output_file)
        self.tag.unlink(missing_ok=True)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _stream(self, url: str) -> None:
        import requests

        have, tag = self._size(), self.tag.read_text(encoding="utf-8").strip() if self.tag.is_file() else ""
        headers = {"Accept-Encoding": "identity"}
        if have and tag:
            headers |= {"Range": f"bytes={have}-", "If-Range": tag}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code == 416:  # the part is not the beginning of what is there now
                self._forget()
                raise requests.ConnectionError(f"{url} no longer matches the part that was there; try again")
            answer.raise_for_status()
            goes_on = answer.status_code == 206 and _starts_at(answer.headers.get("Content-Range", ""), have)
            if answer.status_code == 206 and not goes_on:
                self._forget()
                raise requests.ConnectionError(f"{url} sent another part than the one asked for; try again")
            if not goes_on:
                have = 0
                self._remember(answer.headers)
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length and length.isdigit() else None
            with self.part.open("ab" if goes_on else "wb") as file:
                self.report(have, total)
                for chunk in answer.iter_content(_CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    self.report(have, total)
        if total is not None and have != total:
            raise requests.ConnectionError(f"{url} sent {have} of {total} bytes")

    def _remember(self, headers: Any) -> None:
        etag = headers.get("ETag", "")
        self.tag.write_text(etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", ""), "utf-8")

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)


def _starts_at(content_range: str, offset: int) -> bool:
    return content_range.replace(" ", "").startswith(f"bytes{offset}-")
