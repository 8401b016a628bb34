"""One network in several processes, its gradients summed by torch's DistributedDataParallel."""

from __future__ import annotations

import inspect

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from megae.training.distributed import Processes
from megae.training.pool import GraphBatch
from megae.training.task import ImputationNetwork


class Objective(nn.Module):
    """``network.objective`` as a forward pass, the only thing that DistributedDataParallel can wrap."""

    def __init__(self, network: ImputationNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: GraphBatch, allowed: Tensor, hidden: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
        return self.network.objective(batch, allowed, hidden, gamma)


def replicated(network: ImputationNetwork, processes: Processes) -> nn.Module:
    """The objective of a network; among several processes, one whose backward pass leaves the mean gradient in each.

    Every process starts from the first one's weights. The gradient of the whole is the sum over processes
    (see :class:`~megae.training.distributed.Processes`), so the loss is to be multiplied by their number before
    ``backward``.

    Filters on a graph that spans processes communicate inside the forward and the backward pass. That goes together
    with DistributedDataParallel, which sends gradients off while the backward pass is still under way, because messages
    come in the same order in all processes: a filter's backward pass waits for every layer above it, and a layer's
    gradients are handed over as soon as they are complete, in however many pieces its rows are computed. Buffers never
    change, so they are not sent again in each step.
    """
    objective = Objective(network)
    if processes.size == 1:
        return objective
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters:
        return DistributedDataParallel(objective, forward_sync_buffers=False)
    return DistributedDataParallel(objective, broadcast_buffers=False)  # its name in earlier versions of torch
