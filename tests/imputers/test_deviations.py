"""What a method does otherwise than its paper stands in its docstring and on its page."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from megae.imputers import REGISTRY

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
