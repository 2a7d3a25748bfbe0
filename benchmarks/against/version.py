"""A version of the library in a process of its own, asked in lines of JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["HERE", "Ask", "serve", "version"]

#: the checkout of this version
HERE = Path(__file__).parents[2]

#: puts a question to a version and waits for its answer
Ask = Callable[..., Any]


@contextmanager
def version(checkout: Path, module: str) -> Iterator[Ask]:
    """Start a process in which a module of these benchmarks serves, with the library of a checkout.

    Args:
        checkout: whose ``src`` is imported.
        module: that calls :func:`serve`.

    Yields:
        What asks it.
    """
    source = checkout.resolve() / "src"
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{HERE}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-m", module]
    # Python looks for modules in the working directory first, which must not hold the other's benchmarks
    with subprocess.Popen(command, env=environment, text=True, cwd=source, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(*question: object) -> Any:
            with suppress(BrokenPipeError):  # then there is no answer either
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"{module} with the library of {checkout} ended without an answer.")
            return json.loads(answer)

        try:
            yield ask
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()


def serve(answer: Ask) -> None:
    """Answer questions until there are no more."""
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
