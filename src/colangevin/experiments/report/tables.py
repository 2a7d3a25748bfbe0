"""The tables of a report, as rows of text."""

from collections.abc import Sequence
from dataclasses import dataclass

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.judging.summaries import summary
from colangevin.experiments.judging.verdicts import CONFIDENCE, FEWEST_RUNS, Finding, Verdict
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settled import Evidence, Settled, few

__all__ = [
    "METHOD",
    "Table",
    "claims",
    "difference",
    "evidence",
    "facts",
    "numbers",
    "ours",
    "paper_claims",
    "readings",
    "verdict",
]

#: how a claim is tested, in words
METHOD = (
    "A claim is tested by the differences between a method and its baseline, of several the best, run by "
    f"run on the same data. The interval is a {CONFIDENCE:.0%} bootstrap interval of their mean, or of their "
    "ratio for the curvature and the time. The claim holds when the interval lies on the side it says, of "
    "its margin where it has one. It does not hold when it lies on the other, and is undecided when it does "
    f"neither or there are fewer than {FEWEST_RUNS} runs. A claim about every one of several settings holds "
    "when it holds in all, and does not hold when it does not in one. Only the direction is tested; the "
    "paper's numbers stand beside ours. "
    "Every claim is decided in one reading of the paper, which is named; other readings and searches are "
    "evidence and decide nothing. Numbers are means over runs ± standard deviation; those of the curvature "
    "are over all points of all boundaries, as in the paper."
)

_INTERVAL = f"difference, {CONFIDENCE:.0%} interval"


@dataclass(frozen=True)
class Table:
    """Cells of text; the first column is a name, the others are numbers or words."""

    head: list[str]
    rows: list[list[str]]


def paper_claims(claims: Sequence[Settled]) -> Table:
    """The claims of the paper, each once: its words and numbers beside ours."""
    rows = [
        [
            each.claim.source,
            each.claim.text + (f" [{each.note}]" if each.note else ""),
            each.claim.main.experiment,
            each.claim.numbers or "–",
            *(_numbers_of(each.finding) if each.finding else ["–", "–", "0"]),
            verdict(each.verdict, each.why),
        ]
        for each in claims
    ]
    return Table(["source", "claim", "tested in", "paper", "ours", _INTERVAL, "runs", "verdict"], rows)


def readings(claims: Sequence[Settled]) -> Table:
    """How the paper is read in the experiments that decide its claims."""
    mains = dict.fromkeys(each.claim.main for each in claims)
    return Table(["experiment", "reading"], [[main.experiment, main.words] for main in mains])


def evidence(found: Sequence[Evidence]) -> Table:
    """Comparisons: of the settings, other readings and searches of one claim, or of no claim of the paper."""
    rows = []
    for each in found:
        claim = each.finding.claim
        words = "; ".join(filter(None, (each.where, "" if claim.of else claim.text)))
        why = verdict(each.finding.verdict, few(each.finding.runs))
        rows.append([each.experiment, words or "–", *_numbers_of(each.finding), why])
    return Table(["experiment", "what", "ours", _INTERVAL, "runs", "verdict"], rows)


def claims(result: Result) -> Table:
    """Every comparison of an experiment: the paper's words and numbers beside ours."""
    rows = []
    for finding in result.findings:
        claim = finding.claim
        notes = "".join(f" [{each}]" for each in (claim.reading, claim.part) if each)
        why = verdict(finding.verdict, few(finding.runs))
        rows.append([claim.source, claim.text + notes, claim.paper or "–", *_numbers_of(finding), why])
    return Table(["source", "claim", "paper", "ours", _INTERVAL, "runs", "verdict"], rows)


def verdict(word: Verdict, why: str) -> str:
    """A verdict, with its reason where it is none."""
    return f"{word} ({why})" if why else word


def difference(finding: Finding) -> str:
    """The difference or the ratio with its interval."""
    measure = MEASURES[finding.claim.measure]

    def text(value: float) -> str:
        if value != value:  # of a single run there is no interval
            return "–"
        return measure.format(value) if measure.decades else f"{value:+.{measure.digits}f}"

    mark = "× " if measure.decades else ""
    return f"{mark}{text(finding.difference)} [{text(finding.low)}, {text(finding.high)}]"


def ours(finding: Finding) -> str:
    """What is measured, and the means of the method and of the baseline."""
    measure = MEASURES[finding.claim.measure]
    unit = f" {measure.unit}" if measure.unit else ""
    numbers = [f"{measure.format(value)}{unit}" for value in (finding.method_mean, finding.baseline_mean)]
    return f"{finding.claim.measure}: {finding.claim.method} {numbers[0]}, {finding.baseline} {numbers[1]}"


def _numbers_of(finding: Finding) -> list[str]:
    return [ours(finding), difference(finding), str(finding.runs)]


def numbers(result: Result, each: PartResult) -> Table:
    """Every method of a part: what it came to, beside the paper's numbers where it prints them."""
    measures = [name for name in MEASURES if name in each.values]
    lost, partial = any(each.lost), not each.done.all()
    head = ["method"]
    printed = {
        name for name in measures if any(result.reported(each.part, method, name) for method in each.methods)
    }
    for name in measures:
        unit = MEASURES[name].unit
        head.append(name + (f", {unit}" if unit else ""))
        if name in printed:
            head.append("paper")
    head += ["violation", *(["runs"] if partial else []), *(["diverged runs"] if lost else [])]
    rows = []
    for number, method in enumerate(each.methods):
        if not each.done[number].any():
            continue
        row = [method]
        for name in measures:
            row.append(summary(name, each.values, number))
            if name in printed:
                row.append(result.reported(each.part, method, name) or "–")
        constrained = each.part.methods[number].constrained
        row.append(f"{each.violation[number]:.0e}" if constrained else "–")
        row += [str(each.done[number].sum())] if partial else []
        rows.append(row + ([str(each.lost[number])] if lost else []))
    return Table(head, rows)


def facts(result: Result) -> list[tuple[str, str]]:
    """What was run, where and by what."""
    run, experiment = result.run, result.experiment
    seconds = sum(run.seconds.values())
    commit = f", commit {run.commit[:10]}{'+' * run.commit.endswith('+')}" if run.commit else ""
    return [
        (
            "size",
            f"{experiment.runs} run{'' if experiment.runs == 1 else 's'} of each method, "
            f"{experiment.epochs:,} epochs, seed {experiment.seed}",
        ),
        *([("small form", _sizes(experiment))] if "--quick" in run.command.split() else []),
        ("machine", f"{run.device}, {run.machine.get('platform')}"),
        ("software", f"colangevin {run.version}{commit}, torch {run.torch}"),
        ("training time", f"{seconds:.0f} s"),
        *([("not complete", _named(result.missing))] if result.missing else []),
    ]


def _sizes(experiment: Experiment) -> str:
    """How the small form's problems differ from what the experiment says of itself."""
    sizes = [
        f"{name} {size:,}" if isinstance(size, int) else f"{name} {size}"
        for name, size in experiment.quick.sizes
    ]
    return ", ".join(sizes) or "fewer runs and epochs"


def _named(missing: list[str]) -> str:
    """Names, as long as they are few."""
    few = 12
    return "; ".join(missing[:few]) + (f"; {len(missing) - few} more" if len(missing) > few else "")
