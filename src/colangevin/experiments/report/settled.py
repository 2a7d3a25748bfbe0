"""What became of the claims of the paper: each once, with what else there is about it as evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colangevin.experiments.catalogue import index
from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.paper import PAPER, PaperClaim
from colangevin.experiments.judging.verdicts import FEWEST_RUNS, Finding, Verdict, judge_on_average, weakest
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settings import listed

__all__ = ["Evidence", "Settled", "besides", "counted", "few", "settled"]


@dataclass(frozen=True)
class Evidence:
    """A comparison that says something about a claim and does not decide it alone.

    Attributes:
        experiment: its name.
        where: setting and reading in words.
        finding: what it came to.
    """

    experiment: str
    where: str
    finding: Finding


@dataclass(frozen=True)
class Settled:
    """A claim of the paper and what became of it.

    Attributes:
        claim: the claim.
        verdict: in its main reading.
        why: the reason of a verdict that is none for want of runs or settings; empty otherwise.
        finding: whose interval it is; None where nothing was run.
        note: of several settings, which came to what and whose interval it is; empty otherwise.
        evidence: its settings, where they are several, then other readings and searches.
    """

    claim: PaperClaim
    verdict: Verdict
    why: str
    finding: Finding | None
    note: str
    evidence: tuple[Evidence, ...]


def settled(results: Sequence[Result]) -> list[Settled]:
    """Every claim about which there are results, in the order of the paper's experiments.

    Args:
        results: of experiments.

    Returns:
        One for each claim whose experiment was run at least in part, or for which there is evidence.
    """
    by_name = {result.experiment.name: result for result in results}
    found = []
    for claim in PAPER:
        main = by_name.get(claim.main.experiment)
        evidence = list(_evidence(claim, results))
        if main or evidence:
            found.append(_settle(claim, main, evidence))
    return found


def besides(results: Sequence[Result]) -> list[Evidence]:
    """Comparisons that are about no claim of the paper, the catalogue's own questions."""
    return [
        Evidence(result.experiment.name, finding.claim.part or "", finding)
        for result in results
        for finding in result.findings
        if not finding.claim.of
    ]


def few(runs: int) -> str:
    """Why there is no verdict, where there are too few runs; empty where there are enough."""
    if runs >= FEWEST_RUNS:
        return ""
    return f"{runs or 'no'} run{'' if runs == 1 else 's'}"


def counted(claims: Sequence[Settled]) -> str:
    """How many claims came to what."""
    verdicts = [each.verdict for each in claims]
    holds, fails, open_ = (verdicts.count(word) for word in ("holds", "does not hold", "undecided"))
    short = sum(bool(each.why) for each in claims)
    reason = f", {short} of these for want of runs" if short else ""
    return (
        f"Claims of the paper: {len(verdicts)}. They hold: {holds}, do not hold: {fails}, "
        f"undecided: {open_}{reason}."
    )


def _evidence(claim: PaperClaim, results: Sequence[Result]) -> Iterator[Evidence]:
    for result in results:
        for finding in result.findings:
            if finding.claim.of == claim.key:
                where = ", ".join(filter(None, (finding.claim.reading, finding.claim.part)))
                yield Evidence(result.experiment.name, where, finding)


def _settle(claim: PaperClaim, main: Result | None, evidence: list[Evidence]) -> Settled:
    wanted = len(_settings(index.find(claim.main.experiment).claims, claim))
    deciding = [each for each in evidence if _decides(each.finding.claim, each.experiment, claim)]
    others = [each for each in evidence if each not in deciding]
    if not main or not deciding:
        return Settled(claim, "undecided", few(0), None, "", tuple(others))
    findings = [each.finding for each in deciding]
    finding = weakest(findings) if claim.settings == "every" else _average(claim, main)
    verdict, why = finding.verdict, few(finding.runs)
    # what does not hold in one setting does not hold in every one
    if len(findings) < wanted and (claim.settings, verdict) != ("every", "does not hold"):
        verdict, why = "undecided", f"{len(findings)} of {wanted} settings"
    if wanted == 1:
        return Settled(claim, verdict, why, finding, "", tuple(others))
    return Settled(claim, verdict, why, finding, _note(claim, findings, finding), (*deciding, *others))


def _settings(claims: Sequence[Claim], claim: PaperClaim) -> list[Claim]:
    """The comparisons of the claim's own experiment that decide it."""
    return [each for each in claims if each.of == claim.key and not each.reading]


def _decides(test: Claim, experiment: str, claim: PaperClaim) -> bool:
    return experiment == claim.main.experiment and not test.reading


def _average(claim: PaperClaim, main: Result) -> Finding:
    """Over the settings of which there is a finding."""
    parts = {each.part.name: each for each in main.parts}
    tests = _settings([finding.claim for finding in main.findings], claim)
    places = [parts[main.experiment.part(test.part).name] for test in tests]
    return judge_on_average(
        [(test, each.methods, each.values) for test, each in zip(tests, places, strict=True)]
    )


def _note(claim: PaperClaim, findings: list[Finding], shown: Finding) -> str:
    if claim.settings == "average":
        return f"over {_listed(findings)}"
    verdicts = dict.fromkeys(finding.verdict for finding in findings)
    groups = {word: [each for each in findings if each.verdict == word] for word in verdicts}
    split = [f"{word}: {_listed(group)}" for word, group in groups.items()] if len(groups) > 1 else []
    return "; ".join([*split, f"the interval is the weakest, that of {_listed([shown])}"])


def _listed(findings: list[Finding]) -> str:
    """Their settings in words; without settings, their methods."""
    names = [finding.claim.part or finding.claim.method for finding in findings]
    return listed(names, len(names))
