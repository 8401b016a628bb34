"""A trainer's state on disk, and back again: the first process writes and reads, the others are told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from megae.training.checkpoint import FORMAT, VERSION, read_tensors, write_tensors

if TYPE_CHECKING:
    from megae.training.loop import Trainer


def write_state(trainer: Trainer, seconds: float) -> None:
    """Rewrite the checkpoint, where one is asked for."""
    s, outcome = trainer.settings, trainer.outcome
    if s.checkpoint is None or not trainer.processes.first:
        return
    tensors: dict[str, Tensor] = {}
    for i, w in enumerate(trainer.weights):
        state = trainer.optimizer.state[w]
        tensors |= {f"weight.{i}": w, f"average.{i}": trainer.average[i], f"best.{i}": trainer.best[i]}
        tensors |= {f"optimizer.{k}.{i}": v for k, v in state.items()}
    write_tensors(
        s.checkpoint,
        tensors,
        {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": s.fingerprint,
            "steps": outcome.steps,
            "best_step": outcome.best_step,
            "best_rmse": outcome.best_rmse,
            "stopped": outcome.stopped,
            "seconds": seconds,
            "history": outcome.history,
            "scores": trainer.scores.tolist(),
            "best_scores": trainer.best_scores.tolist(),
        },
    )


def read_state(trainer: Trainer) -> int:
    """Take up a checkpoint, if asked to and there is one; returns the step to go on from."""
    s, outcome = trainer.settings, trainer.outcome
    if s.checkpoint is None or not s.resume:
        return 0
    tensors: dict[str, Tensor] = {}

    def found() -> dict[str, Any] | None:
        assert s.checkpoint is not None
        if not os.path.exists(s.checkpoint):
            return None
        read, header = read_tensors(s.checkpoint, FORMAT, VERSION)
        if header["fingerprint"] != s.fingerprint:
            raise ValueError(
                f"{s.checkpoint} was written by a run with other data or settings; pass another checkpoint path, or "
                "resume=False to start over"
            )
        tensors.update(read)
        return header | {"tensors": {k: [str(v.dtype).removeprefix("torch."), *v.shape] for k, v in read.items()}}

    header = trainer.processes.told_by_first(found)
    if header is None:
        return 0
    for name, (dtype, *shape) in header["tensors"].items():
        here = tensors.get(name, torch.empty(shape, dtype=getattr(torch, dtype)))
        tensors[name] = trainer.processes.of_first(here)
    for name in ("best_step", "best_rmse", "steps", "stopped", "seconds", "history"):
        setattr(outcome, name, header[name])
    outcome.best_rmse = float("inf") if outcome.best_rmse is None else outcome.best_rmse
    trainer.scores, trainer.best_scores = np.array(header["scores"]), np.array(header["best_scores"])
    trainer.load_weights([tensors[f"weight.{i}"] for i in range(len(trainer.weights))])
    for i, w in enumerate(trainer.weights):
        trainer.average[i].copy_(tensors[f"average.{i}"])
        trainer.best[i].copy_(tensors[f"best.{i}"])
        prefix, suffix = "optimizer.", f".{i}"
        trainer.optimizer.state[w] = {
            k.removeprefix(prefix).removesuffix(suffix): v.to(w.device)
            for k, v in tensors.items()
            if k.startswith(prefix) and k.endswith(suffix)
        }
    return outcome.steps
