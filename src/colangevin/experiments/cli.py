"""``colangevin list``, ``run`` and ``report``."""

import shlex
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, NoReturn

import torch
import typer
from rich.console import Console
from typer.core import TyperCommand

from colangevin.experiments import display, interrupts
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.index import EXPERIMENTS, find
from colangevin.experiments.catalogue.jobs import Job, jobs
from colangevin.experiments.data.sources import DataError
from colangevin.experiments.storage.disk import StoreError, as_utf8
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.sweeps import cluster, tasks
from colangevin.experiments.sweeps.cluster import ClusterError
from colangevin.experiments.training import runner

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The experiments of 'Better Training using Weight-Constrained Stochastic Dynamics' (ICML 2021).",
    epilog="'colangevin info' says which fast paths are in use, and why not others. 'colangevin --version' "
    "says which version this is.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say(text: str) -> None:
    """Plain text, never wrapped, so that a path or a command can be copied."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


def _fail(text: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text, style="red")
    raise typer.Exit(1)


@app.command("list")
def list_experiments(
    short: Annotated[bool, typer.Option("--short", help="Names alone, one a line.")] = False,
) -> None:
    """What there is to run, and which figures and tables of the paper it gives."""
    if short:
        _say("\n".join(experiment.name for experiment in EXPERIMENTS))
        return
    for experiment in EXPERIMENTS:
        quick = experiment.resized(None, None, quick=True)
        _say(f"{experiment.name} ({', '.join(experiment.covers)})")
        _say(_indented(experiment.title))
        _say(_indented(f"{_size(experiment)}; --quick: {_size(quick)}"))
    _say("")
    _say(_wrapped("30 × 100 runs are 30 methods with 100 runs of each."))
    _say(_wrapped("colangevin run NAME… takes names of experiments, figures or tables."))


def _wrapped(text: str, indent: str = "") -> str:
    """Text in lines of the console's width. Words are never broken, nor at their hyphens."""
    return textwrap.fill(
        text,
        Console().width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: str) -> str:
    return _wrapped(text, indent="    ")


