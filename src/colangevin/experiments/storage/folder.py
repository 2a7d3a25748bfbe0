"""Results on disk: written whole or not at all, and refused when they belong to something else.

A folder of results has one folder for each experiment::

    four-turn/run.json               what was run, by which versions, where and how long
    four-turn/8-hidden-layers.json   what was measured in the end, for every method and run
    four-turn/8-hidden-layers.npz    curves and pictures
    four-turn/8-hidden-layers.pt     a training under way; gone when it is done

Where every run is a job of its own, its files are named after part, method and run. Several processes may
work in one folder: each takes a job that no other has.

The files of a job depend on the settings alone, byte for byte; what differs between two machines or two
afternoons is in ``run.json``.
"""

import dataclasses
import fcntl
import io
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

import colangevin
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.storage.archives import Arrays, check_stored, read_arrays, write_arrays
from colangevin.experiments.storage.decoding import decode, quoted
from colangevin.experiments.storage.disk import (
    DamagedError,
    StoreError,
    as_utf8,
    read_json,
    whole,
    write_atomically,
    write_json,
)
from colangevin.experiments.storage.record import FORMAT, Record, differences, new_record
from colangevin.files import HALF

__all__ = ["Folder"]


class Stored(Protocol):
    """What has files of its own: a job, or a part that is one."""

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
        with self._alone():
            for left in self.path.glob(f".run.json*{HALF}"):
                left.unlink(missing_ok=True)
            if not self.started:
                self._check_empty()
                self._write_record(now)
            elif resume:
                self._check(now)
            else:
                raise StoreError(
                    f"{self.path} has results already. Add --resume to go on with them, or choose another "
                    "folder with --out."
                )

    @property
    def started(self) -> bool:
        """Whether anything was run here."""
        return (self.path / "run.json").is_file()

    def _check_empty(self) -> None:
        """Nobody knows what made the results in a folder without ``run.json``."""
        found = [path for suffix in ("json", "npz", "pt") for path in self.path.glob(f"*.{suffix}")]
        if found:
            raise StoreError(
                f"{self.path} has {min(found).name} but no run.json, which says what it was made with. "
                "Put run.json back, or choose another folder with --out."
            )

    def _check(self, now: Record) -> None:
        if lines := differences(self.run(), now):
            raise StoreError(
                "\n".join([f"{self.path} has results of something else, which cannot be continued:", *lines])
                + "\nChoose another folder with --out, or go back to what they were made with."
            )

    def run(self) -> Record:
        """What ``run.json`` says.

        Returns:
            Its contents.

        Raises:
            StoreError: when it is of another format or no such file.
        """
        path = self.path / "run.json"
        try:
            run = read_json(path)
            found, version = run.get("format"), run.get("version")
            if found == FORMAT:
                record: Record = decode(Record, run, "run")
                return record
        except ValueError as error:
            raise self._unreadable(error) from error
        raise StoreError(
            f"{path} has format {quoted(found)}; colangevin {colangevin.__version__} reads format {FORMAT}. "
            f"Use the version that wrote it ({quoted(version)}), or run again in another folder."
        )

    def experiment(self) -> Experiment:
        """What was run here.

        Returns:
            The experiment that ``run.json`` describes.

        Raises:
            StoreError: when it describes none, or one that belongs in another folder.
        """
        try:
            experiment: Experiment = decode(Experiment, self.run().experiment, "experiment")
        except ValueError as error:
            raise self._unreadable(error) from error
        if experiment.name != self.path.name:
            raise self._unreadable(
                f"experiment.name is {quoted(experiment.name)}; it must be the name of its folder"
            )
        return experiment

    def _unreadable(self, reason: object) -> StoreError:
        return StoreError(
            f"{self.path / 'run.json'} cannot be read as results: {str(reason)[:300]}. Put back a whole "
            "copy, or choose another folder with --out."
        )

    # ---- jobs ------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, job: Stored) -> Iterator[bool]:
        """Keep other processes off a job for a while; what a kill left half written of it is swept up.

        Args:
            job: the job.

        Yields:
            Whether it is ours; False when another process has it.

        Raises:
            StoreError: when there can be no lock.
        """
        path = self._lock(job)
        try:
            # a link that somebody put there would lock, or make, a file elsewhere
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(
                f"Could not lock {path} ({error.strerror or error}). Make the folder writable, and move away "
                "what is there under that name."
            ) from error
        # the lock ends with the process, whatever becomes of it
        with os.fdopen(lock, "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            for left in self.path.glob(f".{job.slug}.*{HALF}"):
                left.unlink(missing_ok=True)
            yield True
            # only now: who locks a file that another has removed shares the job with who makes a new one
            if self.done(job):
                self.tidy(job)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing ``run.json`` meanwhile."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

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
        """Store a complete job. The JSON comes last: where it is, everything is."""
        write_atomically(self.file(job, "npz"), write_arrays(arrays))
        with self._alone():
            run = self.run()
            run.seconds[job.name] = round(seconds, 1)
            if step_ms is not None:
                run.step_ms[job.name] = round(step_ms, 3)
            self._write_record(run)
        write_json(self.file(job, "json"), measured)
        self.file(job, "pt").unlink(missing_ok=True)

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
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_atomically(self.file(job, "pt"), buffer.getvalue())

    def load_checkpoint(self, job: Stored) -> dict[str, Any] | None:
        """The training under way, if there is one.

        Args:
            job: the job.

        Returns:
            What was stored; None when nothing was.

        Raises:
            DamagedError: when it is not whole.
        """
        path = self.file(job, "pt")
        if not path.is_file():
            return None
        whole(check_stored, path)
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        except Exception as error:  # whole, but no checkpoint: torch then raises almost anything
            raise DamagedError(path, error) from error
        return state

    def tidy(self, job: Stored) -> None:
        """Remove the checkpoint and the lock of a job that is done, which a kill may have left."""
        for path in (self.file(job, "pt"), self._lock(job)):
            path.unlink(missing_ok=True)

    def _lock(self, job: Stored) -> Path:
        return self.path / f".{job.slug}.lock"

    def file(self, job: Stored, suffix: str) -> Path:
        """The path of a file of a job."""
        return self.path / f"{job.slug}.{suffix}"

    def _write_record(self, record: Record) -> None:
        write_json(self.path / "run.json", dataclasses.asdict(record))
