"""Results as Markdown, between two marks in the READMEs: ``python -m benchmarks.table``."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import workloads
from benchmarks.sheet import FOLDER, Row, load, load_machine
from benchmarks.training import NAME as TRAINING

__all__ = ["BEGIN", "END", "main", "pages", "render"]

BEGIN, END = "<!-- results: begin, written by python -m benchmarks.table -->", "<!-- results: end -->"
_ROOT = FOLDER.parent.parent
#: by device, what the front page shows; the benchmarks' own page has everything but the growth
_FRONT = {
    "cuda": (
        workloads.GPT2_SMALL.name,
        workloads.MLP.name,
        workloads.RESNET34.name,
        workloads.RESNET34_LARGE_STEPS.name,
        TRAINING,
    ),
    "cpu": (workloads.PERCEPTRON.name, workloads.RESNET34.name),
}
_COMMANDS = {"cuda": "make bench-gpu PYTHON=python3", "cpu": "make bench"}


def render(folder: Path = FOLDER, *, front: bool) -> str:
    """The tables of every device that has results.

    Args:
        folder: of the CSVs.
        front: whether for the front page: fewer workloads, one way of timing.

    Returns:
        Markdown.
    """
    parts = []
    for device, shown in _FRONT.items():
        rows = [row for row in load(folder / f"{device}.csv") if not row.workload.startswith("growth")]
        if front:
            rows = [row for name in shown for row in rows if row.workload == name]
        if rows:
            parts.append(f"{_caption(folder, device)}\n\n{_table(rows, front=front)}")
    return "\n\n".join(parts) or "No results are stored."


def _caption(folder: Path, device: str) -> str:
    about = load_machine(folder / f"{device}.json")
    threads = f", {about['threads']} threads" if device == "cpu" else ""
    return (
        f"{about['device']}{threads}, copy bandwidth {about['copy_gb_per_s']:,} GB/s, "
        f"torch {about['torch']}, commit {about['commit']}; `{_COMMANDS[device]}`:"
    )


def _table(rows: Sequence[Row], *, front: bool) -> str:
    """A line for each workload and method; quantiles for the first variant, medians for the others."""
    variants = list(dict.fromkeys(row.variant for row in rows if row.variant))
    others = [] if front else variants[1:]
    found: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row.workload, row.method, row.library), {})[row.variant] = row
    titles = [
        *("work", "method", f"ms, {variants[0]} (20 %, 80 %)" if variants else "ms"),
        *(f"ms, {variant}" for variant in others),
        *("× SGD", "of floor", "error", "state, B/weight", "peak, MiB"),
    ]
    lines = []
    for (workload, method, library), by_variant in found.items():
        row = next(iter(by_variant.values()))  # of the first variant, which every method has
        cells = [
            *(workload, f"{library}: {method}" if method else "", _time(row)),
            *(_median(by_variant.get(variant)) for variant in others),
            _number(row.ratio_to_sgd, ".2f"),
            _number(row.floor_share, ".0%"),
            _number(row.error, ".1e"),
            _number(row.state_bytes_per_weight, ".1f"),
            _number(row.peak_mib, ",.0f"),
        ]
        lines.append(cells)
    # columns that hold nothing are left out; a workload is named once
    kept = [k for k in range(len(titles)) if any(cells[k] for cells in lines)]
    for above, cells in zip(reversed(lines[:-1]), reversed(lines[1:]), strict=True):
        if cells[0] == above[0]:
            cells[0] = ""
    head = [_line(titles[k] for k in kept), "|---|---|" + "---:|" * (len(kept) - 2)]
    return "\n".join([*head, *(_line(cells[k] for k in kept) for cells in lines)])


def _time(row: Row) -> str:
    if row.median_ms is None:
        return row.note
    return f"{_ms(row.median_ms)} ({_ms(row.q20_ms)}, {_ms(row.q80_ms)})"


def _median(row: Row | None) -> str:
    if row is None:
        return ""
    return _ms(row.median_ms) if row.median_ms is not None else row.note


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 10 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def pages() -> dict[Path, str]:
    """The READMEs with the tables that the stored results give."""
    result = {}
    for path, front in ((_ROOT / "README.md", True), (FOLDER.parent / "README.md", False)):
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        result[path] = f"{before}{BEGIN}\n{render(front=front)}\n{END}{after}"
    return result


def main() -> None:
    """Write the tables into the READMEs."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote the table in {path.relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
