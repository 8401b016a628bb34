"""What a method does otherwise than its paper stands in its docstring and on its page."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

from megae.imputers import REGISTRY
from megae.models import graphvae, vgae

PAGES = Path(__file__).resolve().parents[2] / "docs" / "methods"
PEERS = sorted(set(REGISTRY) - {"megae", "zero", "mean", "median", "graph-mean"})
SAID = {
    "clip_grad_norm_(": "clipped at norm 1",
    "tempered(": "three tenths of a column",
    "per_range(": "count in ranges",
    "one_cycle(": "one cycle",
    "validate=": "held-out cells",
}
"""What the code of a method or of its bases does -> how that is told."""
LEARNERS = [name for name in PEERS if isinstance(getattr(REGISTRY[name](), "max_steps", None), int)]
AS_AUTHORS = {"gain"}
"""Whose number of steps is the authors', which the page alone tells."""


def texts(name: str) -> dict[str, str]:
    """The list of deviations in the docstring, and that on the page, each as one line."""
    page = PAGES / ("inv.md" if name.startswith("inv-") else f"{name}.md")
    found = {"docstring": inspect.getdoc(REGISTRY[name]) or "", "page": page.read_text(encoding="utf-8")}
    return {where: " ".join(text.split()).replace("One cycle", "one cycle") for where, text in found.items()}


@pytest.mark.parametrize("name", PEERS)
def test_docstring_and_page_list_deviations(name):
    for where, text in texts(name).items():
        assert "Deviations" in text, where


@pytest.mark.parametrize("name", PEERS)
def test_what_training_adds_is_told(name):
    own = [c for c in REGISTRY[name].__mro__ if c.__module__.startswith("megae.imputers")]
    code = "".join(inspect.getsource(sys.modules[c.__module__]) for c in own)
    for call, words in SAID.items():
        for where, text in texts(name).items():
            assert call not in code or words in text, f"{where} does not tell: {words}"


@pytest.mark.parametrize("name", LEARNERS)
def test_how_long_a_method_learns_is_told(name):
    steps = REGISTRY[name]().max_steps
    for where, text in texts(name).items():
        told = re.search(rf"(?<![\d,]){steps:,} (steps|batches)", text)
        assert told or (name in AS_AUTHORS and where == "docstring"), f"{where} does not tell: {steps:,} steps"


@pytest.mark.parametrize("name", [name for name in LEARNERS if REGISTRY[name]().patience])
def test_when_a_method_stops_early_is_told(name):
    for where, text in texts(name).items():
        assert f"patience={REGISTRY[name]().patience}" in text, f"{where} does not tell when training ends"


@pytest.mark.parametrize(
    ("name", "most"), [("vgae", vgae.MOST_LOG_DEVIATION), ("graphvae", graphvae.MOST_LOG_DEVIATION)]
)
def test_where_deviations_are_clamped_is_told(name, most):
    for where, text in texts(name).items():
        assert f"clamped at {most:g}" in text, where
