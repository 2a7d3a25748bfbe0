"""Results on disk: written whole or not at all, and refused when they belong to something else.

A folder of results has one folder for each experiment::

    four-turn/run.json               what was run, by which versions, where and how long
    four-turn/8-hidden-layers.json   what was measured in the end, for every method and run
    four-turn/8-hidden-layers.npz    curves and pictures
    four-turn/8-hidden-layers.pt     a training under way; gone when it is done
    hmc-distance/cifar-10.shared.npz what all jobs of a part are judged by, where reports need it

Where every run is a job of its own, its files are named after part, method and run. Several processes may
work in one folder: each takes a job that no other has.

The files of a job depend on the settings alone, byte for byte; what differs between two machines or two
afternoons is in ``run.json``.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.storage.archives import Arrays, read_arrays, write_arrays
from colangevin.experiments.storage.checkpoints import load_checkpoint, save_checkpoint
from colangevin.experiments.storage.disk import (
    DamagedError,
    StoreError,
    as_utf8,
    read_json,
    whole,
    write_atomically,
    write_json,
)
from colangevin.experiments.storage.record import Record, new_record
from colangevin.experiments.storage.run_file import RunFile
from colangevin.files import HALF
from colangevin.locks import alone_in, unless_taken

__all__ = ["Folder"]


class Stored(Protocol):
    """What has files of its own: a job, or a part that is trained as one job."""

    @property
    def name(self) -> str:
        """In words."""

    @property
    def slug(self) -> str:
        """As a file name."""


class Folder:
    """The results of one experiment.

    Args:
        root: of all results.
        name: of the experiment.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        self._run = RunFile(self.path)

    # ---- what was run ----------------------------------------------------------------------------

    def open(self, experiment: Experiment, device: torch.device, command: list[str], *, resume: bool) -> None:
        """Make the folder, or check that its results are those of the same experiment on the same software.

        Args:
            experiment: what is to be run.
            device: where.
            command: the words that asked for it.
            resume: whether results may be there already.

        Raises:
            StoreError: when results are there that may not or do not fit; when the folder cannot be written.
        """
        now = new_record(experiment, device, shlex.join(map(as_utf8, command)))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"Could not make the folder {self.path} ({error.strerror or error}). "
                "Choose another with --out."
            ) from error
        with alone_in(self.path):
            for left in self.path.glob(f".run.json*{HALF}"):
                left.unlink(missing_ok=True)
            if not self.started:
                self._check_empty()
                self._run.write(now)
            elif resume:
                self._run.check_continues(now)
            else:
                raise StoreError(
                    f"{self.path} has results already. Add --resume to go on with them, or choose another "
                    "folder with --out."
                )

    @property
    def started(self) -> bool:
        """Whether anything was run here."""
        return self._run.path.is_file()

    def _check_empty(self) -> None:
        """Refuse results without ``run.json``: without it nobody knows what made them."""
        found = [path for suffix in ("json", "npz", "pt") for path in self.path.glob(f"*.{suffix}")]
        if found:
            raise StoreError(
                f"{self.path} has {min(found).name} but no run.json, which says what it was made with. "
                "Put run.json back, or choose another folder with --out."
            )

    def run(self) -> Record:
        """What ``run.json`` says."""
        return self._run.read()

    def experiment(self) -> Experiment:
        """What was run here, as ``run.json`` describes it."""
        return self._run.experiment()

    # ---- jobs ------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, job: Stored) -> Iterator[bool]:
        """Keep other processes off a job for a while. Files of it that a kill left half written are removed.

        Args:
            job: the job.

        Yields:
            Whether it is ours; False when another process has it.

        Raises:
            StoreError: when there can be no lock.
        """
        path = self._lock(job)
        with ExitStack() as stack:
            try:
                mine = stack.enter_context(unless_taken(path))
            except OSError as error:
                raise StoreError(
                    f"Could not lock {path} ({error.strerror or error}). Make the folder writable, and move "
                    "away what is there under that name."
                ) from error
            if not mine:
                yield False
                return
            for left in self.path.glob(f".{job.slug}.*{HALF}"):
                left.unlink(missing_ok=True)
            yield True
            # Remove the lock file only when the job is done. After a remove and re-create, two processes can
            # hold locks on different files of one name, and would run the job twice.
            if self.done(job):
                self.tidy(job)

    def done(self, job: Stored) -> bool:
        """Whether a job is complete: its files are there, and every one is whole."""
        return self.stored(job) and self.damage(job) is None

    def stored(self, job: Stored) -> bool:
        """Whether a job was completed, whatever has become of its files since."""
        return self.file(job, "json").is_file()

    def damage(self, job: Stored) -> str | None:
        """What is wrong with the files of a job that was completed; None when they are whole or not there."""
        try:
            if self.stored(job):
                self.read(job)
        except DamagedError as error:
            return str(error)
        return None

    def finish(
        self,
        job: Stored,
        measured: Mapping[str, Any],
        arrays: Arrays,
        seconds: float,
        step_ms: float | None = None,
    ) -> None:
        """Store a complete job. The JSON is written last: where it is, the other files are too."""
        write_atomically(self.file(job, "npz"), write_arrays(arrays))
        with alone_in(self.path):
            run = self.run()
            run.seconds[job.name] = round(seconds, 1)
            if step_ms is not None:
                run.step_ms[job.name] = round(step_ms, 3)
            self._run.write(run)
        write_json(self.file(job, "json"), measured)
        self.file(job, "pt").unlink(missing_ok=True)

    def share(self, part: Stored, arrays: Arrays) -> None:
        """Store arrays that all jobs of a part have in common. Every job writes the same bytes."""
        path = self._shared(part)
        with alone_in(self.path):
            for left in self.path.glob(f".{path.name}.*{HALF}"):
                left.unlink(missing_ok=True)
            write_atomically(path, write_arrays(arrays))

    def shared(self, part: Stored) -> Arrays:
        """The arrays that all jobs of a part have in common.

        Args:
            part: the part.

        Returns:
            The arrays.

        Raises:
            StoreError: when the file is not whole.
        """
        path = self._shared(part)
        try:
            return read_arrays(path)
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged: {error}. Put it back, or move the two files of one job of its part out "
                "of the folder and run the experiment again with --resume: that job writes it again."
            ) from error

    def _shared(self, part: Stored) -> Path:
        return self.path / f"{part.slug}.shared.npz"

    def read(self, job: Stored) -> tuple[dict[str, Any], Arrays]:
        """What was measured in a complete job, and its arrays.

        Args:
            job: the job.

        Returns:
            Both.

        Raises:
            DamagedError: when one of its files is not whole.
        """
        return (
            whole(read_json, self.file(job, "json")),
            whole(read_arrays, self.file(job, "npz")),
        )

    def save_checkpoint(self, job: Stored, state: dict[str, Any]) -> None:
        """Store a training under way, in place of an earlier moment of it."""
        save_checkpoint(self.file(job, "pt"), state)

    def load_checkpoint(self, job: Stored) -> dict[str, Any] | None:
        """The training under way; None when there is none. A DamagedError when it is not whole."""
        return load_checkpoint(self.file(job, "pt"))

    def tidy(self, job: Stored) -> None:
        """Remove the checkpoint and the lock of a job that is done, which a kill may have left."""
        for path in (self.file(job, "pt"), self._lock(job)):
            path.unlink(missing_ok=True)

    def _lock(self, job: Stored) -> Path:
        return self.path / f".{job.slug}.lock"

    def file(self, job: Stored, suffix: str) -> Path:
        """The path of a file of a job."""
        return self.path / f"{job.slug}.{suffix}"
