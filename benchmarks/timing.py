"""How long a step takes: one turn of a run, and turns of many runs in alternation."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles

import torch

from benchmarks.contender import Run

__all__ = ["VARIANTS", "Timing", "Variant", "alternate", "failure"]

Step = Callable[[], object]

_LEAD = 2  # steps of a turn in a row that fill the queue and are not counted


@dataclass
class Timing:
    """The times of one run, in ms, or why there are none."""

    times: list[float] = field(default_factory=list)
    failure: str = ""

    def summary(self) -> tuple[float, float, float]:
        """Median, 20 % and 80 % quantile."""
        if len(self.times) == 1:
            return (self.times[0],) * 3
        fifths = quantiles(self.times, n=5, method="inclusive")
        return median(self.times), fifths[0], fifths[3]


@dataclass(frozen=True)
class Variant:
    """A way to take and time steps.

    Attributes:
        name: in the results.
        everyone: whether it is for every contender, or only for those that name it.
        prepare: from a run to what is called for a step; it may capture.
        turn: so many steps, each with fresh gradients that are not timed; their times in ms.
    """

    name: str
    everyone: bool
    prepare: Callable[[Run], Step]
    turn: Callable[[Run, Step, int], list[float]]


def _eager(run: Run) -> Step:
    return run.step


def _captured(run: Run) -> Step:
    """The step as a CUDA graph, recorded after a few steps on a stream of their own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run.step()
    return graph.replay


def _host_turn(run: Run, step: Step, count: int) -> list[float]:
    times = []
    for _ in range(count):
        run.refill()
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def _alone_turn(run: Run, step: Step, count: int) -> list[float]:
    """The device waits for each step, so that the Python before its first launch counts."""
    times = []
    for _ in range(count):
        run.refill()
        torch.cuda.synchronize()
        start = _mark()
        step()
        end = _mark()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times


def _row_turn(run: Run, step: Step, count: int) -> list[float]:
    """Nothing waits, as in training: Python counts only where it is slower than the device."""
    lead = min(_LEAD, count - 1)
    marks = []
    for _ in range(lead + count):
        run.refill()
        start = _mark()
        step()
        marks.append((start, _mark()))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in marks[lead:]]


def _mark() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


#: by device
VARIANTS = {
    "cpu": (Variant("eager", True, _eager, _host_turn),),
    "cuda": (
        Variant("in a row", True, _eager, _row_turn),
        Variant("alone", True, _eager, _alone_turn),
        Variant("graph", False, _captured, _row_turn),
    ),
}


def alternate(
    turns: Mapping[str, Callable[[], list[float]]], *, seconds: float, repeats: int
) -> dict[str, Timing]:
    """Let every run take its turn, again and again, so that what changes on the machine changes for all.

    Args:
        turns: by name, what takes a few steps and returns their times.
        seconds: after which a run takes no further turn; every run takes at least one.
        repeats: after how many steps it takes none either.

    Returns:
        The times by name; a run that raises keeps the message instead.
    """
    timings = {name: Timing() for name in turns}
    spent = dict.fromkeys(turns, 0.0)
    going = set(turns)
    while going:
        for name in [name for name in turns if name in going]:
            start = time.perf_counter()
            try:
                timings[name].times += turns[name]()
            except Exception as error:  # whatever a library raises is a result
                timings[name] = Timing(failure=failure(error))
                going.discard(name)
            spent[name] += time.perf_counter() - start
            if spent[name] >= seconds or len(timings[name].times) >= repeats:
                going.discard(name)
    return timings


def failure(error: Exception) -> str:
    """An exception as a note: what is not installed, or what went wrong, in one line."""
    if isinstance(error, ModuleNotFoundError):
        return "not installed"
    lines = str(error).strip().splitlines() or [""]
    return f"failed: {type(error).__name__}: {lines[0][:160]}"
