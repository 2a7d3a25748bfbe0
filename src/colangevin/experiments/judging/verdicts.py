"""Whether a claim of the paper holds: paired differences on the same data, an interval, a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.measures import MEASURES

__all__ = [
    "CONFIDENCE",
    "FEWEST_RUNS",
    "Finding",
    "Verdict",
    "interval",
    "judge",
    "judge_on_average",
    "weakest",
]

Array = NDArray[Any]
Verdict = Literal["holds", "does not hold", "undecided"]

CONFIDENCE = 0.95
#: with fewer runs there is no verdict
FEWEST_RUNS = 5
_RESAMPLES = 20_000
_WEAKEST_FIRST = ("does not hold", "undecided", "holds")


@dataclass(frozen=True)
class Finding:
    """What became of a claim.

    Attributes:
        claim: the claim.
        baseline: which of its baselines was the best.
        method_mean: of the method over runs, geometric for measures that span decades.
        baseline_mean: likewise.
        difference: method minus baseline, or their ratio for measures that span decades.
        low: lower end of its interval.
        high: upper end.
        runs: pairs that went in.
        verdict: whether the interval lies on the side of the margin that the claim says.
    """

    claim: Claim
    baseline: str
    method_mean: float
    baseline_mean: float
    difference: float
    low: float
    high: float
    runs: int
    verdict: Verdict


def judge(claim: Claim, methods: Sequence[str], values: Mapping[str, Array]) -> Finding:
    """Compare the method of a claim with the best of its baselines, run by run.

    Args:
        claim: the claim.
        methods: names, in the order of the values.
        values: of shape (methods, runs) by measure.

    Returns:
        The finding.
    """
    return _found(claim, *_compared(claim, methods, values))


def judge_on_average(settings: Sequence[tuple[Claim, Sequence[str], Mapping[str, Array]]]) -> Finding:
    """The same over several settings: what counts of a run is its mean over all of them.

    Args:
        settings: of each the claim, and methods and values as in :func:`judge`.

    Returns:
        The finding, about no setting in particular.
    """
    baselines, ours, theirs = zip(*(_compared(*each) for each in settings), strict=True)
    baseline = " or ".join(dict.fromkeys(baselines))
    return _found(
        replace(settings[0][0], part=None), baseline, np.mean(ours, axis=0), np.mean(theirs, axis=0)
    )


def weakest(findings: Sequence[Finding]) -> Finding:
    """Of a claim about every one of several settings the finding that decides it.

    Args:
        findings: one for each setting.

    Returns:
        One where it does not hold; else one without a verdict; else the one with the smallest lead.
    """

    def strength(finding: Finding) -> tuple[int, float]:
        end = finding.low if finding.claim.better == "higher" else -finding.high
        return _WEAKEST_FIRST.index(finding.verdict), -math.inf if math.isnan(end) else end

    return min(findings, key=strength)


def _compared(claim: Claim, methods: Sequence[str], values: Mapping[str, Array]) -> tuple[str, Array, Array]:
    """The best baseline, and the numbers of the method and of that baseline, run by run."""
    measure = MEASURES[claim.measure]
    table = values[claim.measure].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(table) if measure.decades else table
    sign = 1 if measure.higher_is_better else -1
    rows = {name: table[methods.index(name)] for name in (claim.method, *claim.baselines)}
    baseline = max(claim.baselines, key=lambda name: sign * _finite_mean(rows[name], worst=-sign * math.inf))
    return baseline, rows[claim.method], rows[baseline]


def _found(claim: Claim, baseline: str, ours: Array, theirs: Array) -> Finding:
    back = math.exp if MEASURES[claim.measure].decades else float
    differences = ours - theirs
    paired = np.isfinite(differences)
    differences = differences[paired]
    low, high = interval(differences)
    verdict: Verdict = "undecided"
    if len(differences) >= FEWEST_RUNS:
        sign = 1 if claim.better == "higher" else -1
        least = sign * claim.margin
        ahead, behind = (low > least, high < least) if sign > 0 else (high < least, low > least)
        verdict = "holds" if ahead else "does not hold" if behind else "undecided"
    return Finding(
        claim,
        baseline,
        back(_finite_mean(ours[paired])),
        back(_finite_mean(theirs[paired])),
        back(_finite_mean(differences)),
        back(low),
        back(high),
        len(differences),
        verdict,
    )


def _finite_mean(values: Array, worst: float = math.nan) -> float:
    """Mean of what is finite; ``worst`` when nothing is."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else worst


def interval(differences: Array) -> tuple[float, float]:
    """Bootstrap interval of a mean, widened for few values.

    The plain percentile interval is too narrow for few values; the expanded one of Hesterberg (2015, "What
    teachers should know about the bootstrap") widens the percentiles so that for normal data it is Student's.

    Args:
        differences: one for each run.

    Returns:
        Lower and upper end; NaN for fewer than two values.
    """
    n = len(differences)
    if n < 2:
        return math.nan, math.nan
    random = np.random.default_rng(0)
    means = differences[random.integers(n, size=(_RESAMPLES, n))].mean(1)
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * _student_quantile((1 + CONFIDENCE) / 2, n - 1))
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t above the median: half of the density, summed up on a fine grid."""
    # x = tan(u) brings the half line to a quarter circle, on which the density is cos(u)^(freedom - 1)
    u = np.linspace(0, math.pi / 2, 200_001)
    density = np.cos(u) ** (freedom - 1)
    mass = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return math.tan(float(np.interp(2 * probability - 1, mass / mass[-1], u))) * math.sqrt(freedom)
