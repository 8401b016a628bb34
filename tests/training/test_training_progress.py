"""A bar on a terminal, lines elsewhere, silence when asked for; and threads put back."""

from __future__ import annotations

import contextlib
import io
import logging
import os

import pytest
import torch

from megae.training.progress import LiveBar, LogLines, Silent, make_progress
from megae.training.resources import pick_device, threads

FIGURES = {"step": 10, "loss": 0.1234, "val_rmse": 0.5678, "entropy": 1.7654, "seconds": 2.0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def test_bar_shows_step_loss_error_entropy_and_time_left(terminal, capsys):
    with contextlib.redirect_stderr(terminal), make_progress(1, "megae", 40) as bar:
        assert isinstance(bar, LiveBar)
        bar.advance(9, 31.0)
        bar.report(FIGURES, 65.0)
    shown = terminal.getvalue()
    for text in ("megae", "10/40", "0.1234", "0.5678", "1.7654", "1:05"):
        assert text in shown
    assert capsys.readouterr().out == ""


def test_silence_even_on_a_terminal(terminal):
    with contextlib.redirect_stderr(terminal), make_progress(0, "megae", 40) as progress:
        progress.report(FIGURES, 1.0)
    assert type(progress) is Silent
    assert terminal.getvalue() == ""


def test_bar_survives_an_unknown_time(terminal):
    with contextlib.redirect_stderr(terminal), make_progress(1, "megae", 40) as bar:
        bar.advance(1, float("inf"))
        bar.report(FIGURES, float("nan"))
    assert "- left" in terminal.getvalue()


def test_log_lines_where_standard_error_is_no_terminal(capsys):
    with contextlib.redirect_stderr(io.StringIO()), make_progress(1, "megae", 40) as progress:
        progress.report(FIGURES, 1.0)
    assert type(progress) is LogLines
    assert capsys.readouterr().out == ""


def test_log_lines_one_per_tenth(caplog):
    lines = LogLines("twin", 100)
    with caplog.at_level(logging.INFO, logger="megae"):
        for step in range(1, 101):
            lines.report({**FIGURES, "step": step}, 3.0)
    assert 9 <= len(caplog.messages) <= 11
    first = caplog.messages[0]
    for text in ("twin step 1/100", "loss 0.1234", "validation RMSE 0.5678", "entropy 1.765", "3 s left"):
        assert text in first


def test_methods_without_validation_show_no_figure_for_it(caplog, terminal):
    blind = {**FIGURES, "val_rmse": float("nan")}
    with caplog.at_level(logging.INFO, logger="megae"):
        LogLines("mice", 10).report(blind, 3.0)
    with contextlib.redirect_stderr(terminal), make_progress(1, "mice", 10) as bar:
        bar.report(blind, 3.0)
    assert "nan" not in caplog.text
    assert "loss 0.1234" in caplog.text
    assert "nan" not in terminal.getvalue()


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_threads_are_set_and_put_back(n_jobs):
    before = torch.get_num_threads()
    with threads(n_jobs, 10**9):
        assert torch.get_num_threads() == (os.cpu_count() if n_jobs == -1 else n_jobs)
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError), threads(n_jobs, 10**9):
        raise RuntimeError
    assert torch.get_num_threads() == before


def test_small_work_takes_one_thread_unless_told_otherwise():
    before = torch.get_num_threads()
    with threads(3, 10**9), threads(None, 1):
        assert torch.get_num_threads() == 1
    with threads(3, 10**9), threads(None, 10**9):
        assert torch.get_num_threads() == 3
    with threads(2, 1):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


def test_no_threads_are_refused():
    with pytest.raises(ValueError, match="n_jobs must be a positive number"), threads(0, 10**9):
        pass


def test_devices():
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'"):
        pick_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch sees no CUDA GPU; use 'auto' or 'cpu'"):
            pick_device("cuda")


def test_a_line_says_nothing_of_a_time_that_is_not_known(caplog):
    with caplog.at_level("INFO", logger="megae"):
        LogLines("svd", 10).report({"step": 1, "loss": 0.5, "val_rmse": float("nan")}, float("nan"))
    assert [record.getMessage() for record in caplog.records] == ["svd step 1/10 loss 0.5"]
