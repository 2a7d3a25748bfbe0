"""Steps of two versions, in turns."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from benchmarks import ours, workloads
from benchmarks.against.version import Ask, serve
from benchmarks.contender import Run
from benchmarks.timing import VARIANTS, alternate

__all__ = ["compare"]

_TURN = 10  # steps of a turn
_ELEMENTWISE = tuple(each.method for each in ours.ELEMENTWISE)
_SPHERES = tuple(each.method for each in ours.SPHERES)
_ORTHOGONAL = (ours.ORTHOGONAL.method,)
#: workload, and the methods of the library that are timed on it
ROWS = {
    "cpu": [
        (workloads.PERCEPTRON, _ELEMENTWISE),
        (workloads.SQUARES, _SPHERES),
        (workloads.MLP, _ELEMENTWISE),
        (workloads.TEN, _ELEMENTWISE),
        (workloads.THOUSAND, _ORTHOGONAL),
        (workloads.RESNET34_STAGE1, _ORTHOGONAL),
    ],
    "cuda": [
        (workloads.GPT2_SMALL, _ELEMENTWISE),
        (workloads.MLP, _ELEMENTWISE),
        (workloads.RESNET34, _ORTHOGONAL),
        (workloads.RESNET34_LARGE_STEPS, _ORTHOGONAL),
    ],
}


class _Steps:
    """The run that was asked for last, and its steps."""

    def __init__(self) -> None:
        self.methods = {each.method: each for each in (*ours.ELEMENTWISE, ours.ORTHOGONAL)}
        self.key: tuple[object, ...] = ()
        self.run: Run
        self.steps: dict[str, Callable[[], object]]

    def turn(self, device: str, row: int, method: str, name: str) -> list[float]:
        if self.key != (row, method):
            self.key, self.steps = (row, method), {}
            workload = ROWS[device][row][0]
            start = [weight.requires_grad_() for weight in workload.start(torch.device(device))]
            self.run = self.methods[method].build(start, workload.size)
            for _ in range(_TURN):
                self.run.refill()
                self.run.step()
        variant = next(each for each in VARIANTS[device] if each.name == name)
        if name not in self.steps:
            self.steps[name] = variant.prepare(self.run)
        return variant.turn(self.run, self.steps[name], _TURN)


def compare(other: Ask, this: Ask, device: str, seconds: float) -> None:
    """Time steps and print medians of both versions in ms, and their ratio.

    Args:
        other: a version.
        this: this one.
        device: what to measure.
        seconds: for each version of each row.
    """
    print(_line("workload", "method", "variant", ("other", "this", "this/other")), flush=True)
    for row, (workload, methods) in enumerate(ROWS[device]):
        for method in methods:
            for variant in VARIANTS[device]:
                about = (device, row, method, variant.name)
                turns = {"other": partial(other, *about), "this": partial(this, *about)}
                timings = alternate(turns, seconds=seconds, repeats=2000)
                one, two = (median(timings[name].times) for name in ("other", "this"))
                numbers = f"{one:.3f}", f"{two:.3f}", f"{two / one:.3f}"
                print(_line(workload.name, method, variant.name, numbers), flush=True)


def _line(workload: str, method: str, variant: str, numbers: Sequence[str]) -> str:
    other, this, ratio = numbers
    return f"{workload:34s} {method:14s} {variant:9s} {other:>9s} {this:>9s} {ratio:>11s}"


if __name__ == "__main__":
    serve(_Steps().turn)
