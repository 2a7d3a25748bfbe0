"""Run every sampler on every target, print and store: ``python -m benchmarks.sampling``."""

import argparse
import csv
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

import colangevin as cl
from benchmarks.bandwidth import copy_bandwidth
from benchmarks.machine import machine, version
from benchmarks.sampling import digits
from benchmarks.sampling.samplers import SAMPLERS, Sampler
from benchmarks.sampling.targets import TARGETS, Target
from benchmarks.sheet import FOLDER
from benchmarks.timing import failure

__all__ = ["BEGIN", "END", "RUNS", "Row", "main", "page", "render"]

BEGIN, END = "<!-- sampling: begin, written by python -m benchmarks.sampling -->", "<!-- sampling: end -->"
_PAGE = FOLDER.parent / "README.md"
# A mean is called right within three standard errors plus this bias, which our finite steps may have.
_BIAS = 0.01

#: what is run: every sampler on every law, and ours on a posterior that no other of these libraries holds
RUNS: list[tuple[Target | digits.Posterior, Sampler]] = [
    *((target, sampler) for target in TARGETS for sampler in SAMPLERS),
    *((digits.POSTERIOR, sampler) for sampler in digits.SAMPLERS),
]


@dataclass
class Row:
    """One sampler on one target; what was not measured is None, and an empty cell."""

    target: str
    library: str
    version: str
    method: str
    chains: int
    exact: float | None
    mean: float | None = None
    error: float | None = None
    right: str = ""
    draws: int | None = None
    seconds: float | None = None
    ess: float | None = None
    ess_per_second: float | None = None
    rhat: float | None = None
    note: str = ""


def measure(target: Target | digits.Posterior, sampler: Sampler, seconds: float) -> Row:
    """Run a sampler; what goes wrong with it is in its row."""
    row = Row(
        target.name, sampler.library, version(sampler.library), sampler.method, sampler.chains, target.exact
    )
    try:
        draws, spent = sampler.run(target, sampler.chains, seconds)
    except Exception as error:  # a sampler that fails must not lose the others
        row.note = failure(error)
        return row
    found = cl.diagnostics.convergence({"x": draws})["x"]
    row.mean, row.error, row.ess, row.rhat = found.mean, found.error, found.ess, found.rhat
    row.draws, row.seconds, row.ess_per_second = draws.shape[1], spent, found.ess / spent
    if target.exact is None:
        row.right = "unknown"
    else:
        row.right = "yes" if abs(found.mean - target.exact) <= 3 * found.error + _BIAS else "no"
    return row


def render(folder: Path = FOLDER) -> str:
    """The stored results as Markdown."""
    path = folder / "sampling.csv"
    if not path.exists():
        return "No results are stored."
    about = json.loads((folder / "sampling.json").read_text(encoding="utf-8"))
    lines = [
        f"{about['device']}, {about['threads']} thread(s), {about['seconds']:g} s each, load of the machine "
        f"{about['load_before']:.1f} before and {_load(about)} after, torch {about['torch']}, "
        f"commit {about['commit']}; `python -m benchmarks.sampling`:",
        "",
        "| law, exact average | sampler | chains | average | right | ESS/s | R-hat |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    last = ""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = f"{row['target']}: {float(row['exact']):.4f}" if row["exact"] else row["target"]
            result = f"{row['mean']} ± {row['error']}" if row["mean"] else row["note"]
            cells = (
                "" if name == last else name,
                f"{row['library']} {row['version']}: {row['method']}",
                row["chains"],
                result,
                row["right"],
                # the speed of a sampler with a wrong average means nothing
                "–" if row["right"] == "no" else row["ess_per_second"],
                row["rhat"],
            )
            lines.append("| " + " | ".join(cells) + " |")
            last = name
    return "\n".join(lines)


def _load(about: dict[str, float]) -> str:
    return f"{about['load_after']:.1f}" if "load_after" in about else "unknown (unfinished)"


def page() -> str:
    """The README with the table that the stored results give."""
    before, _, rest = _PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render()}\n{END}{after}"


_FORMS = {"exact": ".6f", "mean": ".4f", "error": ".4f", "ess": ".0f", "ess_per_second": ".0f", "rhat": ".3f"}


def _cells(row: Row) -> list[str]:
    return [
        "" if value is None else format(value, _FORMS.get(name, ".1f") if isinstance(value, float) else "")
        for name, value in asdict(row).items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store; rows are on disk as they come.

    Args:
        arguments: of the command line; those of the process when None.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="for each sampler on each target")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the CSV")
    parser.add_argument("--commit", help="of the code, where git cannot be asked")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    cpu = torch.device("cpu")
    about = {
        **machine(cpu, copy_bandwidth(cpu, 64), options.commit),
        "seconds": options.seconds,
        "load_before": os.getloadavg()[0],
    }
    description = options.out / "sampling.json"
    description.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with (options.out / "sampling.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in fields(Row)])
        for target, sampler in RUNS:
            row = measure(target, sampler, options.seconds)
            writer.writerow(_cells(row))
            file.flush()
            print(*_cells(row), sep="  ", flush=True)
    about["load_after"] = os.getloadavg()[0]
    description.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.out == FOLDER:
        _PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
