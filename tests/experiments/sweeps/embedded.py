"""The command line on a cluster of Ray that starts with it, and what becomes of its processes."""

import os
import time
from pathlib import Path

from colangevin.experiments.judging import plane
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.training import runner
from colangevin.experiments.training.stack_training import StackTraining
from tests.experiments.command_line import TINY, start

SCRIPT = TINY.replace(
    "main()\n",
    """
import functools, ray
from tests.experiments.sweeps import embedded
hook, jobs = getattr(embedded, sys.argv.pop()), int(sys.argv.pop())
ray.init = functools.partial(ray.init, runtime_env={"worker_process_setup_hook": hook}, num_cpus=jobs)
main()
""",
)


def slow() -> None:
    """Settings of the tiny experiment in a worker. Its epochs take a tenth of a second, and leave a note."""
    runner.CHECKPOINT_SECONDS = 0.0
    plane.GRID, plane.PICTURE = 60, 12
    advance = StackTraining.advance

    def noted(training: StackTraining) -> None:
        time.sleep(0.1)
        advance(training)
        with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
            notes.write(f"{training.problem.depth} {training.epoch} {os.getpid()}\n")

    StackTraining.advance = noted


def failing() -> None:
    """As above, but part 1 meets an error in its third epoch."""
    slow()
    advance = StackTraining.advance

    def failing(training: StackTraining) -> None:
        advance(training)
        if training.problem.depth == 2 and training.epoch == 3:
            raise StoreError("Could not write. Make room.")

    StackTraining.advance = failing


def start_ray(folder, *words, jobs=1, hook=slow, **options):
    """The command line at work on Ray, with so many jobs at once."""
    words = ("--ray", *words, jobs, hook.__name__)
    return start_alone(folder, *words, script=SCRIPT, **options)


def start_alone(folder, *words, **options):
    """The command line at work, with one thread."""
    environment = {"NOTES": str(folder / "notes"), "OMP_NUM_THREADS": "1"}
    return start("run", "fig4", "--out", folder, *words, env=environment, **options)


def notes(folder):
    """Epochs by part and process, in the order in which they ended."""
    found = {}
    for line in (folder / "notes").read_text(encoding="utf-8").splitlines():
        depth, epoch, process = map(int, line.split())
        found.setdefault(f"part {depth - 1}", {}).setdefault(process, []).append(epoch)
    return found


def descendants(process):
    """The processes that a process has started, and those that they have."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # after the name, which may have spaces: state, parent
            parents[int(path.parent.name)] = int(
                path.read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
        except OSError:  # it has just ended
            continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def alive(processes):
    """Those that have not ended within ten seconds; on a busy machine one second is too short."""
    for _ in range(200):
        if not (left := {each for each in processes if Path(f"/proc/{each}").exists()}):
            break
        time.sleep(0.05)
    return left
