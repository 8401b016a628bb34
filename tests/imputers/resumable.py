"""Fits with a checkpoint; run as a script, it is killed half way: ``python resumable.py CHECKPOINT``."""

from __future__ import annotations

import sys

from imputer_cases import ring
from megae_cases import holes, megae, punched, waves

X = punched(waves(), holes((40, 4)))


def fit(checkpoint: str | None, resume: bool = False, **kw):
    settings = {"max_steps": 300, "patience": 1000, "diagnose": True, **kw}
    return megae(**settings).fit(X, graph=ring(40), checkpoint=checkpoint, resume=resume)


if __name__ == "__main__":
    fit(sys.argv[1])
    raise SystemExit("was not killed in time")
