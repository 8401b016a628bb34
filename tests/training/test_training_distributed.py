"""Training in several processes against training in one: sums, gradients, shares, the whole run."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from several import together
from training_cases import COLUMNS, CPU, graphs, trainer

from megae.models import OutputHead, latent_entropy, pieces
from megae.training.distributed import ALONE, Processes, apart, current
from megae.training.loop import Trainer
from megae.training.parts import PartPool
from megae.training.pool import GraphPool

pytestmark = pytest.mark.timeout(600)

MEAN, SCALE = np.zeros(3), np.ones(3)
GROUP_FIRST = """
import pathlib, sys
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
import megae.training.distributed

def threads():
    names = [(task / "comm").read_text().strip() for task in pathlib.Path("/proc/self/task").glob("*")]
    return [name for name in names if "gloo" in name]

there = threads()
dist.destroy_process_group()
if not there:
    print("not seen")
sys.exit(f"threads of the group are left: {left}" if (left := threads()) else 0)
"""
"""A script that forms its group before it imports megae, and leaves it."""

UNEVEN = (slice(0, 2), slice(2, 11))
"""Rows of each of two processes, out of eleven."""


def codes() -> torch.Tensor:
    return torch.randn(11, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def table() -> tuple[OutputHead, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A head over one number and one category, and values, truth and hidden cells of eleven rows."""
    generator = torch.Generator().manual_seed(1)
    head = OutputHead(COLUMNS, np.array([0.5, 0.2, 0.3, 0.5]), np.ones(4), np.ones(4))
    raw = torch.randn(11, 4, generator=generator)
    truth = torch.randn(11, 4, generator=generator).abs()
    hidden = torch.rand(11, 4, generator=generator) < 0.4
    return head, raw, truth, hidden


def many(processes: Processes) -> Trainer:
    """Six rings to a step, dealt out whole."""
    return shared(trainer(k=24, n=6, max_steps=8, eval_every=1, batch_fraction=0.25, gamma=0.3)[0], processes)


def spanning(processes: Processes) -> Trainer:
    """One ring, its nodes divided."""
    return shared(trainer(k=1, n=31, max_steps=8, eval_every=1, gamma=0.3)[0], processes)


def shared(t: Trainer, processes: Processes) -> Trainer:
    """The same trainer on pools that the processes share."""
    t.pool.processes = processes
    assert t.exam is not None
    t.exam.pool.processes = processes
    return Trainer(t.network, t.pool, t.trainable, t.column, t.rates, t.exam, t.weight, t.settings)


def figures(t: Trainer) -> dict[str, Any]:
    outcome = t.run()
    history = [[h["step"], h["loss"], h["val_rmse"], h["entropy"]] for h in outcome.history]
    seen = t.network.predict(t.pool, t.trainable)
    latent = t.network.latent(t.pool, t.trainable)
    return {"history": history, "best": outcome.best_step, "values": seen.tolist(), "latent": latent.tolist()}


def parts_of(processes: Processes) -> Trainer:
    """One ring cut into five parts, two to a step."""
    t = trainer(k=1, n=31, max_steps=8, eval_every=1, batch_fraction=0.4)[0]
    t.pool.processes = processes
    parts = PartPool(t.pool, 5)
    rows = torch.from_numpy(parts.order)
    return shared(
        Trainer(t.network, parts, t.trainable[rows], t.column, t.rates, t.exam, t.weight, t.settings), processes
    )


