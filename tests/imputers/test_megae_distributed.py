"""One model fitted by two processes against one; training on parts; what each process may and may not do."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from imputer_cases import ring
from megae_cases import collection, holes, megae, mixed, punched, same_weights, waves
from ticking import Ticking
from torch_geometric.data import Data

sys.path.append(str(Path(__file__).resolve().parents[1] / "training"))
from several import together

from megae import MEGAEImputer
from megae.training.distributed import apart

pytestmark = [pytest.mark.filterwarnings("ignore:the (model|graph) does not help"), pytest.mark.timeout(600)]

FOLDER = "MEGAE_TEST_FOLDER"
SMALL: dict[str, Any] = {"order": 4, "max_steps": 8, "dropout": 0.0}


def table() -> np.ndarray:
    return punched(waves(60, 3), holes((60, 3)))


def summary(imputer: MEGAEImputer, filled: np.ndarray) -> dict[str, Any]:
    found = imputer.diagnostics_
    return {
        "history": [[h["step"], h["loss"], h["val_rmse"], h["entropy"]] for h in found["history"]],
        "rmse": found["rmse"],
        "best": found["best_step"],
        "filled": filled.tolist(),
        "scores": None if imputer.calibration_ is None else imputer.calibration_.scores.tolist(),
    }


def one_graph() -> dict[str, Any]:
    imputer = megae(**SMALL, gamma=0.1, diagnose=True)
    return summary(imputer, imputer.fit_transform(table(), graph=ring(60)))


def many_graphs() -> dict[str, Any]:
    graphs = collection(28, 7)
    imputer = megae(**SMALL, gamma=0.1).fit(graphs)
    return summary(imputer, stacked(imputer.transform(graphs)))


def few_graphs() -> dict[str, Any]:
    """One graph to a step: the other process has none."""
    graphs = collection(5, 12)
    imputer = megae(**SMALL).fit(graphs)
    return summary(imputer, stacked(imputer.transform(graphs)))


def kinds_of_columns() -> dict[str, Any]:
    imputer = megae(**SMALL)
    filled = imputer.fit_transform(mixed(), graph=ring(60))
    return summary(imputer, filled.drop(columns="colour").to_numpy(dtype=float))


def parts() -> dict[str, Any]:
    imputer = megae(**SMALL, partitions=6, batch_fraction=0.5)
    return summary(imputer, imputer.fit_transform(table(), graph=ring(60)))


def nearly_empty() -> dict[str, Any]:
    imputer = megae(**SMALL)
    filled = imputer.fit_transform(punched(waves(400, 3), holes((400, 3), 0.95)), graph=ring(400))
    assert imputer.config_["nearly_empty"]
    return summary(imputer, filled) | {"filled_by": imputer.diagnostics_["filled_by"]}


CASES = (one_graph, many_graphs, few_graphs, kinds_of_columns, parts, nearly_empty)


def stacked(graphs: list[Data]) -> np.ndarray:
    return np.concatenate([g.x.numpy() for g in graphs])


def checkpoints(folder: str) -> dict[str, Any]:
    """A run broken off after its first look and taken up again, each by both processes."""
    from megae.training.loop import Trainer

    kw = {**SMALL, "random_state": 0}
    path = Path(folder) / "state"
    whole = megae(**kw).fit(table(), graph=ring(60))
    step = Trainer._step

    def broken(self: Trainer, number: int, progress: float) -> Any:
        if number == 3:
            raise RuntimeError("killed")
        return step(self, number, progress)

    Trainer._step = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        megae(**kw).fit(table(), graph=ring(60), checkpoint=path)
    Trainer._step = step  # type: ignore[method-assign]
    there = path.exists()
    again = megae(**kw).fit(table(), graph=ring(60), checkpoint=path, resume=True)
    return {"there": there, "same": same_weights(whole, again)}


def jobs(rank: int) -> dict[str, Any]:
    import os

    warnings.simplefilter("ignore")
    out = {case.__name__: case() for case in CASES}
    folder = os.environ[FOLDER]
    out["resumed"] = checkpoints(folder)

    fresh = megae(**SMALL, random_state=None).fit(table(), graph=ring(60))
    out["seed"] = fresh.seed_
    fresh.save(Path(folder) / f"model-{rank}")

    try:
        megae(**SMALL).fit(table() + rank, graph=ring(60))
    except ValueError as error:
        out["different"] = str(error)
    with apart():
        alone = megae(**SMALL).fit(table() + rank, graph=ring(60))
        out["apart"] = float(np.nanmin(alone.transform(table() + rank)))

    with pytest.MonkeyPatch.context() as patch:  # the second process's own clock would let it go on for longer
        Ticking(60.0 if rank == 0 else 9.0).pace_training(patch)
        timed = megae(**{**SMALL, "max_steps": 200}, time_budget=600.0).fit(table(), graph=ring(60))
    out["timed"] = timed.diagnostics_["steps"], [float(w.detach().sum()) for w in timed.network_.parameters()]
    return out


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    folder = tmp_path_factory.mktemp("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        return together(jobs), folder


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_come_to_what_one_does(two, case):
    alone = case()
    assert len(alone["history"]) == 8
    for r in two[0]:
        got = r[case.__name__]
        np.testing.assert_allclose(got["history"], alone["history"], atol=1e-5)
        np.testing.assert_allclose(got["filled"], alone["filled"], atol=1e-4)
        np.testing.assert_allclose(got["scores"], alone["scores"], atol=1e-4)
        assert got["rmse"] == pytest.approx(alone["rmse"], abs=1e-5)
        assert got["best"] == alone["best"]
    first, second = (r[case.__name__] for r in two[0])
    assert first["history"] == second["history"]
    assert first["filled"] == second["filled"]


def test_one_process_writes_the_checkpoint_and_both_resume(two):
    assert [r["resumed"] for r in two[0]] == [{"there": True, "same": True}] * 2


def test_without_a_random_state_all_take_the_seed_of_the_first(two):
    assert two[0][0]["seed"] == two[0][1]["seed"]


def test_only_the_first_process_writes_a_model(two):
    assert (two[1] / "model-0").exists()
    assert not (two[1] / "model-1").exists()
    assert MEGAEImputer.load(two[1] / "model-0").seed_ == two[0][0]["seed"]


def test_different_data_are_refused_by_all_and_can_be_fitted_apart(two):
    for r in two[0]:
        assert "were given different data or settings" in r["different"]
    assert two[0][1]["apart"] - two[0][0]["apart"] == pytest.approx(1.0, abs=0.2)


def test_a_time_budget_ends_all_at_the_same_step(two):
    first, second = (r["timed"] for r in two[0])
    assert first == second
    assert 0 < first[0] < 15


def test_parts_give_the_same_bits_again_and_are_kept_with_the_model(tmp_path):
    fitted = [megae(partitions=5).fit(table(), graph=ring(60)) for _ in range(2)]
    assert same_weights(*fitted)
    assert not same_weights(fitted[0], megae().fit(table(), graph=ring(60)))
    fitted[0].save(tmp_path / "model")
    loaded = MEGAEImputer.load(tmp_path / "model")
    assert loaded.partitions == 5
    assert loaded.config_["partitions"] == 5
    filled = fitted[0].transform(table(), graph=ring(60))
    np.testing.assert_array_equal(loaded.transform(table(), graph=ring(60)), filled)
    seen = ~np.isnan(table())
    np.testing.assert_array_equal(filled[seen], table()[seen])
    assert np.isfinite(filled).all()


def test_parts_learn_and_fill_from_the_whole_graph():
    truth = waves(200, 3)
    X = punched(truth, holes(truth.shape))
    lost = np.isnan(X)
    kw = {"max_steps": 150, "partitions": 8, "batch_fraction": 0.25}
    imputer = megae(**kw)
    filled = imputer.fit_transform(X, graph=ring(200))
    mean = np.where(lost, np.nanmean(X, axis=0), X)
    assert np.sqrt(np.mean((filled - truth)[lost] ** 2)) < 0.5 * np.sqrt(np.mean((mean - truth)[lost] ** 2))
    border = torch.tensor(X)
    moved = border.clone()
    seen = int(np.flatnonzero(~lost[:, 0])[0])
    moved[seen, 0] += 1.0
    near = np.flatnonzero(lost[:, 0])
    reach = np.abs((imputer.transform(moved, graph=ring(200)) - imputer.transform(border, graph=ring(200))).numpy())
    assert (reach[near, 0] > 0).any()


def test_a_checkpoint_of_other_parts_is_refused(tmp_path):
    path = tmp_path / "state"
    megae(partitions=5).fit(table(), graph=ring(60), checkpoint=path)
    with pytest.raises(ValueError, match="other data or settings"):
        megae(partitions=4).fit(table(), graph=ring(60), checkpoint=path, resume=True)


@pytest.mark.parametrize("value", [1, 0, 2.5, "many"])
def test_partitions_that_make_no_sense_are_refused(value):
    with pytest.raises(ValueError, match="partitions must be None or an integer and at least 2"):
        megae(partitions=value).fit(table(), graph=ring(60))


def test_partitions_are_for_one_graph():
    with pytest.raises(ValueError, match="partitions is for one large graph, but these are 24"):
        megae(partitions=3).fit(collection(24))
