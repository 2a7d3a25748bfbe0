"""Every claim of the paper once: which comparison decides it, and what is evidence."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from colangevin.experiments.catalogue.index import EXPERIMENTS, find
from colangevin.experiments.catalogue.paper import PAPER, comparison
from colangevin.experiments.judging.verdicts import judge
from colangevin.experiments.report.first_screen import first_screen
from colangevin.experiments.report.results import load
from colangevin.experiments.report.settled import besides, counted, settled

STORED = Path(__file__).parents[3] / "results"
WOBBLE = np.array([-1.0, 1, -1, 1, -1, 1])


def result(name, leads, runs=6):
    """An experiment of the catalogue as if it had run: every claim's method leads its baselines by this much.

    A lead of None is a setting that was not run.
    """
    found, parts = [], []
    for claim, lead in zip(find(name).claims, leads, strict=False):
        if lead is None:
            continue
        methods = [claim.method, *claim.baselines]
        mean, spread = lead if isinstance(lead, tuple) else (lead, 0.01)
        sign = 1 if claim.better == "higher" else -1
        ours = 50 + sign * mean + spread * WOBBLE[:runs]
        values = {claim.measure: np.stack([ours, *(np.full(runs, 50.0) for _ in claim.baselines)])}
        found.append(judge(claim, methods, values))
        part = find(name).part(claim.part)
        parts.append(SimpleNamespace(part=part, methods=methods, values=values))
    return SimpleNamespace(experiment=find(name), findings=found, parts=parts)


def of(key, *results):
    (found,) = (each for each in settled(results) if each.claim.key == key)
    return found


def test_what_the_main_reading_finds_is_the_verdict_and_other_readings_are_evidence():
    number = len(find("fashion-mnist").claims) // 2
    fashion = result("fashion-mnist", [0.0] + [1.0] * (number - 1) + [-1.0] * number)
    fashion.findings[0] = judge(
        fashion.findings[0].claim,
        [fashion.findings[0].claim.method, *fashion.findings[0].claim.baselines],
        {"test accuracy": np.stack([50 + WOBBLE, np.full(6, 50.0)])},
    )
    found = of("fig7.accuracy", fashion)
    assert (found.verdict, found.why) == ("undecided", "")
    assert [(each.where, each.finding.verdict) for each in found.evidence] == [
        ("h is the learning rate", "does not hold")
    ]
    assert of("fig7.loss", fashion).verdict == "holds"


def test_searches_are_evidence_and_decide_nothing():
    search = result("two-turn-decay", [5.0])
    found = of("fig1.accuracy", search)
    assert (found.verdict, found.why, found.finding) == ("undecided", "no runs", None)
    assert [(each.experiment, each.where) for each in found.evidence] == [
        ("two-turn-decay", "weight decay searched for")
    ]
    assert found.evidence[0].finding.verdict == "holds"


def test_too_few_runs_are_said_to_be_the_reason():
    assert of("figD3.accuracy", result("resnet34-overdamped", [1.0], runs=3)).why == "3 runs"
    assert of("figD3.accuracy", result("resnet34-overdamped", [1.0], runs=1)).why == "1 run"
    assert of("figD3.loss", result("resnet34-overdamped", [1.0])).why == "no runs"
    enough = of("figD3.accuracy", result("resnet34-overdamped", [(0.0, 1.0)]))
    assert (enough.verdict, enough.why) == ("undecided", "")


@pytest.mark.parametrize(
    ("leads", "verdict", "why", "difference"),
    [
        ([2.0, 3.0, 1.0, 4.0, 5.0], "holds", "", 1.0),
        ([2.0, (0.0, 1.0), 1.0, 4.0, 5.0], "undecided", "", 0.0),
        ([2.0, (0.0, 1.0), -1.0, 4.0, 5.0], "does not hold", "", -1.0),
        ([2.0, None, 1.0, 4.0, 5.0], "undecided", "4 of 5 settings", 1.0),
        ([2.0, None, -1.0, 4.0, 5.0], "does not hold", "", -1.0),
    ],
)
def test_a_claim_about_every_setting_is_as_strong_as_the_weakest(leads, verdict, why, difference):
    found = of("fig4.accuracy", result("four-turn", leads))
    assert (found.verdict, found.why) == (verdict, why)
    assert found.finding.difference == pytest.approx(difference, abs=1e-6)
    assert len(found.evidence) == len(leads) - leads.count(None)


def test_settings_are_listed_by_their_verdicts():
    found = of("fig4.accuracy", result("four-turn", [2.0, (0.0, 1.0), 1.0, 4.0, 5.0]))
    assert found.note == (
        "holds: 4, 6, 7 and 8 hidden layers; undecided: 5 hidden layers; the interval is the weakest, that "
        "of 5 hidden layers"
    )


def test_a_claim_about_the_average_is_judged_on_it():
    leads = [None] * 5 + [(0.5, 1.0), (0.5, -1.0)] * 3 + [(0.5, 0.01)]
    found = of("figD2.speed", result("four-turn", leads))
    assert (found.verdict, found.finding.runs) == ("holds", 6)
    assert found.finding.difference == pytest.approx(0.5)
    assert found.finding.claim.part is None
    missing = of("figD2.speed", result("four-turn", leads[:11]))
    assert (missing.verdict, missing.why) == ("undecided", "6 of 7 settings")


def test_questions_of_our_own_stand_apart():
    leads = [None, None, None, 1.0]
    (own,) = besides([result("resnet34", leads)])
    assert own.finding.claim.source == "not in the paper"
    page = first_screen([result("resnet34", leads)])
    assert "Not in the paper: 1 comparisons" in page


def test_an_unknown_claim_names_the_known_ones():
    with pytest.raises(
        KeyError, match=r"the paper makes no claim 'fig9.nothing'; its claims are fig1.accuracy"
    ):
        comparison("fig9.nothing", "a", ("b",))


@pytest.mark.parametrize("claim", PAPER, ids=lambda claim: claim.key)
def test_every_claim_is_decided_by_its_own_experiment(claim):
    mine = find(claim.main.experiment)
    deciding = [each for each in mine.claims if each.of == claim.key and not each.reading]
    assert deciding
    assert len({(each.part, each.method, each.baselines) for each in deciding}) == len(deciding)
    for each in deciding:
        assert (each.text, each.measure, each.better, each.paper) == (
            claim.text,
            claim.measure,
            claim.better,
            claim.numbers,
        )


def test_every_claim_is_made_once_and_ordered_as_the_experiments():
    assert len({claim.key for claim in PAPER}) == len({claim.text for claim in PAPER}) == len(PAPER)
    problems = list(dict.fromkeys(claim.main.problem for claim in PAPER))
    assert [claim.main.problem for claim in PAPER] == sorted(
        (claim.main.problem for claim in PAPER), key=problems.index
    )


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_comparison_is_about_a_claim_of_the_paper_or_says_that_it_is_not(experiment):
    keys = {claim.key for claim in PAPER}
    for each in experiment.claims:
        assert each.of in keys if each.of else each.source == "not in the paper"


def test_words_promise_no_more_than_the_direction_that_is_tested():
    for claim in PAPER:
        said = claim.text.partition(" (the paper:")[0]
        assert not any(word in said for word in (" far ", " clearly ", "strongly", "significant", " much "))


@pytest.fixture(scope="module")
def stored():
    return load(STORED)


def test_the_stored_results_are_asked_the_claims_of_today(stored):
    for each in stored:
        today = find(each.experiment.name).claims
        parts = {part.name for part in each.experiment.parts}
        assert set(each.experiment.claims) <= set(today)
        assert all(claim in each.experiment.claims for claim in today if claim.part in {None, *parts})


def test_results_that_no_claim_of_today_is_about_keep_their_own(folder):
    plain, tiny = load(folder)
    assert [claim.text for claim in tiny.experiment.claims] == ["o-CoLod is better.", "Less curved."]
    assert settled([plain, tiny])[0].finding is None


def test_every_claim_of_the_paper_has_a_row_on_the_first_screen(stored):
    page = first_screen(stored)
    claims = settled(stored)
    assert [each.claim for each in claims] == list(PAPER)
    assert counted(claims).startswith("Claims of the paper: 40. They hold: ")
    for each in claims:
        assert page.count(f'<tr id="{each.claim.key}">') == 1
        runs = each.finding.runs if each.finding else 0
        assert (each.verdict != "undecided") <= (runs >= 5)
        assert bool(each.why) == (runs < 5)


def test_what_is_undecided_without_a_reason_has_zero_within_its_interval(stored):
    for each in settled(stored):
        if each.verdict == "undecided" and not each.why:
            none = 1 if each.finding.claim.measure == "curvature" else 0
            assert each.finding.low <= none <= each.finding.high


def test_a_measure_that_was_not_measured_then_is_not_asked_for(stored):
    (two,) = (each for each in stored if each.experiment.name == "two-turn")
    part = two.parts[0]
    values = {name: table for name, table in part.values.items() if name != "curvature"}
    from colangevin.experiments.report.results import _asked

    asked = _asked(replace(two.experiment, claims=()), [replace(part, values=values)])
    assert {claim.measure for claim in asked} == {
        "test accuracy",
        "test loss",
        "rise of the test loss",
        "sharpest transition",
    }
