"""Plots of what a monitor recorded."""

from typing import Any

import torch

from colangevin.diagnostics.monitor import Monitor
from colangevin.extras import extra

__all__ = ["plot_run"]


def plot_run(monitor: Monitor) -> Any:
    """Draw a run: kinetic temperatures with their running means, and the traces of the recorded scalars.

    A running mean that settles at 1 has the temperature that was asked for. A trace that still drifts needs a
    longer burn-in.

    Args:
        monitor: with at least one record.

    Returns:
        A matplotlib figure, which belongs to no window.

    Examples:
        >>> weight = nn.Parameter(torch.zeros(3))
        >>> monitor = cl.diagnostics.Monitor(cl.CoLod([weight], 0.1, temperature=0.1))
        >>> recorded = [monitor.record(loss=loss) for loss in (2.0, 1.5, 1.2)]
        >>> figure = cl.diagnostics.plot_run(monitor)
        >>> figure.axes[0].get_ylabel()
        'loss'
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
