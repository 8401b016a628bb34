"""A graph that spans processes against the graph filtered whole, over gloo."""

from __future__ import annotations

import datetime
import time

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from kernel_cases import coefficients, distance, random_laplacian, signal

from megae.kernels import FilterOperator, apply, apply_adjoint, use_backend
from megae.kernels.halo import DistributedOperator, PartitionedOperator
from megae.kernels.partition import partition_nodes

SECONDS = 200


def graphs() -> dict[str, sp.csr_array]:
    halves = [random_laplacian(12, seed=1), random_laplacian(9, seed=2)]
    return {
        "random": random_laplacian(60, seed=3, isolated=4, p=0.1),
        "two components": sp.csr_array(sp.block_diag(halves, format="csr")),
        "edges on one process": sp.csr_array(sp.block_diag([halves[0], sp.eye_array(7)], format="csr")),
        "no edges": sp.csr_array(sp.eye_array(7, format="csr")),
        "two nodes": sp.csr_array([[1.0, -1.0], [-1.0, 1.0]]),
    }


def assignments(name: str, whole: FilterOperator, ranks: int) -> list[np.ndarray]:
    """Few cut edges; many; and none, where the graph allows."""
    n = whole.n
    chosen = [partition_nodes(whole, ranks, "bfs"), np.random.default_rng(n).integers(0, ranks, n)]
    if name == "two components":
        chosen.append(np.repeat([0, 1], [12, 9]))
    if name == "edges on one process":
        chosen.append(np.repeat([0, 1], [12, 7]))
    return chosen


def compare(whole: FilterOperator, part: DistributedOperator, dtype: torch.dtype) -> None:
    """Outputs and gradients of the three forms, for this process's rows."""
    mine = torch.from_numpy(part.owned)
    C = coefficients(3, 5)
    for function, bands in ((apply, 3), (apply, 1), (apply_adjoint, 3)):
        Z = signal(whole.n, bands, 4, dtype).requires_grad_()
        z = Z.detach()[mine].requires_grad_()
        expected, got = function(whole, Z, C), function(part, z, C)
        weights = signal(*expected.shape, dtype, seed=2)
        (expected_grad,) = torch.autograd.grad((expected.square() * weights).sum(), Z)
        (grad,) = torch.autograd.grad((got.square() * weights[mine]).sum(), z)
        tolerance = 1e-5 if dtype == torch.float32 else 1e-10
        for ours, theirs in ((got, expected), (grad, expected_grad)):
            assert ours.dtype == dtype
            if mine.numel():
                assert distance(ours, theirs.detach().double()[mine].numpy()) < tolerance


def work(rank: int, ranks: int, path: str) -> None:
    """What each process runs; an exception here fails the test. Nothing is compiled, to start fast."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{path}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=SECONDS)
    )
    try:
        with use_backend("torch"):
            agreeing(rank, ranks)
            travelling(rank, ranks)
            converted(rank, ranks)
            refused(rank, ranks)
            within_a_group(rank, ranks)
            dist.barrier()
    finally:
        dist.destroy_process_group()


def agreeing(rank: int, ranks: int) -> None:
    """Outputs and gradients on every graph and assignment."""
    for name, L in graphs().items():
        dtype = torch.float64 if name == "two components" else torch.float32
        whole = FilterOperator.from_laplacian(L, dtype)
        for owner in assignments(name, whole, ranks):
            part = DistributedOperator.from_operator(whole, owner, columns=8)
            assert np.array_equal(part.owned, np.flatnonzero(owner == rank))
            assert (part.n, part.total) == (part.owned.size, whole.n)
            assert part.has_edges == (name != "no edges")
            compare(whole, part, dtype)


def travelling(rank: int, ranks: int) -> None:
    """Only halo rows travel, once a step; nothing where no edge is cut."""
    whole = FilterOperator.from_laplacian(graphs()["random"], torch.float64)
    owner = partition_nodes(whole, ranks, "bfs")
    part = DistributedOperator.from_operator(whole, owner)
    sizes = PartitionedOperator.from_operator(whole, owner).sizes
    received: list[int] = []
    send = dist.all_to_all_single

    def counted(output: torch.Tensor, *args: object, **kwargs: object) -> object:
        received.append(output.shape[0])
        return send(output, *args, **kwargs)

    dist.all_to_all_single = counted
    try:
        apply(part, signal(part.n, 2, 3), coefficients(2, 9))
        assert received == [sizes[rank][1]] * 9
        received.clear()
        alone = DistributedOperator.from_operator(whole, np.zeros(whole.n, np.int64))
        apply(alone, signal(alone.n, 2, 3), coefficients(2, 9))
        assert received == []
    finally:
        dist.all_to_all_single = send


def converted(rank: int, ranks: int) -> None:
    """An operator in another precision than the signal's."""
    whole = FilterOperator.from_laplacian(graphs()["random"], torch.float64)
    part = DistributedOperator.from_operator(whole.to(dtype=torch.float32), np.arange(whole.n) % ranks)
    assert part.dtype == torch.float32
    assert part.to(dtype=torch.float64).dtype == torch.float64
    Z, C = signal(whole.n, 2, 4), coefficients(2, 5)
    got = apply(part, Z[torch.from_numpy(part.owned)], C)
    assert got.dtype == torch.float64
    assert distance(got, apply(whole, Z, C)[torch.from_numpy(part.owned)].numpy()) < 1e-5


def refused(rank: int, ranks: int) -> None:
    whole = FilterOperator.from_laplacian(graphs()["two nodes"])
    with pytest.raises(ValueError, match=f"for {ranks} processes in the group"):
        DistributedOperator.from_operator(whole, np.array([0, ranks]))


def within_a_group(rank: int, ranks: int) -> None:
    """Ranks are those of the group, not of the world."""
    group = dist.new_group([ranks - 2, ranks - 1])
    whole = FilterOperator.from_laplacian(graphs()["random"], torch.float64)
    owner = np.arange(whole.n) % 2
    if rank < ranks - 2:
        with pytest.raises(ValueError, match="not in the group"):
            DistributedOperator.from_operator(whole, owner, group)
    else:
        part = DistributedOperator.from_operator(whole, owner, group)
        assert np.array_equal(part.owned, np.flatnonzero(owner == dist.get_rank(group)))
        compare(whole, part, torch.float64)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3])
def test_processes_agree_with_the_whole(tmp_path, ranks):
    context = mp.spawn(work, (ranks, str(tmp_path / "meeting")), nprocs=ranks, join=False)
    deadline = time.monotonic() + 2 * SECONDS
    try:
        while not context.join(timeout=1):
            assert time.monotonic() < deadline, f"the processes have not finished after {2 * SECONDS} s"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
