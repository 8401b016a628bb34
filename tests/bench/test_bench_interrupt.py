"""An interrupt ends a run: half a training is neither scored nor kept, and what was finished stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from megae.bench.store import Store
from megae.bench.sweep import sweep
from megae.bench.trials import Trial
from megae.bench.tuning import search
from megae.cli import main
from megae.training.schedule import Clock

ENDLESS = {"max_steps": 1_000_000, "hidden": 8}
SETTINGS = [word for name, value in ENDLESS.items() for word in ("--set", f"{name}={value}")]
RUN = ["run", "table1", "--datasets", "Synthie", "--trials", "1", "--device", "cpu", *SETTINGS]
SIGN = "the first step is done"
MARKED = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
from megae.bench import running
from megae.training.loop import Trainer
running._refusal = lambda trial, single: None
step = Trainer._step
def told(self, *args):
    out = step(self, *args)
    print({SIGN!r}, file=sys.stderr, flush=True)
    return out
Trainer._step = told
from megae.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command line, saying when a training has begun; settings are not tried before, which would be one too."""


def waited(met: Callable[[], bool], process: subprocess.Popen, seconds: float = 240) -> None:
    """Wait for something to happen while a process runs."""
    end = time.monotonic() + seconds
    while not met():
        assert process.poll() is None, "it ended before it could be interrupted"
        assert time.monotonic() < end, "it never came so far"
        time.sleep(0.1)


@contextlib.contextmanager
def begun(args: list[str], told: Path) -> Iterator[subprocess.Popen]:
    """The command in a process group of its own, with what it says on stderr in a file."""
    with told.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", MARKED, "bench", *args],
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def records(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["trial"]["method"] for path in folder.glob("*/[!.]*.json")]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.data("Synthie")
def test_an_interrupt_ends_a_run_without_a_record_of_half_a_training(tmp_path):
    folder, told = tmp_path / "records", tmp_path / "told"
    with begun([*RUN, "--methods", "MEAN,MEGAE,zero", "--results", str(folder)], told) as process:
        waited(lambda: SIGN in told.read_text(), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert records(folder) == ["graph-mean"], "what was finished before stays, nothing is run after"
    assert told.read_text().splitlines()[-1] == "megae: interrupted"
    assert "Traceback" not in told.read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.data("Synthie")
def test_an_interrupt_ends_a_run_side_by_side(tmp_path):
    folder, told = tmp_path / "records", tmp_path / "told"
    args = [*RUN, "--methods", "MEAN,MEGAE", "--results", str(folder), "--jobs", "2"]
    with begun(args, told) as process:
        waited(lambda: bool(records(folder)), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert records(folder) == ["graph-mean"]
    lines = told.read_text().splitlines()
    assert "megae: interrupted" in lines
    after = lines[lines.index("megae: interrupted") + 1 :]
    assert all("resource_tracker" in line for line in after), "only joblib's own clean-up may come after"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interrupt_ends_a_search(tmp_path):
    pytest.importorskip("optuna")
    told = tmp_path / "told"
    args = ["tune", "digits", "--device", "cpu", "--study", str(tmp_path / "study.log"), *SETTINGS]
    with begun(args, told) as process:
        waited(lambda: SIGN in told.read_text(), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert told.read_text().splitlines()[-1] == "megae: interrupted"
    assert "Traceback" not in told.read_text()
    assert '"values":[' not in (tmp_path / "study.log").read_text(), "no trial of the search has a value"


@pytest.fixture
def interrupted(monkeypatch):
    """Trainings that are interrupted at their third step."""
    progress = Clock.progress

    def until(self, step, elapsed=None):
        if step == 2:
            raise KeyboardInterrupt
        return progress(self, step, elapsed)

    monkeypatch.setattr(Clock, "progress", until)


@pytest.mark.parametrize("method", ["megae", "gain"])
def test_a_trial_cut_short_has_no_record(method, tmp_path, interrupted):
    cut = Trial("digits", "mcar", 0.1, 0, method, {"max_steps": 10})
    with pytest.raises(KeyboardInterrupt):
        sweep([cut, Trial("digits", "mcar", 0.1, 0, "mean")], Store(tmp_path), device="cpu", progress=False)
    assert list(Store(tmp_path).records()) == []


def test_a_search_cut_short_has_no_result(tmp_path, interrupted):
    pytest.importorskip("optuna")
    with pytest.raises(KeyboardInterrupt):
        search("digits", tmp_path / "study.log", trials=1, device="cpu", settings={"max_steps": 10, "hidden": 8})


@pytest.mark.filterwarnings("ignore:the model does not help")
def test_fit_by_itself_still_keeps_its_best_state(interrupted):
    from megae import MEGAEImputer
    from megae.datasets import load_digits_graphs

    with pytest.warns(UserWarning, match="interrupted at step 2"):
        MEGAEImputer(max_steps=10, hidden=8, device="cpu", diagnose=False).fit(load_digits_graphs()[:10])


def test_an_interrupt_is_told_in_one_sentence(monkeypatch, capsys, tmp_path):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("megae.bench.running.measure", interrupted)
    monkeypatch.setattr("megae.bench.running.dataset", lambda name, root: ())
    monkeypatch.setattr("megae.commands.bench._with_data", lambda part, root, refuse: (part, []))
    assert main(["bench", "run", "table1", "--methods", "zero", "--results", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "megae: interrupted\n"
