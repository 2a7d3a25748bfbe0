"""Several trainings at a time, one process a core."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from typing import Any

import torch

from colangevin.experiments.four_turn import Job, Outcome, run

__all__ = ["run_all"]

# Epochs done so far, one counter a job, shared by all processes; set when a worker starts.
_epochs: Any = None


def run_all(jobs: Sequence[Job], show: Callable[[int], None]) -> list[Outcome]:
    """Run every job.

    Args:
        jobs: what to train; started in this order.
        show: told now and then how many epochs all jobs together have done.

    Returns:
        The outcomes, in the order of the jobs.
    """
    # spawn, since a fork inherits torch's threads in a state that nobody defines
    context = multiprocessing.get_context("spawn")
    epochs: Any = context.Array("i", len(jobs))
    workers = min(len(jobs), torch.get_num_threads())
    with context.Pool(workers, _start_worker, (epochs,)) as pool:
        pending = [pool.apply_async(_work, numbered) for numbered in enumerate(jobs)]
        outcomes = []
        for each in pending:
            while not each.ready():
                each.wait(0.2)
                show(sum(epochs))
            outcomes.append(each.get())
    return outcomes


def _start_worker(epochs: Any) -> None:
    global _epochs
    _epochs = epochs
    # networks this small gain nothing from threads
    torch.set_num_threads(1)
    # an interrupt is for the parent, which ends the pool
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(number: int, job: Job) -> Outcome:
    def count(epoch: int) -> None:
        _epochs[number] = epoch

    return run(job, after_epoch=count)