def jobs(rank: int) -> dict[str, Any]:
    """All that is asked of two processes, in one start."""
    here = current()
    out: dict[str, Any] = {"rank": here.rank, "size": here.size}
    with apart():
        out["apart"] = current().size

    Z = codes()[UNEVEN[rank]].requires_grad_()
    H = latent_entropy(Z, torch.zeros(len(Z), dtype=torch.long), 1, within=here.total)
    H.backward()
    out["one graph"] = float(H.detach()), Z.grad.tolist()

    Z = codes()[UNEVEN[rank]].requires_grad_()
    graph = torch.zeros(2, dtype=torch.long) if rank == 0 else torch.tensor([0] * 4 + [1] * 5)
    H = latent_entropy(Z, graph, 1 + rank, across=here.total)
    H.backward()
    out["three graphs"] = float(H.detach()), Z.grad.tolist()

    head, raw, truth, hidden = table()
    own = raw[UNEVEN[rank]].requires_grad_()
    loss = head.loss(head(own), truth[UNEVEN[rank]], hidden[UNEVEN[rank]], here.total)
    loss.backward()
    out["loss"] = float(loss.detach()), own.grad.tolist()

    out["told"] = here.told_by_first(lambda: {"a": [1, None, "ü"]}), here.number_of_first(2.5 + rank)
    try:
        here.told_by_first(lambda: int("no number"))
    except ValueError as error:
        out["refused"] = str(error)
    here.agree("ab12")
    try:
        here.agree("ab12" if rank else "ab13")
    except ValueError as error:
        out["different"] = str(error)
    for make in (many, spanning, parts_of):
        out[make.__name__] = figures(make(here))
    if rank == 0:  # one process computes its layers in pieces, the other does not
        pieces.WHOLE, pieces.PIECE = 4, {"cpu": 3}
    out["in pieces"] = figures(spanning(here))
    return out


@pytest.fixture(scope="module")
def two() -> list[dict[str, Any]]:
    return together(jobs)


def test_the_group_is_found_and_can_be_left(two):
    assert [(r["rank"], r["size"], r["apart"]) for r in two] == [(0, 2, 1), (1, 2, 1)]
    assert current() is ALONE


