"""Results on disk: a CSV with a row for each measurement, and beside it what machine it was."""

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

__all__ = ["FOLDER", "Row", "Sheet", "load", "load_machine"]

FOLDER = Path(__file__).parent / "results"


@dataclass
class Row:
    """One measurement; what does not apply is None, and an empty cell in the CSV."""

    workload: str
    method: str
    library: str
    version: str = ""
    variant: str = ""
    median_ms: float | None = None
    q20_ms: float | None = None
    q80_ms: float | None = None
    repeats: int = 0
    ratio_to_sgd: float | None = None
    floor_share: float | None = None
    error: float | None = None
    state_bytes_per_weight: float | None = None
    peak_mib: float | None = None
    note: str = ""


class Sheet:
    """The CSV of a device, written as results come.

    Args:
        folder: where it goes.
        device: "cpu" or "cuda".
        machine: what to remember of the machine.
    """

    def __init__(self, folder: Path, device: str, machine: dict[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{device}.csv"
        (folder / f"{device}.json").write_text(
            json.dumps(machine, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        with self._path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow([column.name for column in fields(Row)])

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows; they are on disk when this returns."""
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            for row in rows:
                writer.writerow([_cell(value) for value in asdict(row).values()])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def load(path: Path) -> list[Row]:
    """The rows of a CSV, none where there is no file."""
    if not path.exists():
        return []
    numbers = {column.name for column in fields(Row) if "float" in str(column.type)}
    rows = []
    with path.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            values: dict[str, object] = dict(cells)
            for name in numbers:
                values[name] = float(cells[name]) if cells[name] else None
            values["repeats"] = int(cells["repeats"])
            rows.append(Row(**values))  # type: ignore[arg-type]
    return rows


def load_machine(path: Path) -> dict[str, object]:
    """What was remembered of the machine."""
    machine: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return machine
