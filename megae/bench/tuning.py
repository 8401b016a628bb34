"""Searching settings of MEGAE on validation data: the paper's sweep of M and gamma, and the learning rate."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from megae.bench.methods import arguments
from megae.bench.protocol import Answers, Task, column_facts, hidden_copy, pose, punch, seed_of
from megae.bench.running import dataset as load_once
from megae.bench.running import validation_rmse
from megae.bench.trials import Trial
from megae.io.errors import InputError

log = logging.getLogger(__name__)

BANDS = (3, 20)
GAMMA = (1e-2, 10.0)
LEARNING_RATE = (3e-4, 1e-2)
SEARCHED = ("bands", "gamma", "learning_rate")


def search(
    dataset: str,
    journal: str | os.PathLike[str],
    *,
    trials: int = 30,
    rate: float = 0.1,
    preset: str = "paper",
    seed: int = 0,
    device: str = "auto",
    root: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Search with Optuna (tree-structured Parzen estimator) until the journal holds so many finished trials.

    Many graphs: trained on the training graphs, judged on the holes of the validation graphs. One graph: a tenth of
    its observed cells is hidden on top and judged on. Test graphs and test holes are never looked at.

    Parameters
    ----------
    journal : path
        Optuna's journal, JSON lines; a search that was killed goes on from it. One that was made for another question
        (dataset, rate, preset, seed, settings) is refused.
    trials : finished trials in all, earlier ones included

    Returns
    -------
    dict
        ``settings`` and ``rmse`` of the best, ``trials`` finished, ``question``.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise ValueError("tuning needs Optuna; install it with: pip install 'megae[tune]'") from error
    path = Path(journal)
    _check_settings(settings or {})
    _check_journal(path)
    question: dict[str, Any] = {
        "dataset": dataset,
        "rate": rate,
        "preset": preset,
        "seed": seed,
        "settings": dict(settings or {}),
    }
    task, answers = validation_task(dataset, list(load_once(dataset, root)), rate, seed)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        study = optuna.create_study(
            study_name="megae",
            storage=JournalStorage(JournalFileBackend(str(path))),
            sampler=optuna.samplers.TPESampler(seed=seed),
            load_if_exists=True,
        )
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged ({error}); start a new search with another --study") from error
    known = study.user_attrs.get("question")
    if known is None or all(trial.state == optuna.trial.TrialState.FAIL for trial in study.trials):
        study.set_user_attr("question", question)
    elif known != question:
        raise ValueError(f"{path} is the journal of another search ({known}); name another with --study")

    def objective(trial: Any) -> float:
        chosen = {
            "bands": trial.suggest_int("bands", *BANDS),
            "gamma": trial.suggest_float("gamma", *GAMMA, log=True),
            "learning_rate": trial.suggest_float("learning_rate", *LEARNING_RATE, log=True),
        }
        one = Trial(dataset, "mcar", rate, seed, "megae", {"preset": preset, **question["settings"], **chosen})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a setting is worth is its validation error
                rmse = validation_rmse(one, task, answers, device)
        except TypeError as error:
            raise ValueError(f"MEGAE does not run with the settings {dict(one.settings)}: {error}") from error
        log.info("%s: validation RMSE %.5f", one.name, rmse)
        return rmse

    finished = (optuna.trial.TrialState.COMPLETE,)
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    study.optimize(objective, n_trials=max(0, trials - len(study.get_trials(states=finished))))
    done = study.get_trials(states=finished)
    return {
        "question": question,
        "trials": len(done),
        "rmse": float(study.best_value),
        "settings": {"preset": preset, **question["settings"], **study.best_params},
    }


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that MEGAE does not have, and those that the search chooses."""
    for name in settings:
        if name in SEARCHED:
            raise InputError(f"--set {name}: the search chooses {', '.join(SEARCHED)} by itself; leave it out")
        if name not in arguments("megae"):
            raise InputError(f"MEGAE has no setting named {name!r}; it has {', '.join(sorted(arguments('megae')))}")


def _check_journal(path: Path) -> None:
    """Refuse to go on from, and to write into, a file that is not Optuna's."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        first = file.readline()
    try:
        known = not first or "op_code" in json.loads(first)
    except (ValueError, TypeError):
        known = False
    if not known:
        raise InputError(
            f"{path} is not the journal of a search; name a new file, or that of an earlier search, as --study"
        )


def validation_task(dataset: str, graphs: list[Any], rate: float, seed: int) -> tuple[Task, Answers]:
    """The task of :func:`megae.bench.protocol.pose` with nothing of its test part in it, and its validation answers.

    On one graph a tenth of the observed cells is hidden on top; ``Task.validation`` is then the graph itself.
    """
    task, answers = pose(dataset, graphs, "mcar", rate, seed)
    if not answers.single:
        seen = [answers.whole[i] for i in answers.parts[0]] + answers.validation
        blind = Answers(dataset, [], [], answers.span, answers.mean, seen, answers.validation, answers.validation_holes)
        return Task(task.train, task.validation, []), blind
    [shown] = task.train
    [drawn] = punch(graphs, "mcar", 0.1, seed_of(dataset, seed, "validation"))
    judged = drawn & ~np.isnan(shown.x.numpy())
    shown = hidden_copy(shown, judged)
    known = task.train[0].clone()
    known.x = known.x.nan_to_num(0.0)
    span, mean = column_facts([shown])
    return Task([shown], [shown.clone()], []), Answers(dataset, [], [], span, mean, [known], [known], [judged])
