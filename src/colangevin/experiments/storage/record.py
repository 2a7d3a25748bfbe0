"""What ``run.json`` says: what was run, by which versions, where and how long."""

import dataclasses
import json
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import colangevin
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.storage.decoding import quoted

__all__ = ["FORMAT", "IDENTITY", "Record", "differences", "new_record"]

#: of the files; a new number when older files can no longer be read
FORMAT = 1

#: what two runs must share for one to continue the other, bit for bit
IDENTITY = ("format", "version", "commit", "torch", "device", "threads", "experiment")


@dataclass(frozen=True)
class Record:
    """The contents of ``run.json``.

    Attributes:
        format: of the files.
        version: of colangevin.
        commit: of the source tree; None outside of one, ``+`` at the end when it was edited.
        torch: its version.
        device: name of the GPU, or ``cpu``.
        threads: of torch.
        experiment: as lists and dictionaries, which another version of colangevin can compare too.
        command: that asked for it.
        machine: where it ran, for the reader.
        seconds: that every complete job took, by its name.
        step_ms: milliseconds of a step, by the name of the job.
    """

    format: int
    version: str
    commit: str | None
    torch: str
    device: str
    threads: int
    experiment: dict[str, Any]
    command: str
    machine: dict[str, str | None]
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    step_ms: dict[str, float] = dataclasses.field(default_factory=dict)


def new_record(experiment: Experiment, device: torch.device, command: str) -> Record:
    """The record of a run that begins here and now.

    Args:
        experiment: what is run.
        device: where.
        command: that asked for it.

    Returns:
        The record.
    """
    cuda = device.type == "cuda"
    return Record(
        format=FORMAT,
        version=colangevin.__version__,
        commit=_commit(),
        torch=torch.__version__,
        device=torch.cuda.get_device_name(device) if cuda else "cpu",
        threads=torch.get_num_threads(),
        # through JSON, which makes lists of tuples: a stored record then compares equal to a new one
        experiment=json.loads(json.dumps(dataclasses.asdict(experiment))),
        command=command,
        machine={
            "platform": platform.system(),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cuda": torch.version.cuda if cuda else None,
        },
    )


def differences(then: Record, now: Record) -> list[str]:
    """What keeps a run from continuing another.

    Args:
        then: the record of the one that is there.
        now: of the one that would go on.

    Returns:
        A line for each thing; none when they are alike.
    """
    pairs = [(key, getattr(then, key), getattr(now, key)) for key in IDENTITY]
    return [line for key, old, new in pairs if old != new for line in _lines(key, old, new)]


def _lines(key: str, then: Any, now: Any) -> list[str]:
    """A setting that differs; of an experiment, what in it does."""
    if isinstance(then, dict) and isinstance(now, dict):
        names = [name for name in {**now, **then} if then.get(name) != now.get(name)]
        shown = {name: name if name in now else quoted(name) for name in names}
        pairs = [(shown[name], then.get(name), now.get(name)) for name in names]
        return [line for name, old, new in pairs for line in _lines(f"{key}: {name}", old, new)]
    return [f"    {key}: {quoted(then)} there, {quoted(now)} now"]


def _commit() -> str | None:
    here = Path(colangevin.__file__).parent
    try:
        answers = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, check=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "."))
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return answers[0].decode("ascii") + ("+" if answers[1] else "")