def _size(experiment: Experiment) -> str:
    methods = sum(len(part.methods) for part in experiment.parts)
    return f"{methods} × {_count(experiment.runs, 'run')}, {_count(experiment.epochs, 'epoch')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class _RunCommand(TyperCommand):
    """An option whose value may be left out: ``--ray`` alone is ``--ray local``.

    Typer has none. A word after ``--ray`` is its value only if it can be an address, so that ``--ray fig4``
    runs fig4.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        followed = zip(args[:end], [*args[1:end], ""], strict=False)  # without words there is one more
        alone = [word == "--ray" and not cluster.is_address(after) for word, after in followed]
        words = [f"--ray={cluster.LOCAL}" if bare else word for word, bare in zip(args, alone, strict=False)]
        return super().parse_args(ctx, words + args[end:])


@app.command(cls=_RunCommand)
def run(
    names: Annotated[
        list[str], typer.Argument(help="Experiments, figures or tables; see 'colangevin list'.")
    ],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs of every method instead of the paper's.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs instead of the paper's.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("out"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the results in that folder.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small form, minutes on a laptop.")] = False,
    only: Annotated[
        str, typer.Option(help="Only jobs whose names match this glob, as '*: SGD-m, run 1'.")
    ] = "*",
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            help="Run jobs as tasks of Ray, as many at once as there is room for: on this machine, or on the "
            "cluster at auto, HOST:PORT or ray://HOST:PORT, whose machines share the folder of the results. "
            "On cuda a job takes a GPU, on the CPU as many CPUs as torch has threads (OMP_NUM_THREADS).",
        ),
    ] = None,
) -> None:
    """Train, measure and store. Ctrl-C, SIGTERM and SIGHUP save; --resume goes on, bit for bit."""
    try:
        found = dict.fromkeys(map(find, names))
        chosen = [experiment.resized(runs, epochs, quick=quick) for experiment in found]
    except KeyError as error:
        _fail(str(error.args[0]))
    except ValueError as error:
        _fail(f"--runs: {error}")
    place, only = _device(device), as_utf8(only)
    if ray is not None:
        _check_ray(ray)
    with interrupts.noted() as interrupted:
        for experiment in chosen:
            command = _command(experiment.name, runs, epochs, device, out, quick, only, ray)
            going_on = f"To go on:\n    {shlex.join([*command, '--resume'])}"
            folder, asked = Folder(out, experiment.name), _matching(experiment, only)
            try:
                with _engine(ray, place) as run_jobs:
                    folder.open(experiment, place, command, resume=resume)
                    with display.watch(experiment, Console()) as screen:
                        complete = run_jobs(experiment, folder, place, screen, interrupted, only)
            except (ClusterError, StoreError, DataError) as error:
                _fail(str(error))
            except KeyboardInterrupt:
                _say(f"Stopped at once, without what came after the last save. {going_on}")
                raise typer.Exit(interrupted.status) from None
            if not complete:
                _say(f"Stopped and saved. {going_on}")
                raise typer.Exit(interrupted.status)
            if elsewhere := [job.name for job in asked if not folder.done(job)]:
                _say(f"{experiment.name}: other processes are at {'; '.join(elsewhere)}")
            _say(f"{experiment.name}: results in {folder.path}")
    _say(f"To read them:\n    {shlex.join(['colangevin', 'report', str(out)])}")


def _check_ray(address: str) -> None:
    if not cluster.is_address(address):
        raise typer.BadParameter(
            f"'{address}': must be auto, HOST:PORT or ray://HOST:PORT, or be left out.", param_hint="--ray"
        )
    try:
        cluster.ray()
    except ModuleNotFoundError as error:
        _fail(str(error))


@contextmanager
def _engine(ray: str | None, device: torch.device) -> Iterator[Callable[..., bool]]:
    """What runs the jobs: this process, or a cluster of Ray."""
    if ray is None:
        yield runner.run
        return
    with cluster.connected(ray, device):
        yield tasks.run


def _matching(experiment: Experiment, only: str) -> list[Job]:
    """The jobs that are asked for."""
    found = [job for job in jobs(experiment) if fnmatchcase(job.name, only)]
    if not found:
        names = "\n".join(f"    {job.name}" for job in jobs(experiment))
        _fail(f"--only '{only}' matches no job of {experiment.name}. Its jobs are:\n{names}")
    return found


def _command(
    name: str,
    runs: int | None,
    epochs: int | None,
    device: str | None,
    out: Path,
    quick: bool,
    only: str,
    ray: str | None,
) -> list[str]:
    """The words that ask for one experiment in this size."""
    options = {"--runs": runs, "--epochs": epochs, "--device": device, "--out": out}
    words = [word for key, value in options.items() if value is not None for word in (key, str(value))]
    words += ["--quick"] if quick else []
    words += ["--only", only] if only != "*" else []
    words += [] if ray is None else ["--ray"] if ray == cluster.LOCAL else ["--ray", ray]
    return ["colangevin", "run", name, *words]


def _device(name: str | None) -> torch.device:
    cuda = torch.cuda.is_available()
    if name is None:
        name = "cuda" if cuda else "cpu"
    if name not in ("cpu", "cuda"):
        raise typer.BadParameter(f"'{name}': must be cpu or cuda.", param_hint="--device")
    if name == "cuda" and not cuda:
        raise typer.BadParameter("torch finds no CUDA device here; use cpu.", param_hint="--device")
    return torch.device(name)


@app.command("report")
def write_report(
    folder: Annotated[Path, typer.Argument(help="Folder of the results.", metavar="DIR")],
) -> None:
    """Write report.html, report.md and the figures as SVG into the folder of the results."""
    from colangevin.experiments import report  # here, because what draws takes seconds to import

    try:
        page = report.write(folder)
        lines = report.headlines(folder)
    except StoreError as error:
        _fail(str(error))
    for line in lines:
        _say(line)
    _say(f"All of it, with pictures:\n{page.resolve()}")
