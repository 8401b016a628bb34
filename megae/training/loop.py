"""The training loop: hide, predict, step, average, look at the exam, keep the best."""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from megae.training.checkpoint import FORMAT, VERSION, read_tensors, write_tensors
from megae.training.hiding import HidingRates, hide, step_generator
from megae.training.pool import GraphPool
from megae.training.progress import make_progress
from megae.training.schedule import Clock, average_decay, one_cycle
from megae.training.task import Exam, ImputationNetwork, exam_scores


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    batch_fraction : share of the graphs in one step
    jitter : hiding rates are multiplied by a factor drawn from [1 - jitter, 1 + jitter] in each step
    patience : evaluations without improvement before stopping, or None
    """

    max_steps: int
    learning_rate: float
    weight_decay: float
    gamma: float
    batch_fraction: float
    decay: float
    jitter: float
    gradient_clip: float
    eval_every: int
    patience: int | None
    time_budget: float | None
    seed: int
    verbose: int
    what: str = "megae"
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    fingerprint: str = ""


@dataclass
class Outcome:
    """What a run came to.

    Parameters
    ----------
    history : list of {"step", "loss", "val_rmse", "entropy", "seconds"}
    stopped : "steps", "time", "patience" or "interrupted"
    """

    best_step: int = 0
    best_rmse: float = float("inf")
    steps: int = 0
    stopped: str = "steps"
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class Trainer:
    """One network, one pool of graphs, one exam.

    Every draw depends on the seed and the step alone, so a run resumed from a checkpoint ends in the same bits.

    Parameters
    ----------
    network : ImputationNetwork
    pool : GraphPool
        ``observed`` may be narrowed by ``trainable``.
    trainable : bool Tensor of shape (N, E)
        Observed cells that training may see and hide.
    column : int64 Tensor of shape (E,)
    rates : HidingRates
    exam : Exam for early stopping, or None to keep the last step
    weight : ndarray of shape (E,)
        Standardised errors are multiplied with these to judge by.
    """

    def __init__(
        self,
        network: ImputationNetwork,
        pool: GraphPool,
        trainable: Tensor,
        column: Tensor,
        rates: HidingRates,
        exam: Exam | None,
        weight: np.ndarray,
        settings: Settings,
    ) -> None:
        self.network, self.pool, self.trainable = network, pool, trainable
        self.column, self.rates, self.exam, self.weight = column, rates, exam, weight
        self.settings = settings
        self._rates = torch.as_tensor(rates.columns, dtype=torch.float32, device=pool.device)
        self.weights: list[Tensor] = [p for p in network.parameters() if p.requires_grad]
        self.average = [w.detach().clone() for w in self.weights]
        self.best = [w.detach().clone() for w in self.weights]
        self.optimizer = torch.optim.AdamW(
            self.weights,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=pool.device.type == "cuda",
        )
        self.outcome = Outcome()
        self.scores = np.empty(0)
        self.best_scores = np.empty(0)

    def run(self) -> Outcome:
        """Train; leaves the best averaged weights in the network."""
        s, outcome = self.settings, self.outcome
        first = self._resume()
        clock = Clock(s.max_steps, s.time_budget, outcome.seconds)
        if first == 0:
            self._evaluate(0, 0.0, 0.0, clock)
        with make_progress(s.verbose, s.what, s.max_steps) as progress:
            try:
                for step in range(first, s.max_steps):
                    if outcome.stopped == "patience" or self._out_of_time(clock):
                        break
                    loss, entropy = self._step(step, clock.progress(step))
                    outcome.steps = step + 1
                    if (step + 1) % s.eval_every == 0 or step + 1 == s.max_steps:
                        figures = self._evaluate(step + 1, float(loss), float(entropy), clock)
                        progress.report(figures, clock.remaining(step + 1))
                        self._save(clock)
                    elif s.verbose:
                        progress.advance(step + 1, clock.remaining(step + 1))
                if outcome.stopped == "time" and outcome.steps % s.eval_every:
                    self._evaluate(outcome.steps, float(loss), float(entropy), clock)
            except KeyboardInterrupt:
                outcome.stopped = "interrupted"
                warnings.warn(
                    f"{s.what}: interrupted at step {outcome.steps}; keeping the best state so far, of step "
                    f"{outcome.best_step}",
                    stacklevel=2,
                )
        outcome.seconds = clock.elapsed()
        self._settle()
        self._load_weights(self.best)
        self.network.eval()
        return outcome

    def _out_of_time(self, clock: Clock) -> bool:
        over = self.settings.time_budget is not None and clock.elapsed() >= self.settings.time_budget
        if over:
            self.outcome.stopped = "time"
        return over

    def _step(self, step: int, progress: float) -> tuple[Tensor, Tensor]:
        s = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = one_cycle(progress, s.learning_rate)
        generator = step_generator(s.seed, step, self.pool.device)
        batch = self.pool.take(self._chosen(step))
        allowed = self.trainable if batch.nodes is None else self.trainable[torch.from_numpy(batch.nodes)]
        jitter = 1.0 + s.jitter * (2.0 * float(np.random.default_rng([s.seed, step, 1]).random()) - 1.0)
        hidden = hide(allowed, self.column, self._rates, self.rates.rows, generator, jitter)
        self.network.train()
        with _seeded(s.seed, step, self.pool.device):
            loss, entropy = self.network.objective(batch, allowed, hidden, s.gamma)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, s.gradient_clip)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.weights, 1.0 - average_decay(step, s.decay))
        return loss.detach(), entropy

    def _chosen(self, step: int) -> np.ndarray:
        """Graphs of this step: a fresh permutation is dealt out over each pass through the pool."""
        n = self.pool.n_graphs
        size = max(1, round(n * self.settings.batch_fraction))
        if size >= n:
            return np.arange(n)
        per_epoch = n // size
        deck = np.random.default_rng([self.settings.seed, step // per_epoch, 2]).permutation(n)
        at = step % per_epoch * size
        return np.sort(deck[at : at + size])

    def _evaluate(self, step: int, loss: float, entropy: float, clock: Clock) -> dict[str, float]:
        outcome = self.outcome
        score = float("nan")
        if self.exam is not None:
            current = [w.detach().clone() for w in self.weights]
            self._load_weights(self.average)
            self.scores = exam_scores(self.network, self.exam, self.weight)
            score = float(self.scores.mean()) if self.scores.size else float("nan")
            self._load_weights(current)
        figures = {"step": step, "loss": loss, "val_rmse": score, "entropy": entropy, "seconds": clock.elapsed()}
        if step > 0:
            outcome.history.append(figures)
        if self.exam is None or score < outcome.best_rmse:  # never a score that is not a number
            outcome.best_step = step
            outcome.best_rmse = float("inf") if self.exam is None else score
            self.best_scores = self.scores
            for kept, now in zip(self.best, self.average, strict=True):
                kept.copy_(now)
        patience = self.settings.patience
        if patience is not None and not np.isnan(score):
            since = sum(1 for h in outcome.history if h["step"] > outcome.best_step)
            if since >= patience:
                outcome.stopped = "patience"
        return figures

    def _settle(self) -> None:
        """Prefer the end of a finished run unless an earlier step was better by over one standard error.

        The learning rate has come down to nothing by then; the smallest of many scores on few validation graphs is
        often luck. The error is that of the mean difference over validation graphs; one graph has none, and keeps its
        best step.
        """
        outcome = self.outcome
        if outcome.stopped not in ("steps", "time") or outcome.best_step == outcome.steps or self.scores.size < 2:
            return
        worse = self.scores - self.best_scores
        if worse.mean() <= worse.std(ddof=1) / np.sqrt(worse.size):
            outcome.best_step, outcome.best_rmse = outcome.steps, float(self.scores.mean())
            for kept, now in zip(self.best, self.average, strict=True):
                kept.copy_(now)

    @torch.no_grad()
    def _load_weights(self, source: list[Tensor]) -> None:
        for w, value in zip(self.weights, source, strict=True):
            w.copy_(value)

    def _save(self, clock: Clock) -> None:
        s, outcome = self.settings, self.outcome
        if s.checkpoint is None:
            return
        tensors: dict[str, Tensor] = {}
        for i, w in enumerate(self.weights):
            state = self.optimizer.state[w]
            tensors |= {f"weight.{i}": w, f"average.{i}": self.average[i], f"best.{i}": self.best[i]}
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
                "seconds": clock.elapsed(),
                "history": outcome.history,
                "scores": self.scores.tolist(),
                "best_scores": self.best_scores.tolist(),
            },
        )

    def _resume(self) -> int:
        """Take up a checkpoint, if asked to and there is one; returns the step to go on from."""
        s, outcome = self.settings, self.outcome
        if s.checkpoint is None or not s.resume or not os.path.exists(s.checkpoint):
            return 0
        tensors, header = read_tensors(s.checkpoint, FORMAT, VERSION)
        if header["fingerprint"] != s.fingerprint:
            raise ValueError(
                f"{s.checkpoint} was written by a run with other data or settings; pass another checkpoint path, or "
                "resume=False to start over"
            )
        for name in ("best_step", "best_rmse", "steps", "stopped", "seconds", "history"):
            setattr(outcome, name, header[name])
        outcome.best_rmse = float("inf") if outcome.best_rmse is None else outcome.best_rmse
        self.scores, self.best_scores = np.array(header["scores"]), np.array(header["best_scores"])
        self._load_weights([tensors[f"weight.{i}"] for i in range(len(self.weights))])
        for i, w in enumerate(self.weights):
            self.average[i].copy_(tensors[f"average.{i}"])
            self.best[i].copy_(tensors[f"best.{i}"])
            prefix, suffix = "optimizer.", f".{i}"
            self.optimizer.state[w] = {
                k.removeprefix(prefix).removesuffix(suffix): v.to(w.device)
                for k, v in tensors.items()
                if k.startswith(prefix) and k.endswith(suffix)
            }
        return outcome.steps


@contextlib.contextmanager
def _seeded(seed: int, step: int, device: torch.device) -> Any:
    """Give dropout its own draws and leave the global generators as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        drawn = int(np.random.SeedSequence([seed, step, 3]).generate_state(1)[0])
        torch.default_generator.manual_seed(drawn)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(drawn)
        yield
