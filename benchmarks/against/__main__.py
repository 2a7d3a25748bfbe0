"""Measure this version of the library beside another one, ``python -m benchmarks.against PATH [WHAT]``.

PATH is a checkout of the other version, for instance a ``git worktree``. Each version has a process of its
own; the two take turns, so that what changes on the machine changes for both.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.against import demo, sampling, steps
from benchmarks.against.version import HERE, version

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table.

    Args:
        arguments: of the command line; those of the process when None.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("path", type=Path, help="of the other version's checkout")
    parser.add_argument(
        "what",
        choices=("steps", "demo", "sampling"),
        nargs="?",
        default="steps",
        help="steps of the benchmarks, the training of make demo, or effective samples a second",
    )
    parser.add_argument("--device", choices=tuple(steps.ROWS), default="cpu", help="where steps are timed")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each version of each row")
    parser.add_argument("--epochs", type=int, help="of the demo instead of all")
    parser.add_argument("--only", default="*", help="a glob for targets and samplers, as 'S²*, 64'")
    options = parser.parse_args(arguments)
    if not (options.path / "src" / "colangevin").is_dir():
        parser.error(f"path: {options.path} has no src/colangevin; give a checkout of the other version.")
    module = f"benchmarks.against.{options.what}"
    with version(options.path, module) as other, version(HERE, module) as this:
        if options.what == "steps":
            steps.compare(other, this, options.device, options.seconds)
        elif options.what == "demo":
            demo.compare(other, this, options.epochs)
        else:
            sampling.compare(other, this, options.only, options.seconds)


if __name__ == "__main__":
    main()
