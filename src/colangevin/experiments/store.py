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
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

import colangevin
from colangevin.experiments.description import Experiment
from colangevin.files import HALF, write_whole

__all__ = ["FORMAT", "Folder", "StoreError", "write_atomically"]

#: of the files; raised when older ones can no longer be read
FORMAT = 1

Arrays = dict[str, np.ndarray[Any, Any]]


class Stored(Protocol):
    """What has files of its own: a job, or a part that is one."""

    @property
    def name(self) -> str:
        """In words."""

    @property
    def slug(self) -> str:
        """As a file name."""


class StoreError(RuntimeError):
    """Results that cannot be written or do not fit, with what to do about it."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at every moment, killed or not, either the old or the new one is there.

    Args:
        path: of the file, in a folder that exists.
        content: all of it.

    Raises:
        StoreError: when that failed; the old file is untouched.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        raise StoreError(
            f"Could not write {path} ({error.strerror or error}). What was there is unchanged. "
            "Make room or make the folder writable, then run the same command with --resume."
        ) from error


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
        now = identity(experiment, device)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"Could not make the folder {self.path} ({error.strerror or error}). "
                "Choose another with --out."
            ) from error
        with self._alone():
            if not self.started:
                where = {"command": shlex.join(command), "machine": machine(device)}
                self._write_json("run.json", {**now, **where, "seconds": {}, "step_ms": {}})
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

    def _check(self, now: dict[str, Any]) -> None:
        then = self.run()
        different = [key for key in now if then.get(key) != now[key]]
        if different:
            lines = "\n".join(_difference(key, then.get(key), now[key]) for key in different)
            raise StoreError(
                f"{self.path} has results of something else, which cannot be continued:\n{lines}\n"
                "Choose another folder with --out, or go back to what they were made with."
            )

    def run(self) -> dict[str, Any]:
        """What ``run.json`` says.

        Returns:
            Its contents.

        Raises:
            StoreError: when it is of another format or no such file.
        """
        path = self.path / "run.json"
        try:
            run: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read as results ({error}).") from error
        if run.get("format") != FORMAT:
            raise StoreError(
                f"{path} has format {run.get('format')}; colangevin {colangevin.__version__} reads format "
                f"{FORMAT}. Use the version that wrote it ({run.get('version')}), or run again."
            )
        return run

    # ---- jobs ------------------------------------------------------------------------------------

    @contextmanager
    def claim(self, job: Stored) -> Iterator[bool]:
        """Keep other processes off a job for a while; what a kill left half written of it is swept up.

        Args:
            job: the job.

        Yields:
            Whether it is ours; False when another process has it.
        """
        path = self.path / f".{job.slug}.lock"
        # the lock ends with the process, whatever becomes of it
        with path.open("w") as file:
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
                path.unlink(missing_ok=True)

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
        """Whether a job is complete."""
        return self._file(job, "json").is_file()

    def finish(
        self,
        job: Stored,
        measured: Mapping[str, Any],
        arrays: Arrays,
        seconds: float,
        step_ms: float | None = None,
    ) -> None:
        """Store a complete job. The JSON comes last: where it is, everything is."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        write_atomically(self._file(job, "npz"), buffer.getvalue())
        with self._alone():
            run = self.run()
            run["seconds"][job.name] = round(seconds, 1)
            if step_ms is not None:
                run["step_ms"][job.name] = round(step_ms, 3)
            self._write_json("run.json", run)
        self._write_json(self._file(job, "json").name, measured)
        self._file(job, "pt").unlink(missing_ok=True)

    def read(self, job: Stored) -> tuple[dict[str, Any], Arrays]:
        """What was measured in a complete job, and its arrays."""
        measured: dict[str, Any] = json.loads(self._file(job, "json").read_text())
        with np.load(self._file(job, "npz")) as arrays:
            return measured, dict(arrays)

    def save_checkpoint(self, job: Stored, state: dict[str, Any]) -> None:
        """Store a training under way, in place of an earlier moment of it."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_atomically(self._file(job, "pt"), buffer.getvalue())

    def load_checkpoint(self, job: Stored) -> dict[str, Any] | None:
        """The training under way, if there is one."""
        path = self._file(job, "pt")
        if not path.is_file():
            return None
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        return state

    def _file(self, job: Stored, suffix: str) -> Path:
        return self.path / f"{job.slug}.{suffix}"

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        write_atomically(self.path / name, text.encode() + b"\n")


def identity(experiment: Experiment, device: torch.device) -> dict[str, Any]:
    """What two runs must share for one to continue the other, bit for bit."""
    return {
        "format": FORMAT,
        "version": colangevin.__version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        # through JSON, so that what was stored compares with what is new
        "experiment": json.loads(json.dumps(dataclasses.asdict(experiment))),
    }


def machine(device: torch.device) -> dict[str, Any]:
    """Where it ran: for the reader, not for comparison."""
    return {
        "platform": platform.system(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
    }


def _commit() -> str | None:
    """The commit of this source tree; None outside of one, ``+`` at the end when it was edited."""
    here = Path(colangevin.__file__).parent
    try:
        answers = [
            subprocess.run(
                ["git", *words], cwd=here, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "."))
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return answers[0] + ("+" if answers[1] else "")


def _difference(key: str, then: Any, now: Any) -> str:
    """One line on a setting that differs; for an experiment, on what in it does."""
    if isinstance(then, dict) and isinstance(now, dict):
        names = [name for name in now if then.get(name) != now[name]]
        return "\n".join(_difference(f"{key}: {name}", then.get(name), now[name]) for name in names)
    words = [text if len(text := repr(value)) <= 60 else text[:60] + "…" for value in (then, now)]
    return f"    {key}: {words[0]} there, {words[1]} now"
