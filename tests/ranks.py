"""Runs a function as the ranks of a job: processes that meet in a gloo group on this machine.

Ranks are forked by a server that has imported torch and this library, and has never used a thread: they start
in a tenth of a second, and no lock of the test process is copied into them.
"""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import connection, forkserver
from typing import Any

import torch
import torch.distributed as dist

# A collective that waits for longer fails, and so does the test.
PATIENCE = timedelta(seconds=60)
# What the server imports, so that ranks need not: the first optimizer of a process imports torch._dynamo.
PRELOADED = [
    *("pytest", "colangevin", "tests.ranks"),
    *("torch._dynamo", "torch.distributed.tensor", "torch.distributed.optim"),
]


def run_ranks(function: Callable[..., Any], world_size: int, *arguments: Any) -> list[Any]:
    """What a function of a test module returns on every rank; the first rank's error is raised here.

    Args:
        function: called with the rank and the arguments. Its results are pickled: tensors come back by value.
        world_size: the number of ranks.
        arguments: for every rank the same.

    Returns:
        The results in the order of ranks.
    """
    outcomes = _outcomes(function, world_size, arguments)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def errors_of_ranks(function: Callable[..., Any], world_size: int, *arguments: Any) -> list[BaseException]:
    """The error that a function raises on every rank; a rank that raises none fails the test."""
    outcomes = _outcomes(function, world_size, arguments)
    calm = [rank for rank, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert not calm, f"ranks {calm} raised nothing; all returned or raised: {outcomes}"
    return outcomes


def _outcomes(function: Callable[..., Any], world_size: int, arguments: tuple[Any, ...]) -> list[Any]:
    """Results and errors by rank."""
    context = multiprocessing.get_context("forkserver")
    with _importable():
        context.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(world_size):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_rank, args=(theirs, f"{folder}/store", rank, world_size, function, arguments)
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        deadline = time.monotonic() + 2 * PATIENCE.total_seconds()
        try:
            return [
                _answer(rank, pipe, process, deadline)
                for rank, (pipe, process) in enumerate(zip(pipes, processes, strict=True))
            ]
        finally:
            for pipe, process in zip(pipes, processes, strict=True):
                pipe.close()
                process.kill()
                process.join()


@contextmanager
def _importable() -> Iterator[None]:
    """The server finds what pytest finds, and its ranks use one thread each."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "OMP_NUM_THREADS")}
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, sys.path)), OMP_NUM_THREADS="1")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({name: value} if value is not None else {})


def _answer(rank: int, pipe: connection.Connection, process: Any, deadline: float) -> Any:
    try:
        if pipe.poll(max(0.0, deadline - time.monotonic())):
            return pickle.loads(pipe.recv_bytes())
        return TimeoutError(f"rank {rank} gave no answer")
    except EOFError:
        process.join()
        return RuntimeError(f"rank {rank} ended with exit code {process.exitcode}")


def _rank(
    pipe: connection.Connection,
    store: str,
    rank: int,
    world_size: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """One rank, in a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dist.init_process_group(
                "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=PATIENCE
            )
            dist.barrier()  # a rank that fails at once is not to break the connecting of the others
            answer = pickle.dumps(function(rank, *arguments))
    except BaseException as error:
        error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
        answer = _pickled(error)
    pipe.send_bytes(answer)
    pipe.close()
    if dist.is_initialized():
        dist.destroy_process_group()


def _pickled(error: BaseException) -> bytes:
    try:
        answer = pickle.dumps(error)
        pickle.loads(answer)
    except Exception:
        return pickle.dumps(RuntimeError("".join(traceback.format_exception(error))))
    return answer
