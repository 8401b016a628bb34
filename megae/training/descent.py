"""Any descent, step by step: time budget, progress, looks at held-out cells, and the best weights back at the end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from megae.training.interrupts import keeps_best
from megae.training.progress import make_progress
from megae.training.schedule import Clock
from megae.training.settings import Outcome

Step = Callable[[int, float], Tensor | float]
"""``step(k, progress)`` does step k and returns its loss; ``progress`` in [0, 1] is for learning-rate schedules."""


def descend(
    step: Step,
    modules: Sequence[nn.Module],
    *,
    max_steps: int,
    validate: Callable[[], float] | None = None,
    eval_every: int = 100,
    patience: int | None = None,
    time_budget: float | None = None,
    verbose: int = 0,
    what: str = "training",
) -> Outcome:
    """Run ``step`` until the steps, the time or the patience run out.

    With ``validate`` the weights of the best evaluation (the lowest value it returned) are put back at the end; without
    it the last ones stay. An interrupt ends the run the same way, except under
    :func:`megae.training.interrupts.whole_trainings`. A loss that is not finite raises.

    Parameters
    ----------
    step : see ``Step``
    modules : modules whose weights and buffers are kept and put back
    validate : returns the error on held-out cells; called under ``torch.no_grad`` with the modules in evaluation mode
    patience : evaluations without improvement before stopping, or None
    """
    outcome, clock = Outcome(), Clock(max_steps, time_budget)
    best: list[dict[str, Tensor]] = []
    waited = 0

    def look(k: int, loss: float) -> bool:
        nonlocal best, waited
        score = float("nan")
        if validate is not None:
            for module in modules:
                module.eval()
            with torch.no_grad():
                score = float(validate())
            for module in modules:
                module.train()
            if score < outcome.best_rmse:
                outcome.best_rmse, outcome.best_step, waited = score, k, 0
                best = [{n: t.detach().clone() for n, t in m.state_dict().items()} for m in modules]
            else:
                waited += 1
        figures = {"step": k, "loss": loss, "val_rmse": score, "seconds": clock.elapsed()}
        outcome.history.append(figures)
        progress.report(figures, clock.remaining(k))
        return patience is not None and waited >= patience

    for module in modules:
        module.train()
    with make_progress(verbose, what, max_steps) as progress:
        try:
            for k in range(max_steps):
                if k and time_budget is not None and clock.elapsed() >= time_budget:
                    outcome.stopped = "time"
                    break
                loss = step(k, clock.progress(k))
                outcome.steps = k + 1
                if (k + 1) % eval_every == 0 or k + 1 == max_steps:
                    value = float(loss)
                    if value != value or abs(value) == float("inf"):
                        raise FloatingPointError(f"{what} diverged at step {k + 1}; lower the learning rate")
                    if look(k + 1, value):
                        outcome.stopped = "patience"
                        break
            if outcome.stopped == "time" and outcome.steps % eval_every:
                look(outcome.steps, float(loss))
        except KeyboardInterrupt:
            if not keeps_best():
                raise
            outcome.stopped = "interrupted"
            warnings.warn(f"{what} was interrupted at step {outcome.steps}; the best weights so far stay", stacklevel=2)
    for module, state in zip(modules, best, strict=False):
        module.load_state_dict(state)
    for module in modules:
        module.eval()
    outcome.seconds = clock.elapsed()
    if not best:
        outcome.best_step = outcome.steps
    return outcome
