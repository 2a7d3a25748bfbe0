"""The data behind the plots of a report's page, as JSON takes them; the scripts in ``web`` draw them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.judging.curves import CURVES
from colangevin.experiments.judging.plane import EDGES, LEVELS
from colangevin.experiments.judging.summaries import over_runs, readable
from colangevin.experiments.report.colours import PLANE, look
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settings import scale
from colangevin.experiments.report.spectra import QUANTILES, quantiles

__all__ = ["plot_data"]

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)[:LEVELS]  # one for each shade of a picture


def plot_data(results: Sequence[Result]) -> dict[str, Any]:
    """Everything that the plots show, by experiment and part."""
    return {
        "plane": {theme: asdict(colours) for theme, colours in PLANE.items()},
        "levels": LEVELS,
        "curves": [[name, *shown] for name, shown in CURVES.items()],
        "quantiles": QUANTILES,
        "measures": {name: {"unit": m.unit, "decades": m.decades} for name, m in MEASURES.items()},
        "experiments": list(map(_experiment, results)),
    }


def _experiment(result: Result) -> dict[str, Any]:
    found = scale([each.part.name for each in result.parts])
    return {
        "name": result.experiment.name,
        "best": result.best_picture,
        "subject": result.subject._asdict(),
        "scale": found and found._asdict(),
        "parts": [_part(each) for each in result.parts],
    }


def _part(each: PartResult) -> dict[str, Any]:
    arrays = each.arrays
    curves = {}
    for name in [name for name in CURVES if name in arrays]:
        mean, std = over_runs(arrays[name].astype(float))
        curves[name] = {"mean": _rounded(mean.T), "std": _rounded(std.T)}
        if name.endswith("loss"):
            curves[name]["shown"] = readable(mean)
    part: dict[str, Any] = {
        "name": each.part.name,
        "methods": each.methods,
        "looks": [look(method)._asdict() for method in each.methods],
        "runs": arrays["test_loss"].shape[2],
        "epochs": arrays["epochs"].tolist(),
        "curves": curves,
        "values": {name: _rounded(each.values[name]) for name in MEASURES if name in each.values},
    }
    for name, array in (("spectra", "singular_values"), ("norms", "row_norms")):
        if array in arrays:
            lines = map(_rounded, quantiles(arrays[array]))
            part[name] = {"layers": each.layers, "lines": list(lines)}
    if "picture" in arrays:
        part["pictures"] = {
            "size": arrays["picture"].shape[-1],
            "edge": EDGES[each.part.problem.data],
            "pixels": _DIGITS[arrays["picture"]].tobytes().decode(),
            "x": _rounded(arrays["train_x"]),
            "y": arrays["train_y"].tolist(),
        }
    if "gradient_mean" in arrays:
        edge = EDGES[each.part.problem.data]
        part["gradients"] = {"edge": edge, "mean": _rounded(arrays["gradient_mean"])}
    return part


def _rounded(array: NDArray[Any]) -> Any:
    """Nested lists with four significant digits; what is not finite is null."""
    if array.ndim > 1:
        return [_rounded(part) for part in array]
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in array.tolist()]
