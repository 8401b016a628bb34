"""The training loop: hide, predict, step, average, look at the exam, keep the best."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from megae.kernels import warm_up
from megae.kernels.threads import with_threads
from megae.training.captured import CapturedStep
from megae.training.crew import may_share, shared_backward, sharing_pays
from megae.training.hiding import HidingRates, hide, seeded_draws, step_generator
from megae.training.interrupts import keeps_best
from megae.training.parallel import replicated
from megae.training.pool import GraphPool
from megae.training.progress import make_progress
from megae.training.resume import read_state, write_state
from megae.training.schedule import Clock, average_decay, one_cycle
from megae.training.settings import Outcome, Settings
from megae.training.task import Exam, ImputationNetwork, exam_scores

__all__ = ["Outcome", "Settings", "Trainer"]

FEW_WEIGHTS = 1 << 22
"""Below this many, one thread updates them before two have met once for every tensor."""


class Trainer:
    """One network, one pool of graphs, one exam.

    Every draw depends on the seed and the step alone, so a run resumed from a checkpoint ends in the same bits.

    Where the pool is shared among processes, each of them has a trainer like this. A step's hidden cells are drawn for
    all of its graphs, the same everywhere; each process predicts its own rows of them. Sums behind the loss and the
    scores run over all processes, gradients are summed, and the first process's clock counts, so that weights, best
    step and end of training are the same in all. Only dropout draws differ, from process to process.

    Parameters
    ----------
    network : ImputationNetwork
    pool : GraphPool
        ``observed`` may be narrowed by ``trainable``. Its processes share the work.
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
        self.settings, self.processes = settings, pool.processes
        self._rates = torch.as_tensor(rates.columns, dtype=torch.float32, device=pool.device)
        self.weights: list[Tensor] = [p for p in network.parameters() if p.requires_grad]
        self.average = [w.detach().clone() for w in self.weights]
        self.best = [w.detach().clone() for w in self.weights]
        self.optimizer = torch.optim.AdamW(
            self.weights,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=pool.device.type in ("cpu", "cuda"),
        )
        self._objective = replicated(network, pool.processes)
        self.few_weights = pool.device.type == "cpu" and sum(w.numel() for w in self.weights) < FEW_WEIGHTS
        self.threads_may_share = may_share(network, pool)
        self.outcome = Outcome()
        self.scores = np.empty(0)
        self.best_scores = np.empty(0)

    def run(self) -> Outcome:
        """Train; leaves the best averaged weights in the network."""
        s, outcome = self.settings, self.outcome
        one_step: Callable[[int, float], tuple[Tensor, Tensor]] = self._step
        if CapturedStep.pays(self):
            one_step = CapturedStep(self)
        first = read_state(self)
        if s.time_budget is not None:
            warm_up(self.pool.device.type)
        clock = Clock(s.max_steps, s.time_budget, outcome.seconds)
        if first == 0:
            self._evaluate(0, 0.0, 0.0, clock)
        with make_progress(s.verbose if self.processes.first else 0, s.what, s.max_steps) as progress:
            try:
                for step in range(first, s.max_steps):
                    elapsed = self._elapsed(clock)
                    if outcome.stopped == "patience" or (outcome.steps > 0 and self._out_of_time(elapsed)):
                        break
                    loss, entropy = one_step(step, clock.progress(step, elapsed))
                    outcome.steps = step + 1
                    if (step + 1) % s.eval_every == 0 or step + 1 == s.max_steps:
                        figures = self._evaluate(step + 1, float(loss), float(entropy), clock)
                        progress.report(figures, clock.remaining(step + 1))
                        write_state(self, clock.elapsed())
                    elif s.verbose:
                        progress.advance(step + 1, clock.remaining(step + 1))
                if outcome.stopped == "time" and outcome.steps % s.eval_every:
                    self._evaluate(outcome.steps, float(loss), float(entropy), clock)
            except KeyboardInterrupt:
                if self.processes.size > 1 or not keeps_best():  # other processes may have gone on to another step
                    raise
                outcome.stopped = "interrupted"
                warnings.warn(
                    f"{s.what}: interrupted at step {outcome.steps}; keeping the best state so far, of step "
                    f"{outcome.best_step}",
                    stacklevel=2,
                )
        outcome.seconds = self.processes.number_of_first(clock.elapsed())
        self._settle()
        self.load_weights(self.best)
        self.network.eval()
        return outcome

    def _elapsed(self, clock: Clock) -> float:
        """Seconds so far, by the clock of the first process where anything depends on them."""
        here = clock.elapsed()
        return here if self.settings.time_budget is None else self.processes.number_of_first(here)

    def _out_of_time(self, elapsed: float) -> bool:
        over = self.settings.time_budget is not None and elapsed >= self.settings.time_budget
        if over:
            self.outcome.stopped = "time"
        return over

    def _step(self, step: int, progress: float) -> tuple[Tensor, Tensor]:
        s = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = one_cycle(progress, s.learning_rate)
        generator = step_generator(s.seed, step, self.pool.device)
        chosen = self._chosen(step)
        nodes = self.pool.nodes_of(chosen)
        allowed = self.trainable if nodes is None else self.trainable[torch.from_numpy(nodes)]
        jitter = 1.0 + s.jitter * (2.0 * float(np.random.default_rng([s.seed, step, 1]).random()) - 1.0)
        hidden = hide(allowed, self.column, self._rates, self.rates.rows, generator, jitter)
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        if self.shares_graphs(chosen):
            task, size = (self.pool, chosen, allowed, hidden, s.gamma), torch.get_num_threads()
            loss, entropy = shared_backward(self._objective, self.weights, *task, size)
        else:
            loss, entropy = self._backward(step, chosen, allowed, hidden)
        with with_threads(1 if self.few_weights else torch.get_num_threads()), torch.no_grad():
            torch.nn.utils.clip_grad_norm_(self.weights, s.gradient_clip)
            self.optimizer.step()
            torch._foreach_lerp_(self.average, self.weights, 1.0 - average_decay(step, s.decay))
        return loss.detach(), entropy

    def _backward(self, step: int, chosen: np.ndarray, allowed: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and entropy of the chosen graphs; leaves their gradients in the weights, summed over processes."""
        s, batch = self.settings, self.pool.share(chosen)
        if batch.rows is not None:
            rows = torch.from_numpy(batch.rows)
            allowed, hidden = allowed[rows], hidden[rows]
        with seeded_draws(s.seed, step, self.pool.device, self.processes.rank):
            loss, entropy = self._objective(batch, allowed, hidden, s.gamma)
        (loss if self.processes.size == 1 else loss * self.processes.size).backward()
        return loss, entropy

    def shares_graphs(self, chosen: np.ndarray) -> bool:
        """Whether threads share the chosen graphs, rather than each operation."""
        return self.threads_may_share and sharing_pays(self.pool, chosen, torch.get_num_threads())

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
            self.load_weights(self.average)
            self.scores = exam_scores(self.network, self.exam, self.weight)
            score = float(self.scores.mean()) if self.scores.size else float("nan")
            self.load_weights(current)
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
    def load_weights(self, source: list[Tensor]) -> None:
        for w, value in zip(self.weights, source, strict=True):
            w.copy_(value)
