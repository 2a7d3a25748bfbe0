"""Results as a picture, ``python -m benchmarks.plot``: time by method and how it grows."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import growth
from benchmarks.sheet import FOLDER, Row, load, load_machine

__all__ = ["draw", "main"]

_COLUMNS = 3
_COLOURS = {
    "colangevin": "tab:blue",
    "torch": "tab:gray",
    "geoopt": "tab:orange",
    "geotorch": "tab:green",
    "pogo-torch": "tab:red",
}
_GROWTH = {
    growth.CIRCLE_WEIGHTS: "weights on circles",
    growth.ORTHOGONAL_SIDE: "side of an orthogonal matrix",
    growth.ORTHOGONAL_COUNT: "orthogonal matrices of 64 × 576",
}


def draw(folder: Path, device: str) -> Path | None:
    """Draw the results of a device beside its CSV.

    Args:
        folder: of the CSV.
        device: "cpu" or "cuda".

    Returns:
        Where the SVG is; None when there is nothing to draw.
    """
    rows = load(folder / f"{device}.csv")
    first = next((row.variant for row in rows if row.variant), None)
    rows = [row for row in rows if row.variant == first and row.median_ms is not None]
    works = [name for name in dict.fromkeys(row.workload for row in rows) if not name.startswith("growth")]
    grown = [prefix for prefix in _GROWTH if any(row.workload.startswith(prefix) for row in rows)]
    if not rows:
        return None
    lines = -(-(len(works) + len(grown)) // _COLUMNS)
    # the same numbers give the same file
    with mpl.rc_context({"svg.hashsalt": "colangevin", "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.5 * _COLUMNS, 3.8 * lines), layout="constrained")
        panels = iter(figure.subplots(lines, _COLUMNS, squeeze=False).flat)
        for name, axes in zip(works, panels, strict=False):
            _bars(axes, name, [row for row in rows if row.workload == name])
        for prefix, axes in zip(grown, panels, strict=False):
            _curves(axes, prefix, [row for row in rows if row.workload.startswith(prefix)])
        for axes in panels:
            axes.set_axis_off()
        about = load_machine(folder / f"{device}.json")
        figure.suptitle(f"{about['device']}, torch {about['torch']}; times: {first}, median, 20 % to 80 %")
        path = folder / f"{device}.svg"
        figure.savefig(path, metadata={"Date": None})
    return path


def _bars(axes: Axes, title: str, rows: Sequence[Row]) -> None:
    """Times of one workload, the fastest on top."""
    rows = sorted(rows, key=lambda row: row.median_ms or 0.0, reverse=True)
    middle = [row.median_ms or 0.0 for row in rows]
    low = [m - (row.q20_ms or m) for m, row in zip(middle, rows, strict=True)]
    high = [(row.q80_ms or m) - m for m, row in zip(middle, rows, strict=True)]
    places = range(len(rows))
    colours = [_COLOURS.get(row.library, "black") for row in rows]
    axes.barh(places, middle, xerr=(low, high), color=colours, log=True)
    axes.set_yticks(places, [f"{row.library}: {row.method}" for row in rows], fontsize=7)
    axes.set_xlabel("ms")
    axes.set_title(title, fontsize=10)


def _curves(axes: Axes, prefix: str, rows: Sequence[Row]) -> None:
    """Time against size, a line for each method."""
    for number, (library, method) in enumerate(dict.fromkeys((row.library, row.method) for row in rows)):
        mine = [row for row in rows if (row.library, row.method) == (library, method)]
        sizes = [int(row.workload.removeprefix(prefix)) for row in mine]
        times = [row.median_ms or 0.0 for row in mine]
        style = ("-", "--", ":", "-.")[number % 4]
        axes.plot(
            sizes,
            times,
            style,
            marker="o",
            markersize=3,
            color=_COLOURS.get(library, "black"),
            label=f"{library}: {method}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(_GROWTH[prefix])
    axes.set_ylabel("ms")
    axes.legend(fontsize=7)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what there is.

    Args:
        arguments: of the command line; those of the process when None.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description="Draw stored results.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the CSVs")
    options = parser.parse_args(arguments)
    for device in ("cpu", "cuda"):
        path = draw(options.folder, device)
        if path is not None:
            print(f"drew {path}")


if __name__ == "__main__":
    main()