def test_a_group_that_was_there_before_megae_ends_with_its_threads():
    """One that outlives the group may abort the process at its end."""
    done = subprocess.run([sys.executable, "-c", GROUP_FIRST], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    if "not seen" in done.stdout:
        pytest.skip("this system does not tell the threads of a process")


def test_entropy_of_a_graph_that_spans_processes_comes_from_summed_energies(two):
    Z = codes().requires_grad_()
    energy = codes().square().sum(dim=0)
    P = energy / energy.sum(dim=0)
    by_hand = float(-(P * P.log()).sum(dim=0).mean())
    latent_entropy(Z, torch.zeros(11, dtype=torch.long), 1).backward()
    for r in two:
        assert r["one graph"][0] == pytest.approx(by_hand, rel=1e-12)
    np.testing.assert_allclose(np.concatenate([r["one graph"][1] for r in two]), Z.grad, atol=1e-14)


def test_entropy_of_uneven_numbers_of_graphs_is_the_mean_over_all(two):
    Z, graph = codes().requires_grad_(), torch.tensor([0] * 2 + [1] * 4 + [2] * 5)
    H = latent_entropy(Z, graph, 3)
    H.backward()
    each = [
        float(latent_entropy(codes()[graph == g], torch.zeros(int((graph == g).sum()), dtype=torch.long), 1))
        for g in range(3)
    ]
    assert float(H.detach()) == pytest.approx(np.mean(each), rel=1e-12)
    for r in two:
        assert r["three graphs"][0] == pytest.approx(np.mean(each), rel=1e-12)
    np.testing.assert_allclose(np.concatenate([r["three graphs"][1] for r in two]), Z.grad, atol=1e-14)


def test_the_loss_takes_its_root_after_the_sum(two):
    head, raw, truth, hidden = table()
    whole = raw.clone().requires_grad_()
    head.loss(head(whole), truth, hidden).backward()
    asked, mean, weight = hidden.numpy(), head.mean.numpy(), head.weight.numpy()
    values = head(raw).numpy()
    squares = (((values - truth.numpy()) * weight) ** 2)[:, 0][asked[:, 0]]
    log_likelihood = ((truth.numpy() + mean) * np.log(np.maximum(values + mean, 1e-7)))[:, 1:][asked[:, 1:]]
    by_hand = np.sqrt(squares.mean()) * asked[:, 0].sum() - log_likelihood.sum()
    for r in two:
        assert r["loss"][0] == pytest.approx(by_hand / asked.sum(), rel=1e-5)
    np.testing.assert_allclose(np.concatenate([r["loss"][1] for r in two]), whole.grad, atol=1e-7)


def test_the_first_process_tells_and_refuses_for_all(two):
    for r in two:
        assert r["told"] == ({"a": [1, None, "ü"]}, 2.5)
        assert "no number" in r["refused"]
        assert "were given different data or settings" in r["different"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [many, spanning, parts_of])
def test_two_processes_have_the_loss_curve_of_one(two, make):
    alone = figures(make(ALONE))
    assert len(alone["history"]) == 8
    for r in two:
        got = r[make.__name__]
        np.testing.assert_allclose(got["history"], alone["history"], atol=1e-5)
        np.testing.assert_allclose(got["values"], alone["values"], atol=1e-5)
        np.testing.assert_allclose(got["latent"], alone["latent"], atol=1e-5)
        assert got["best"] == alone["best"]
    assert two[0][make.__name__] == two[1][make.__name__]


def test_rows_in_pieces_in_one_process_alone_change_nothing(two):
    for r in two:
        np.testing.assert_allclose(r["in pieces"]["history"], r["spanning"]["history"], atol=1e-5)


def test_shares_hold_every_row_once_and_know_which():
    pool = GraphPool(graphs(9, n=5), MEAN, SCALE, CPU)
    chosen = np.array([1, 2, 5, 8])
    nodes = pool.nodes_of(chosen)
    assert nodes is not None
    seen = []
    for rank in range(3):
        pool.processes = Processes(rank, 3)
        part = pool.share(chosen)
        assert part.rows is not None
        assert part.nodes is not None
        np.testing.assert_array_equal(nodes[part.rows], part.nodes)
        assert torch.equal(part.values, pool.whole.values[part.nodes])
        assert not part.spans
        seen.append(part.rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(nodes.size))


def test_a_process_without_a_graph_has_an_empty_share():
    pool = GraphPool(graphs(9, n=5), MEAN, SCALE, CPU, processes=Processes(2, 3))
    part = pool.share(np.array([3, 4]))
    assert (part.n_graphs, part.values.shape[0], part.operator.n) == (0, 0, 0)


@pytest.mark.parametrize(
    ("sizes", "processes", "spans"),
    [([9], 2, True), ([9, 9], 2, False), ([9, 9], 3, True), ([30, 3, 3], 2, True), ([9] * 8, 3, False)],
)
def test_a_graph_is_divided_only_where_whole_ones_would_leave_processes_idle(sizes, processes, spans):
    members = [graphs(1, n=n)[0] for n in sizes]
    assert GraphPool(members, MEAN, SCALE, CPU, processes=Processes(0, processes))._spans is spans


def test_deal_is_even():
    sizes = np.random.default_rng(0).integers(5, 50, 60)
    shares = Processes(0, 4).deal(sizes)
    assert sorted(np.concatenate(shares).tolist()) == list(range(60))
    loads = [sizes[share].sum() for share in shares]
    assert max(loads) < 1.05 * min(loads)


def dense(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    n = len(indptr) - 1
    return sp.csr_array((values, indices, indptr), shape=(n, n)).toarray()


def test_parts_are_slices_of_the_whole_operator():
    pool = GraphPool(graphs(1, n=30), MEAN, SCALE, CPU)
    parts = PartPool(pool, 4)
    S = dense(*pool.csr)
    order = torch.from_numpy(parts.order)
    assert sorted(parts.order.tolist()) == list(range(30))
    for p in range(4):
        batch = parts.take(np.array([p]))
        assert batch.nodes is not None
        nodes = order[torch.from_numpy(batch.nodes)]
        got = dense(*(t.numpy() for t in (batch.operator.indptr, batch.operator.indices, batch.operator.values)))
        np.testing.assert_array_equal(got, S[np.ix_(nodes, nodes)])  # a ring's degrees: 2, also where an edge is cut
        assert torch.equal(batch.values, pool.whole.values[nodes])
    assert parts.cut == pytest.approx(1 - parts.csr[1].size / np.count_nonzero(S))
    assert 0 < parts.cut <= 8 / 30
    with pytest.raises(ValueError, match="at most the number of nodes, 30, got 31"):
        PartPool(pool, 31)


def test_training_on_parts_gives_the_same_bits_for_the_same_seed():
    assert figures(parts_of(ALONE)) == figures(parts_of(ALONE))


def test_a_frozen_batch_knows_its_sums():
    batch = dataclasses.replace(GraphPool(graphs(2), MEAN, SCALE, CPU).whole, spans=True)
    x = torch.ones(3)
    assert batch.total(x) is x
    assert batch.total_within(x) is x
    assert batch.total_across(x) is x
