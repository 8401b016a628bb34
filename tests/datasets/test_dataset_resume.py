"""A download that breaks off goes on where it stopped, and only if the file is still the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import requests
from dataset_cases import Server

from megae.datasets.resume import ResumingDownloader

CHUNK = 1 << 13
BODY = np.random.default_rng(0).bytes(300_000)


def test_a_broken_connection_is_taken_up_again(tmp_path: Path, server: Server) -> None:
    server.files["a.zip"] = BODY
    server.cut = [100_000, 50_000]
    seen: list[tuple[int, int | None]] = []
    ResumingDownloader(tmp_path / "a.part", lambda *a: seen.append(a), wait=0.01)(
        f"{server.url}/a.zip", tmp_path / "out"
    )
    assert (tmp_path / "out").read_bytes() == BODY
    first, second, third = (int((r or "bytes=0-").removeprefix("bytes=").rstrip("-")) for r in server.ranges)
    assert first == 0
    assert 100_000 - CHUNK < second <= 100_000
    assert second + 50_000 - CHUNK < third <= second + 50_000
    assert seen[-1] == (300_000, 300_000)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_next_call_goes_on_from_the_part(tmp_path: Path, server: Server) -> None:
    server.files["a.zip"] = BODY
    server.cut = [120_000]
    downloader = ResumingDownloader(tmp_path / "a.part", retries=0)
    with pytest.raises(requests.RequestException):
        downloader(f"{server.url}/a.zip", tmp_path / "out")
    kept = (tmp_path / "a.part").read_bytes()
    assert kept == BODY[: len(kept)]
    assert 120_000 - CHUNK < len(kept) <= 120_000
    assert not (tmp_path / "out").exists()
    ResumingDownloader(tmp_path / "a.part")(f"{server.url}/a.zip", tmp_path / "out")
    assert server.ranges[-1] == f"bytes={len(kept)}-"
    assert (tmp_path / "out").read_bytes() == BODY


def test_another_file_at_the_same_address_starts_over(tmp_path: Path, server: Server) -> None:
    server.files["a.zip"], server.cut = BODY, [120_000]
    with pytest.raises(requests.RequestException):
        ResumingDownloader(tmp_path / "a.part", retries=0)(f"{server.url}/a.zip", tmp_path / "out")
    server.files["a.zip"], server.etag = BODY[::-1], '"two"'
    ResumingDownloader(tmp_path / "a.part")(f"{server.url}/a.zip", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == BODY[::-1]


def test_a_part_that_nothing_vouches_for_starts_over(tmp_path: Path, server: Server) -> None:
    server.files["a.zip"], server.etag = BODY, ""
    (tmp_path / "a.part").write_bytes(b"x" * 1000)
    ResumingDownloader(tmp_path / "a.part")(f"{server.url}/a.zip", tmp_path / "out")
    assert server.ranges == [None]
    assert (tmp_path / "out").read_bytes() == BODY


def test_a_part_longer_than_the_file_is_dropped(tmp_path: Path, server: Server) -> None:
    server.files["a.zip"] = BODY
    (tmp_path / "a.part").write_bytes(BODY + b"x")
    (tmp_path / "a.part.tag").write_text('"one"')
    downloader = ResumingDownloader(tmp_path / "a.part")
    with pytest.raises(requests.ConnectionError, match="try again"):
        downloader(f"{server.url}/a.zip", tmp_path / "out")
    downloader(f"{server.url}/a.zip", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == BODY


def test_a_server_that_is_not_there_is_asked_once(tmp_path: Path, server: Server) -> None:
    with pytest.raises(requests.HTTPError, match="404"):
        ResumingDownloader(tmp_path / "a.part")(f"{server.url}/none.zip", tmp_path / "out")
    assert len(server.ranges) == 1
    with pytest.raises(requests.ConnectionError):
        ResumingDownloader(tmp_path / "a.part", wait=60)("http://127.0.0.1:9/a.zip", tmp_path / "out")
