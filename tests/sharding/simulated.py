"""Ranks that are threads of this process: as many as a test likes, running the code that processes run.

torch's own tests of DTensors use this process group. Its collectives copy between the tensors of the threads.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.multi_threaded_pg import (
    ProcessLocalGroup,
    _install_threaded_pg,
    _uninstall_threaded_pg,
)

# What a rank may take. One that waits for longer waits for a rank that has gone another way.
PATIENCE = 30.0


def simulate(function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
    """What a function returns on every rank; the first rank's error is raised here.

    Args:
        function: called with the rank and the arguments.
        ranks: how many there are.
        arguments: the same objects for every rank, which must not write to them.

    Returns:
        The results in the order of ranks.
    """
    outcomes = outcomes_of(function, ranks, *arguments)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def outcomes_of(function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
    """Results and errors by rank. Every rank has to return or to raise."""
    outcomes: list[Any] = [TimeoutError(f"rank {rank} gave no answer") for rank in range(ranks)]
    store = dist.HashStore()

    def run(rank: int) -> None:
        try:
            dist.init_process_group("threaded", rank=rank, world_size=ranks, store=store)
            outcomes[rank] = function(rank, *arguments)
        except BaseException as error:
            outcomes[rank] = error
        finally:
            # a rank that ends must not take groups away that others still use
            done.wait(PATIENCE)
            dist.destroy_process_group()

    done = threading.Barrier(ranks)
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    _install_threaded_pg()
    try:
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        ProcessLocalGroup.reset()
        _uninstall_threaded_pg()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
    return outcomes
