"""A cluster of Ray: one that is running, or one that starts here and ends with the run."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from colangevin.extras import extra

__all__ = ["LOCAL", "ClusterError", "brief", "connected", "is_address", "needs", "ray"]

#: what Ray calls a cluster that starts here, whatever else is running
LOCAL = "local"


class ClusterError(RuntimeError):
    """A cluster that cannot be reached or has no room for a job, with what to do about it."""


def ray() -> Any:
    """The library, or an error that names its extra."""
    return extra("ray", "--ray", "ray")


def is_address(word: str) -> bool:
    """Whether a word of the command line is where a cluster is: local, auto, HOST:PORT or ray://HOST:PORT."""
    return word in (LOCAL, "auto") or ":" in word


def needs(device: torch.device) -> dict[str, int]:
    """What a job takes of a machine, by the names that Ray has for it."""
    return {"CPU": 1, "GPU": 1} if device.type == "cuda" else {"CPU": torch.get_num_threads()}


def brief(error: Exception) -> str:
    """The text of an error of Ray in one line that is not too long."""
    return " ".join(str(error).split())[:300]


@contextmanager
def connected(address: str, device: torch.device) -> Iterator[None]:
    """Connect to a cluster for a while. One that was started here is stopped in the end.

    Args:
        address: of a running cluster, or :data:`LOCAL`.
        device: where jobs are to be trained.

    Raises:
        ClusterError: when there is none, or none with room for a job.
    """
    library = ray()
    # Ray's messages and those of its workers would break up the display of progress.
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        settings["include_dashboard"] = False
    try:
        try:
            if ":" in address:
                _knock(address)
            with _own_signals():
                library.init(address, **settings)
        except (OSError, RuntimeError, ValueError) as error:
            raise ClusterError(
                f"--ray {address}: could not connect to a cluster ({brief(error)}). Start one with "
                "'ray start --head', or leave the address out to use this machine alone."
            ) from error
        check_room(library.nodes(), needs(device))
        yield
    finally:
        library.shutdown()


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
        pass


def check_room(nodes: list[dict[str, Any]], need: dict[str, int]) -> None:
    """Refuse jobs that would wait for ever.

    Args:
        nodes: of the cluster, as Ray describes them.
        need: of a job.

    Raises:
        ClusterError: when no machine has room for a job, even if nothing else runs there.
    """
    machines = [node["Resources"] for node in nodes if node["Alive"]]
    if any(all(there.get(name, 0) >= number for name, number in need.items()) for there in machines):
        return
    asked = " and ".join(f"{number} {name}" for name, number in need.items())
    found = "; ".join(", ".join(f"{there.get(name, 0):g} {name}" for name in need) for there in machines)
    raise ClusterError(
        f"--ray: a job needs {asked} of one machine, and the machines of the cluster have {found}. Add a "
        "machine that has them. On the CPU a job needs as many as torch has threads: OMP_NUM_THREADS=1 asks "
        "for one."
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep signals between the run and who sends them while Ray starts.

    Ray replaces the handler of SIGTERM. Its processes share our terminal, and would end by the SIGHUP of one
    that is closed before the jobs are saved. They inherit what is blocked; ours comes when it no longer is.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGHUP"):
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
