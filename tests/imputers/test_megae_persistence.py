"""A fitted imputer on disk, and a fit that is killed and taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import resumable
import torch
from imputer_cases import ring, same_bits
from megae_cases import collection, holes, megae, mixed, punched, same_weights, waves

from megae import MEGAEImputer
from megae.training.checkpoint import read_tensors, write_tensors

X = punched(waves(), holes((40, 4)))
A = ring(40)


def saved(imputer: MEGAEImputer, folder: Path) -> MEGAEImputer:
    imputer.save(folder / "model.megae")
    return MEGAEImputer.load(folder / "model.megae")


@pytest.mark.parametrize("settings", [{}, {"preset": "paper"}, {"decoder": "mlp", "frame": "adapted"}, {"clip": True}])
@pytest.mark.parametrize("graph", [A, None], ids=["graph", "knn"])
def test_round_trip_keeps_every_bit(tmp_path, settings, graph):
    fitted = megae(calibration_fraction=0.3, **settings).fit(X, graph=graph)
    loaded = saved(fitted, tmp_path)
    assert same_weights(fitted, loaded)
    assert same_bits(fitted.transform(X), loaded.transform(X))
    for a, b in zip(fitted.intervals(X, coverage=0.8), loaded.intervals(X, coverage=0.8), strict=True):
        assert same_bits(a, b)
    for a, b in zip(fitted.sample(X, n=2), loaded.sample(X, n=2), strict=True):
        assert same_bits(a, b)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.diagnostics_["rmse"]["megae"] == fitted.diagnostics_["rmse"]["megae"]


def test_round_trip_of_mixed_columns(tmp_path):
    frame = mixed()
    fitted = megae(column_types={"visits": "count"}, binary_loss="cross-entropy").fit(frame, graph=ring(60))
    loaded = saved(fitted, tmp_path)
    assert loaded.transform(frame).equals(fitted.transform(frame))
    assert loaded.column_types_ == fitted.column_types_
    assert loaded.get_feature_names_out().tolist() == list(frame.columns)
    for a, b in zip(fitted.sample(frame, n=2), loaded.sample(frame, n=2), strict=True):
        assert a.equals(b)


def test_round_trip_of_many_graphs_and_an_empty_column(tmp_path):
    graphs = collection()
    for g in graphs:
        g.x[:, 1] = torch.nan
    with pytest.warns(UserWarning, match="no value is observed"):
        fitted = megae(random_state=np.random.RandomState(3)).fit(graphs)
    loaded = saved(fitted, tmp_path)
    assert loaded.random_state is None
    assert all(
        torch.equal(a.x, b.x) for a, b in zip(fitted.transform(graphs[:4]), loaded.transform(graphs[:4]), strict=True)
    )
    assert loaded.transform(graphs[:1])[0].x[:, 1].eq(0).all()


def test_header_is_readable_with_safetensors_alone(tmp_path):
    from safetensors import safe_open

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    fitted = megae(max_steps=7).fit(frame, graph=A)
    fitted.save(tmp_path / "model.megae")
    with safe_open(tmp_path / "model.megae", framework="np") as file:
        header = json.loads(file.metadata()["megae"])
        assert any(name.startswith("network.") for name in file.keys())  # noqa: SIM118
    assert (header["format"], header["version"]) == ("megae-model", 1)
    assert header["params"]["hidden"] == 16
    assert header["config"]["max_steps"] == 7
    assert header["config"]["bands"] == fitted.config_["bands"]
    assert [(c["name"], c["kind"]) for c in header["columns"]] == [(n, "continuous") for n in "abcd"]
    assert header["feature_names"] == ["a", "b", "c", "d"]
    assert header["diagnostics"]["steps"] == 7
    assert header["diagnostics"]["rmse"]["mean"] == fitted.diagnostics_["rmse"]["mean"]
    assert len(header["diagnostics"]["history"]) == len(fitted.diagnostics_["history"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.megae"
    megae().fit(pd.DataFrame(X, columns=["a", "b", "c", "d"]), graph=A).save(path)
    return path


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_truncated_models_are_refused(model, tmp_path, share):
    content = model.read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="cut is damaged or truncated"):
        MEGAEImputer.load(tmp_path / "cut")


def test_foreign_and_newer_models_are_refused(model, tmp_path):
    tensors, header = read_tensors(model, "megae-model", 1)
    write_tensors(tmp_path / "newer", tensors, {**header, "version": 2})
    with pytest.raises(ValueError, match="newer has format version 2, this megae reads up to 1; upgrade megae"):
        MEGAEImputer.load(tmp_path / "newer")
    write_tensors(tmp_path / "foreign", tensors, {**header, "format": "other"})
    with pytest.raises(ValueError, match="foreign is not a megae-model file"):
        MEGAEImputer.load(tmp_path / "foreign")
    (tmp_path / "text").write_text("id,x\n1,2\n")
    with pytest.raises(ValueError, match="text is damaged or truncated"):
        MEGAEImputer.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        MEGAEImputer.load(tmp_path / "nowhere")


def test_weights_that_do_not_fit_the_header_are_refused(model, tmp_path):
    tensors, header = read_tensors(model, "megae-model", 1)
    header["config"]["hidden"] = 24
    write_tensors(tmp_path / "odd", tensors, header)
    with pytest.raises(ValueError, match="does not hold what its header describes"):
        MEGAEImputer.load(tmp_path / "odd")


def test_a_model_for_other_columns_is_refused(model):
    loaded = MEGAEImputer.load(model)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(pd.DataFrame(X, columns=["a", "b", "c", "e"]))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(pd.DataFrame(X, columns=["b", "a", "c", "d"]))
    with pytest.raises(ValueError, match="3 features, but MEGAEImputer is expecting 4"):
        loaded.transform(X[:, :3])
    with pytest.raises(ValueError, match="pass the graph over these rows"):
        loaded.transform(pd.DataFrame(X[:9], columns=["a", "b", "c", "d"]))


def test_an_imputer_that_is_not_fitted_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        megae().save(tmp_path / "m")
    assert not any(tmp_path.iterdir())


def killed_half_way(path: Path) -> int:
    """Start a fit in another process, kill it where it waits after a checkpoint; returns the steps that this holds."""
    here = Path(__file__).parent
    places = [
        str(here),
        str(Path(resumable.__file__).parents[2]),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(here / "resumable.py"), str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said = process.stdout.readline()
    finally:
        process.kill()
        _, errors = process.communicate()
    assert said == b"waiting\n", errors.decode()
    assert process.returncode == -signal.SIGKILL
    return int(read_tensors(path, "megae-checkpoint", 1)[1]["steps"])


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX systems")
@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    path = tmp_path / "state.safetensors"
    steps = killed_half_way(path)
    assert 0 < steps < 300
    from megae.training.loop import Trainer

    taken, step = [], Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda self, at, p: taken.append(at) or step(self, at, p))
    resumed = resumable.fit(str(path), resume=True)
    assert taken[0] == steps
    assert len(taken) == 300 - steps + 300  # the rest, and the twin
    whole = resumable.fit(None)
    assert same_weights(resumed, whole)
    assert same_bits(resumed.transform(X), whole.transform(X))
    assert same_bits(resumed.calibration_.scores, whole.calibration_.scores)
    for key in ("rmse", "best_step", "steps", "stopped"):
        assert resumed.diagnostics_[key] == whole.diagnostics_[key]
    again = resumable.fit(str(path), resume=True)
    assert len(taken) == 300 - steps + 300 + 600  # nothing was left to do
    assert same_weights(again, whole)


def other_data() -> np.ndarray:
    changed = X.copy()
    changed[np.isfinite(changed)] += 0.1 * np.arange(np.isfinite(changed).sum()) % 0.7
    return changed


@pytest.mark.parametrize(
    "change",
    [
        {"X": other_data()},
        {"graph": np.roll(A.toarray(), 1, axis=(0, 1))},
        {"random_state": 1},
        {"gamma": 0.5},
        {"regularize": False},
        {"hole_rate": 0.4},
        {"validation_fraction": 0.2},
        {"unit": "std"},
        {"max_steps": 13},
        {"use_graph": False},
    ],
    ids=lambda c: next(iter(c)),
)
def test_resuming_another_run_is_refused(tmp_path, change):
    path = tmp_path / "state"
    megae().fit(X, graph=A, checkpoint=path)
    settings = {k: v for k, v in change.items() if k not in ("X", "graph")}
    with pytest.raises(ValueError, match="was written by a run with other data or settings"):
        megae(**settings).fit(change.get("X", X), graph=change.get("graph", A), checkpoint=path, resume=True)


def test_resume_without_a_checkpoint_starts_afresh(tmp_path):
    fitted = megae().fit(X, graph=A, checkpoint=tmp_path / "state", resume=True)
    assert same_weights(fitted, megae().fit(X, graph=A))
    assert (tmp_path / "state").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "state"
    megae().fit(X, graph=A, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="state is damaged or truncated"):
        megae().fit(X, graph=A, checkpoint=path, resume=True)
