"""Run an experiment on a cluster of Ray: a task for each job, with the results in the same folder."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.jobs import Job
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.storage.record import differences, new_record
from colangevin.experiments.sweeps.cluster import ClusterError, brief, needs, ray
from colangevin.experiments.sweeps.mailbox import INTERVAL, Mailbox, Reporter
from colangevin.experiments.training.runner import run_job, to_do
from colangevin.experiments.training.watcher import Watcher

__all__ = ["run"]

#: workers that a job may lose, each time going on from its checkpoint; a job that kills its workers ends then
RETRIES = 3


def run(
    experiment: Experiment,
    folder: Folder,
    device: torch.device,
    watcher: Watcher,
    stopped: Callable[[], bool],
    only: str = "*",
) -> bool:
    """Run the jobs that are not done and that no other process has claimed, on the cluster that is connected.

    Args:
        experiment: what to run.
        folder: where its results go; opened for it, and seen under the same path by all machines.
        device: where to train.
        watcher: told how it goes.
        stopped: asked four times a second whether to save and stop.
        only: a glob that the names of jobs have to match.

    Returns:
        Whether it came to the end; False when it was stopped.

    Raises:
        ClusterError: when a job lost too many workers.
    """
    library, threads = ray(), torch.get_num_threads()
    need = needs(device)
    mailbox = library.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Mailbox).remote()
    task = library.remote(max_retries=RETRIES, num_cpus=need["CPU"], num_gpus=need.get("GPU", 0))(work)
    root = folder.path.parent.absolute()  # workers have folders of their own that they start in
    pending = {
        task.options(name=job.name).remote(experiment, job, root, device, threads, mailbox): job
        for job in to_do(experiment, folder, only)
    }
    begun: set[str] = set()
    complete, cancelled = True, False
    failure: Exception | None = None
    while pending:
        ready, _ = library.wait(list(pending), timeout=INTERVAL)
        stopping = failure is not None or stopped()
        for name, news in library.get(mailbox.look.remote(stopping)):
            begun.add(name)
            for method, values in news:
                getattr(watcher, method)(*values)
        for reference in ready:
            try:
                complete &= library.get(reference)
            except library.exceptions.TaskCancelledError:
                complete = False
            except library.exceptions.RayTaskError as error:
                failure = failure or error.cause
            except library.exceptions.RayError as error:
                failure = failure or _lost(pending[reference], error)
            del pending[reference]
        if stopping and not cancelled:
            # Others begin no more: their first post is answered by what was just said. Those that wait for
            # room may wait for days.
            for reference in (each for each, job in pending.items() if job.name not in begun):
                library.cancel(reference)
            cancelled = True
    if failure is not None:
        raise failure
    return complete


def work(
    experiment: Experiment, job: Job, root: Path, device: torch.device, threads: int, mailbox: Any
) -> bool:
    """What a worker does: one job.

    Args:
        experiment: to which the job belongs.
        job: the job.
        root: of all results.
        device: where to train.
        threads: of torch, as where the run was started. Sums depend on their number.
        mailbox: the actor that is told how it goes.

    Returns:
        Whether it came to the end; False when it was stopped.
    """
    torch.set_num_threads(threads)
    reporter = Reporter(mailbox, job)
    if reporter.stopped():
        return False
    folder = Folder(root, experiment.name)
    check_shared(folder, experiment, device)
    complete = run_job(experiment, job, folder, device, reporter, reporter.stopped)
    reporter.post()
    return complete


def check_shared(folder: Folder, experiment: Experiment, device: torch.device) -> None:
    """Refuse a worker that does not see the folder or would give other numbers.

    Args:
        folder: as the worker sees it.
        experiment: what is run.
        device: where.

    Raises:
        StoreError: with what is missing or differs, and on which machine.
    """
    here = socket.gethostname()
    if not folder.started:
        raise StoreError(
            f"The worker of Ray on {here} finds no {folder.path / 'run.json'}. All machines of a cluster "
            "must see the folder of the results under the same path: choose one on shared storage with --out."
        )
    if lines := differences(folder.run(), new_record(experiment, device, command="")):
        first = f"The worker of Ray on {here} differs from what {folder.path} was started with:"
        last = "Use machines with the same software and the same GPU, and start the run on one of them."
        raise StoreError("\n".join([first, *lines, last]))


def _lost(job: Job, error: Exception) -> ClusterError:
    """What to say about a job whose workers died."""
    return ClusterError(
        f"{job.name}: Ray gave it up after {RETRIES + 1} workers ({brief(error)}). Look for what ends them, "
        "such as a lack of memory; --resume then goes on from the last checkpoint."
    )
