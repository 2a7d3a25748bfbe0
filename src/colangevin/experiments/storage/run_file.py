"""The file ``run.json`` of a folder of results: what was run there, and whether a run may go on with it."""

import dataclasses
from pathlib import Path

import colangevin
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.storage.decoding import decode, quoted
from colangevin.experiments.storage.disk import StoreError, read_json, write_json
from colangevin.experiments.storage.record import FORMAT, Record, differences

__all__ = ["RunFile"]


class RunFile:
    """``run.json`` of one experiment.

    Args:
        folder: of the experiment.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "run.json"

    def write(self, record: Record) -> None:
        """Write a record, in place of an earlier one."""
        write_json(self.path, dataclasses.asdict(record))

    def check_continues(self, now: Record) -> None:
        """Refuse to go on with results of something else.

        Args:
            now: the record of what would go on.

        Raises:
            StoreError: with what differs.
        """
        if lines := differences(self.read(), now):
            first = f"{self._folder} has results of something else, which cannot be continued:"
            last = "Choose another folder with --out, or go back to what they were made with."
            raise StoreError("\n".join([first, *lines, last]))

    def read(self) -> Record:
        """What was run.

        Returns:
            The record.

        Raises:
            StoreError: when the file is of another format or no such file.
        """
        try:
            run = read_json(self.path)
            found, version = run.get("format"), run.get("version")
            if found == FORMAT:
                record: Record = decode(Record, run, "run")
                return record
        except ValueError as error:
            raise self._unreadable(error) from error
        raise StoreError(
            f"{self.path} has format {quoted(found)}; colangevin {colangevin.__version__} reads format "
            f"{FORMAT}. Use the version that wrote it ({quoted(version)}), or run again in another folder."
        )

    def experiment(self) -> Experiment:
        """The experiment that was run.

        Returns:
            The experiment.

        Raises:
            StoreError: when the file describes none, or one that belongs in another folder.
        """
        try:
            experiment: Experiment = decode(Experiment, self.read().experiment, "experiment")
        except ValueError as error:
            raise self._unreadable(error) from error
        if experiment.name != self._folder.name:
            raise self._unreadable(
                f"experiment.name is {quoted(experiment.name)}; it must be the name of its folder"
            )
        return experiment

    def _unreadable(self, reason: object) -> StoreError:
        return StoreError(
            f"{self.path} cannot be read as results: {str(reason)[:300]}. Put back a whole "
            "copy, or choose another folder with --out."
        )
