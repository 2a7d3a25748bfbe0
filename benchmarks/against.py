"""Time this version of the library beside another one, ``python -m benchmarks.against PATH``.

PATH is a folder with the ``src`` of the other version, for instance a ``git worktree``. Each version has a
process of its own; the two take turns, so that what changes on the machine changes for both.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch

from benchmarks import workloads
from benchmarks.timing import VARIANTS, alternate

__all__ = ["main"]

_HERE = Path(__file__).parents[1]
_TURN = 10  # steps of a turn
#: workload, and the methods of the library that are timed on it
_ROWS = {
    "cpu": [
        (workloads.PERCEPTRON, ("free", "circle", "circle, noise", "sphere", "sphere, slack")),
        (workloads.MLP, ("free", "circle", "circle, noise", "sphere", "sphere, slack")),
        (workloads.RESNET34_STAGE1, ("orthogonal",)),
    ],
    "cuda": [
        (workloads.GPT2_SMALL, ("free", "circle", "circle, noise", "sphere", "sphere, slack")),
        (workloads.MLP, ("free", "circle", "circle, noise", "sphere", "sphere, slack")),
        (workloads.RESNET34, ("orthogonal",)),
        (workloads.RESNET34_LARGE_STEPS, ("orthogonal",)),
    ],
}


def _serve(device: str) -> None:
    """Build and time what the other process asks for, a line of JSON each."""
    from benchmarks import ours  # of the version that PYTHONPATH names

    methods = {each.method: each for each in (*ours.ELEMENTWISE, ours.ORTHOGONAL)}
    variants = {each.name: each for each in VARIANTS[device]}
    runs, steps = {}, {}
    for line in sys.stdin:
        row, method, variant = json.loads(line)
        key = (row, method)
        if key not in runs:
            runs.clear()
            steps.clear()
            workload = _ROWS[device][row][0]
            start = [weight.requires_grad_() for weight in workload.start(torch.device(device))]
            runs[key] = methods[method].build(start, workload.size)
            for _ in range(20):
                runs[key].refill()
                runs[key].step()
        if (*key, variant) not in steps:
            steps[*key, variant] = variants[variant].prepare(runs[key])
        times = variants[variant].turn(runs[key], steps[*key, variant], _TURN)
        print(json.dumps(times), flush=True)


@contextmanager
def _version(source: Path, device: str) -> Iterator[Callable[[int, str, str], list[float]]]:
    """A process with one version of the library; what is yielded takes a turn there."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{_HERE}"}
    command = [sys.executable, "-m", "benchmarks.against", "--serve", device]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, cwd=source, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def turn(row: int, method: str, variant: str) -> list[float]:
            process.stdin.write(json.dumps([row, method, variant]) + "\n")
            process.stdin.flush()
            times: list[float] = json.loads(process.stdout.readline())
            return times

        yield turn
        process.stdin.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table: medians of both versions in ms, and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("path", type=Path, nargs="?", help="of the other version's checkout")
    parser.add_argument("--device", choices=tuple(_ROWS), default="cpu", help="what to measure")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each version of each row")
    parser.add_argument("--serve", choices=tuple(_ROWS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve(options.serve)
        return
    if options.path is None or not (options.path / "src" / "colangevin").is_dir():
        parser.error(f"path: {options.path} has no src/colangevin; give a checkout of the other version.")
    device, names = options.device, [each.name for each in VARIANTS[options.device]]
    names = names[:1] if device == "cpu" else names
    print(_line("workload", "method", "variant", "other", "this", "this/other"), flush=True)
    other, this = (options.path / "src").resolve(), _HERE / "src"
    with _version(other, device) as before, _version(this, device) as now:
        for row, (workload, methods) in enumerate(_ROWS[device]):
            for method in methods:
                for variant in names:
                    about = (row, method, variant)
                    turns = {"other": lambda a=about: before(*a), "this": lambda a=about: now(*a)}
                    timings = alternate(turns, seconds=options.seconds, repeats=2000)
                    one, two = (median(timings[name].times) for name in ("other", "this"))
                    numbers = f"{one:.3f}", f"{two:.3f}", f"{two / one:.3f}"
                    print(_line(workload.name, method, variant, *numbers), flush=True)


def _line(workload: str, method: str, variant: str, other: str, this: str, ratio: str) -> str:
    return f"{workload:34s} {method:14s} {variant:9s} {other:>9s} {this:>9s} {ratio:>11s}"


if __name__ == "__main__":
    main()
