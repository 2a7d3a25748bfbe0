"""Results as Markdown, between two marks in the READMEs: ``python -m benchmarks.table``.

The main README has a few ratios, the benchmarks' own page all tables.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import workloads
from benchmarks.sheet import FOLDER, Row, load, load_machine

__all__ = ["BEGIN", "END", "main", "pages", "ratios", "render"]

BEGIN, END = "<!-- results: begin, written by python -m benchmarks.table -->", "<!-- results: end -->"
_ROOT = FOLDER.parent.parent
#: the methods of the front page, and by device the work in which they are compared with SGD
_STEPS = {
    "free": "no constraint",
    "circle": "`Circle`",
    "circle, noise": "`Circle`, with noise",
    "sphere, slack": "`Sphere`",
    "sphere": "`Sphere`, fixed norm",
}
_STEPPED = {"cuda": workloads.GPT2_SMALL.name, "cpu": workloads.PERCEPTRON.name}
#: what orthogonality is compared with, and the name of it on the front page
_PEERS = {
    "RiemannianSGD, EuclideanStiefel": "geoopt's RiemannianSGD",
    "POGO": "POGO",
    "Muon": "torch's Muon, which holds no constraint",
}
_COMMANDS = {"cuda": "make bench-gpu PYTHON=python3", "cpu": "make bench"}


def ratios(folder: Path = FOLDER) -> str:
    """The main ratios, for the front page.

    Args:
        folder: of the CSVs.

    Returns:
        Markdown.
    """
    found = {device: load(folder / f"{device}.csv") for device in _STEPPED}
    devices = [device for device, rows in found.items() if rows]
    if not devices:
        return "No results are stored."
    names = [load_machine(folder / f"{device}.json")["device"] for device in devices]
    head = [_line(["one step", *names]), "|---|" + "---:|" * len(devices)]
    lines = []
    for method, words in _STEPS.items():
        cells = [_ratio(found[device], _STEPPED[device], method) for device in devices]
        lines.append(_line([f"{words}, × SGD with momentum", *cells]))
    for peer, words in _PEERS.items():
        cells = [_lead(found[device], peer) for device in devices]
        lines.append(_line([f"`Orthogonal`, ResNet-34's kernels: times as fast as {words}", *cells]))
    return "\n".join([*head, *lines])


def _find(rows: Sequence[Row], workload: str, method: str) -> Row | None:
    """The row of a method in the first way of timing."""
    return next((row for row in rows if (row.workload, row.method) == (workload, method)), None)


def _ratio(rows: Sequence[Row], workload: str, method: str) -> str:
    row = _find(rows, workload, method)
    return "" if row is None else _number(row.ratio_to_sgd, ".2f")


def _lead(rows: Sequence[Row], peer: str) -> str:
    ours, theirs = (_find(rows, workloads.RESNET34.name, method) for method in ("orthogonal", peer))
    if ours is None or theirs is None or not ours.median_ms or not theirs.median_ms:
        return ""
    return f"{theirs.median_ms / ours.median_ms:.1f}"


def render(folder: Path = FOLDER) -> str:
    """The tables of every device that has results.

    Args:
        folder: of the CSVs.

    Returns:
        Markdown.
    """
    parts = []
    for device in _COMMANDS:
        rows = [row for row in load(folder / f"{device}.csv") if not row.workload.startswith("growth")]
        if rows:
            parts.append(f"{_caption(folder, device)}\n\n{_table(rows)}")
    return "\n\n".join(parts) or "No results are stored."


def _caption(folder: Path, device: str) -> str:
    about = load_machine(folder / f"{device}.json")
    threads = f", {about['threads']} threads" if device == "cpu" else ""
    return (
        f"{about['device']}{threads}, copy bandwidth {about['copy_gb_per_s']:,} GB/s, "
        f"torch {about['torch']}, commit {about['commit']}; `{_COMMANDS[device]}`:"
    )


def _table(rows: Sequence[Row]) -> str:
    """A line for each workload and method; quantiles for the first variant, medians for the others."""
    variants = list(dict.fromkeys(row.variant for row in rows if row.variant))
    others = variants[1:]
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
    for path, table in ((_ROOT / "README.md", ratios()), (FOLDER.parent / "README.md", render())):
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        result[path] = f"{before}{BEGIN}\n{table}\n{END}{after}"
    return result


def main() -> None:
    """Write the tables into the READMEs."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote the table in {path.relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
