"""Files that are whole, and refusals that say what is wrong."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from megae.training.checkpoint import fingerprint, read_tensors, write_tensors

HEADER = {"format": "megae-test", "version": 2, "history": [{"step": 1, "loss": 0.25}]}
TENSORS = {
    "a": torch.arange(6.0).view(2, 3).T,
    "flag": torch.tensor([True, False]),
    "scalar": torch.tensor(7.0),
}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "state.safetensors", TENSORS, HEADER)
    return tmp_path / "state.safetensors"


def test_round_trip(path):
    tensors, header = read_tensors(path, "megae-test", 2)
    assert header == HEADER
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[k], TENSORS[k]) and tensors[k].dtype == TENSORS[k].dtype for k in TENSORS)


def test_header_is_readable_without_this_package(path):
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        assert json.loads(file.metadata()["megae"]) == HEADER


def test_no_pickle_inside(path):
    content = path.read_bytes()
    assert not content.startswith((b"PK", b"\x80"))
    assert b"torch._utils" not in content


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_truncated_files_are_refused(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    with pytest.raises(ValueError, match=r"state\.safetensors is damaged or truncated .*make it again"):
        read_tensors(path, "megae-test", 2)


def test_foreign_files_are_refused(path, tmp_path):
    from safetensors.torch import save_file

    with pytest.raises(ValueError, match="is not a megae-model file"):
        read_tensors(path, "megae-model", 2)
    save_file({"w": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="is not a megae-test file; it was written by something else"):
        read_tensors(tmp_path / "other.safetensors", "megae-test", 2)
    save_file({"w": torch.zeros(2)}, tmp_path / "odd.safetensors", metadata={"megae": "no json"})
    with pytest.raises(ValueError, match="is not a megae-test file"):
        read_tensors(tmp_path / "odd.safetensors", "megae-test", 2)
    torch.save({"w": torch.zeros(2)}, tmp_path / "pickle.pt")
    with pytest.raises(ValueError, match="damaged or truncated"):
        read_tensors(tmp_path / "pickle.pt", "megae-test", 2)


def test_newer_files_are_refused(path):
    with pytest.raises(ValueError, match="has format version 2, this megae reads up to 1; upgrade megae"):
        read_tensors(path, "megae-test", 1)


def test_a_header_without_a_version_is_refused(tmp_path):
    write_tensors(tmp_path / "f", TENSORS, {"format": "megae-test"})
    with pytest.raises(ValueError, match="is not a megae-test file"):
        read_tensors(tmp_path / "f", "megae-test", 1)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors"):
        read_tensors(tmp_path / "nowhere.safetensors", "megae-test", 1)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    import safetensors.torch

    before = path.read_bytes()

    def full_disk(tensors, target, metadata):
        with open(target, "wb") as file:
            file.write(b"half a fi")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, TENSORS, HEADER)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_fingerprint_tells_any_change():
    base = fingerprint({"a": 1, "b": 0.5}, np.arange(3.0), torch.ones(2))
    assert base == fingerprint({"b": 0.5, "a": 1}, np.arange(3.0), torch.ones(2))
    others = [
        fingerprint({"a": 1, "b": 0.6}, np.arange(3.0), torch.ones(2)),
        fingerprint({"a": 1, "b": 0.5}, np.arange(3.0) + 1e-15, torch.ones(2)),
        fingerprint({"a": 1, "b": 0.5}, np.arange(3.0), torch.ones(3)),
        fingerprint({"a": 1, "b": 0.5}, np.arange(3.0, dtype=np.float32), torch.ones(2)),
        fingerprint({"a": 1, "b": 0.5}, np.arange(3.0).reshape(3, 1), torch.ones(2)),
    ]
    assert len({base, *others}) == 6
