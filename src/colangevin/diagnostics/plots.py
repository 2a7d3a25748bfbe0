"""Plots of what a monitor recorded."""

from typing import Any

import torch

from colangevin.diagnostics.monitor import Monitor
from colangevin.extras import extra

__all__ = ["plot_run"]


def plot_run(monitor: Monitor) -> Any:
    """Kinetic temperatures over time with their running means, and the traces of the recorded scalars.

    Args:
        monitor: with at least one record.

    Returns:
        A matplotlib figure, which belongs to no window.
    """
    figure_module = extra("matplotlib.figure", "A plot of the diagnostics")
    series = monitor.series()
    kinetic = {name: each for name, each in series.items() if name.startswith("kinetic[")}
    scalars = {name: each for name, each in series.items() if "[" not in name}
    rows = bool(kinetic) + len(scalars)
    figure = figure_module.Figure(figsize=(8, 2.5 * max(1, rows)), layout="constrained")
    axes = iter(figure.subplots(max(1, rows), squeeze=False)[:, 0])
    if kinetic:
        axis = next(axes)
        for name, chains in kinetic.items():
            relative = (chains / series[name.replace("kinetic", "temperature")]).mean(0)
            known = relative.isfinite()  # at temperature 0 there is no ratio
            running = relative.where(known, 0.0).cumsum(0) / known.cumsum(0)
            (line,) = axis.plot(relative.where(known, torch.nan).numpy(), alpha=0.3)
            axis.plot(running.numpy(), color=line.get_color(), label=f"group {name[8:-1]}")
        axis.axhline(1.0, color="black", linestyle="--", linewidth=1)
        axis.set_ylabel("kinetic temperature / τ")
        axis.legend()
    for axis, (name, chains) in zip(axes, scalars.items(), strict=False):
        axis.plot(chains.T.numpy(), alpha=0.7, linewidth=1)
        axis.set_ylabel(name)
    figure.axes[-1].set_xlabel("record")
    return figure
