"""A training step that the GPU repeats by itself: one CUDA graph from the batch to the weight average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from megae.models.pieces import WHOLE
from megae.training.hiding import hide, seeded_draws, step_generator
from megae.training.pool import GraphBatch
from megae.training.schedule import average_decay, one_cycle
from megae.training.static import StaticBatches

if TYPE_CHECKING:
    from megae.training.loop import Trainer

AHEAD = 256
"""Steps whose graphs are sent to the device at once."""

PAYS_FROM = 100
"""Steps from which on capturing them takes less time than it saves."""

SHARES = (0.5, 0.9, 1.0)
"""Shares of the steps that get batches of one shape: the smallest half need not be as large as the largest."""


class CapturedStep:
    """What ``Trainer._step`` does, in the same order and with the same draws, as a function of a few device scalars.

    Everything that changes from step to step is a tensor on the device: numbers of the graphs, learning rate, weight of
    the average, hiding factor. Batches are padded to one of a few shapes (:class:`megae.training.static.StaticBatches`)
    and nothing is read back, so that on a GPU the whole step is captured once for each shape and replayed from then on.
    On a CPU the same function runs as it stands.

    Hidden cells are drawn from a generator that is seeded anew before each replay, so draws still depend on the seed
    and the step alone. On a GPU they differ from those of ``Trainer._step``, since the padded batch has another shape;
    on a CPU only where whole rows are hidden.

    Parameters
    ----------
    trainer : Trainer
        Alone, not one of several processes. Its optimizer is replaced by one that reads the learning rate from the
        device; take a checkpoint up after this and before the first step.
    capture : bool
        False runs the function as it stands on a GPU too. So do batches of over :data:`megae.models.pieces.WHOLE` rows,
        whose activations are computed again in the backward pass: that cannot be captured, and launches do not count
        there.
    """

    @staticmethod
    def pays(trainer: Trainer) -> bool:
        """Whether a run is better off with it: one process, a GPU, many steps, batches that can be captured."""
        device, size = trainer.pool.device, len(trainer._chosen(0))
        largest = int(np.sort(trainer.pool.sizes)[-size:].sum())
        return (
            device.type == "cuda"
            and trainer.processes.size == 1
            and trainer.settings.max_steps >= PAYS_FROM
            and largest < WHOLE
        )

    def __init__(self, trainer: Trainer, capture: bool = True) -> None:
        if trainer.processes.size > 1:
            raise ValueError("a captured step is for one process; train over several without it")
        self.trainer, s = trainer, trainer.settings
        device = trainer.pool.device
        cuda = device.type == "cuda"
        self._recorded: dict[int, tuple[torch.cuda.CUDAGraph, tuple[Tensor, Tensor]]] = {}
        self._memory = torch.cuda.graph_pool_handle() if cuda else None  # shared: one graph runs at a time
        self._rate, self._pull, self._factor = (torch.zeros((), device=device) for _ in range(3))
        trainer.optimizer = torch.optim.AdamW(
            trainer.weights, lr=self._rate, weight_decay=s.weight_decay, fused=True, capturable=cuda
        )
        self._generator = torch.Generator(device)
        self._rooms: list[StaticBatches] = []
        size = len(trainer._chosen(0))
        if size < trainer.pool.n_graphs:
            schedule = (trainer._chosen(step) for step in range(s.max_steps))
            self._rooms = StaticBatches.for_schedule(trainer.pool, trainer.trainable, schedule, SHARES)
        rows = self._rooms[-1].nodes if self._rooms else trainer.trainable.shape[0]
        self._capture = capture and cuda and rows <= WHOLE
        self._chosen = torch.zeros(size, dtype=torch.int64, device=device)
        self._ahead: tuple[int, list[int], Tensor] = (-1, [], self._chosen)

    def __call__(self, step: int, progress: float) -> tuple[Tensor, Tensor]:
        """One step; returns loss and entropy, which a later step may overwrite."""
        t, s = self.trainer, self.trainer.settings
        jitter = 1.0 + s.jitter * (2.0 * float(np.random.default_rng([s.seed, step, 1]).random()) - 1.0)
        self._rate.fill_(one_cycle(progress, s.learning_rate))
        self._pull.fill_(1.0 - average_decay(step, s.decay))
        self._factor.fill_(jitter)
        room = self._choose(step) if self._rooms else 0
        t.network.train()
        if self._capture and room not in self._recorded:
            self._recorded[room] = self._record(room)
        self._generator.manual_seed(step_generator(s.seed, step, torch.device("cpu")).initial_seed())
        with seeded_draws(s.seed, step, t.pool.device):
            if not self._capture:
                return self._compute(room)
            graph, outputs = self._recorded[room]
            with torch.cuda.device(t.pool.device):
                graph.replay()
            return outputs

    def _choose(self, step: int) -> int:
        """Put the graphs of a step where the step expects them; returns the smallest room that holds them.

        They come out of a table on the device, which is sent for many steps at once.
        """
        block, at = divmod(step, AHEAD)
        if block != self._ahead[0]:
            t = self.trainer
            rows = [t._chosen(i) for i in range(block * AHEAD, min((block + 1) * AHEAD, t.settings.max_steps))]
            rooms = [next(i for i, room in enumerate(self._rooms) if room.fits(row)) for row in rows]
            self._ahead = block, rooms, torch.from_numpy(np.stack(rows)).to(t.pool.device)
        self._chosen.copy_(self._ahead[2][at])
        return self._ahead[1][at]

    def _batch(self, room: int) -> tuple[GraphBatch, Tensor]:
        t = self.trainer
        if not self._rooms:
            return t.pool.whole, t.trainable
        batch = self._rooms[room].take(self._chosen)
        return batch, batch.observed

    def _compute(self, room: int) -> tuple[Tensor, Tensor]:
        """Batch, hiding, forward, backward, clip, optimizer and average; launches only."""
        t, s = self.trainer, self.trainer.settings
        batch, allowed = self._batch(room)
        hidden = hide(allowed, t.column, t._rates * self._factor, t.rates.rows, self._generator)
        loss, entropy = t.network.objective(batch, allowed, hidden, s.gamma)
        t.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(t.weights, s.gradient_clip)
        t.optimizer.step()
        with torch.no_grad():
            apart = torch._foreach_sub(t.weights, t.average)
            torch._foreach_mul_(apart, self._pull)
            torch._foreach_add_(t.average, apart)
        return loss.detach(), entropy

    def _record(self, room: int, warm_up: int = 3) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, Tensor]]:
        """Run the step a few times aside, undo what that changed, and capture it."""
        t, device = self.trainer, self.trainer.pool.device
        fresh = not t.optimizer.state
        kept = [x.detach().clone() for x in self._state()]
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        aside = torch.cuda.Stream(device)
        with torch.random.fork_rng([device]), torch.cuda.device(device):
            aside.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(aside):
                for _ in range(warm_up):
                    self._compute(room)
            torch.cuda.current_stream(device).wait_stream(aside)
            with torch.cuda.graph(graph, pool=self._memory, stream=aside):
                outputs = self._compute(room)
        with torch.no_grad():
            for now, before in zip(self._state(not fresh), kept, strict=True):
                now.copy_(before)
            if fresh:  # the optimizer starts from zeros
                for state in t.optimizer.state.values():
                    for moment in state.values():
                        moment.zero_()
        return graph, outputs

    def _state(self, moments: bool = True) -> list[Tensor]:
        """All that a step changes."""
        t = self.trainer
        states = [x for state in t.optimizer.state.values() for x in state.values()] if moments else []
        return [*t.weights, *t.average, *states]
