import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.judging.curves import from_curves
from colangevin.experiments.judging.summaries import readable, summary
from colangevin.experiments.judging.verdicts import (
    _student_quantile,
    interval,
    judge,
    judge_on_average,
    weakest,
)

METHODS = ["ours", "weak", "strong"]


def claim(better="higher", measure="test accuracy", baselines=("weak", "strong")):
    return Claim("Figure 0", "text", measure, "ours", baselines, better)


def table(ours, weak, strong, measure="test accuracy"):
    return {measure: np.array([ours, weak, strong], dtype=float)}


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 99])
def test_student_quantile(freedom):
    assert _student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-4)


@pytest.mark.parametrize("n", [5, 10, 100])
def test_interval_covers_as_often_as_it_says(n):
    random = np.random.default_rng(1)
    trials = 400
    hits = 0
    for _ in range(trials):
        low, high = interval(random.normal(size=n))
        hits += low <= 0 <= high
    # 95 % of 400 are 380; four standard deviations, 4.4 each, and a little for few values
    assert hits >= 380 - 18 - (12 if n == 5 else 0)


def test_interval_of_one_value_is_unknown():
    assert all(math.isnan(end) for end in interval(np.array([1.0])))


def test_holds_when_ahead_of_the_best_baseline():
    noise = np.linspace(-1, 1, 6)
    finding = judge(claim(), METHODS, table(95 + noise, 60 + noise, 90 - noise))
    assert finding.verdict == "holds"
    assert finding.baseline == "strong"
    assert finding.difference == pytest.approx(5)
    assert 0 < finding.low < 5 < finding.high
    assert finding.runs == 6


def test_does_not_hold_when_behind():
    noise = np.linspace(-1, 1, 6)
    assert judge(claim(), METHODS, table(80 + noise, 60 + noise, 90 - noise)).verdict == "does not hold"


def test_undecided_when_it_may_go_either_way_or_runs_are_few():
    wobble = np.array([-3.0, 3, -3, 3, -3, 3])
    assert judge(claim(), METHODS, table(90 + wobble, [60.0] * 6, [90.0] * 6)).verdict == "undecided"
    assert judge(claim(), METHODS, table([95.0] * 4, [60.0] * 4, [90.0] * 4)).verdict == "undecided"
    assert judge(claim(), METHODS, table([95.0], [60.0], [90.0])).verdict == "undecided"


def test_lower_turns_everything_round():
    noise = np.linspace(-0.01, 0.01, 6)
    values = table(0.2 + noise, 0.9 + noise, 0.4 - noise, "test loss")
    finding = judge(claim("lower", "test loss"), METHODS, values)
    assert (finding.verdict, finding.baseline) == ("holds", "strong")
    assert finding.difference == pytest.approx(-0.2)


def test_the_best_baseline_is_the_best_also_when_the_claim_says_that_the_method_is_behind_it():
    noise = np.linspace(-0.01, 0.01, 6)
    values = table(0.5 + noise, 0.9 - noise, 0.4 - noise, "test loss")
    finding = judge(claim("higher", "test loss"), METHODS, values)
    assert (finding.verdict, finding.baseline) == ("holds", "strong")


def test_over_settings_a_run_counts_once_by_its_mean():
    wobble = np.array([-3.0, 3, -3, 3, -3, 3])
    first, second = claim(), replace(claim(), part="other")
    values = [table(91 + wobble, [60.0] * 6, [90.0] * 6), table(92 - wobble, [60.0] * 6, [90.0] * 6)]
    alone = [judge(first, METHODS, each).verdict for each in values]
    assert alone == ["undecided", "undecided"]
    found = judge_on_average(
        [(each, METHODS, numbers) for each, numbers in zip((first, second), values, strict=True)]
    )
    assert (found.verdict, found.runs) == ("holds", 6)
    assert found.difference == pytest.approx(1.5)
    assert found.low == pytest.approx(1.5)  # the settings' wobbles cancel within every run
    assert (found.method_mean, found.baseline_mean) == (pytest.approx(91.5), 90)


def test_a_run_that_one_setting_lacks_is_left_out_of_the_average():
    values = [table([9.0] * 6, [1.0] * 6, [2.0] * 6), table([9.0] * 5 + [np.nan], [1.0] * 6, [2.0] * 6)]
    assert judge_on_average([(claim(), METHODS, each) for each in values]).runs == 5


def test_of_every_setting_the_weakest_decides():
    noise = np.linspace(-0.01, 0.01, 6)
    wobble = np.array([-3.0, 3, -3, 3, -3, 3])

    def found(lead, spread=noise):
        return judge(claim(), METHODS, table(90 + lead + spread, [60.0] * 6, [90.0] * 6))

    holds, clearly, open_, fails = found(1), found(5), found(0, wobble), found(-1)
    assert [each.verdict for each in (holds, open_, fails)] == ["holds", "undecided", "does not hold"]
    assert weakest([clearly, holds]) is holds
    assert weakest([holds, open_, clearly]) is open_
    assert weakest([open_, fails, holds]) is fails
    worse = found(-2)
    assert weakest([fails, worse]) is worse
    one = judge(claim(), METHODS, table([95.0], [60.0], [90.0]))
    assert weakest([open_, one]) is one


def test_of_every_setting_the_weakest_is_that_with_the_highest_end_when_the_claim_says_lower():
    noise = np.linspace(-0.01, 0.01, 6)
    less, more = (
        judge(claim("lower", "test loss"), METHODS, table(lead + noise, [3.0] * 6, [2.0] * 6, "test loss"))
        for lead in (1.0, 0.5)
    )
    assert weakest([more, less]) is less


def test_what_spans_decades_is_compared_by_ratio():
    spread = np.array([1.0, 10, 100, 3, 30, 5])
    values = table(spread, 1e6 * spread, 4 * spread, "curvature")
    finding = judge(claim("lower", "curvature"), METHODS, values)
    assert (finding.verdict, finding.baseline) == ("holds", "strong")
    assert finding.difference == pytest.approx(0.25)
    assert finding.method_mean == pytest.approx(stats.gmean(spread))


def test_runs_without_a_number_are_left_out_and_said_so():
    values = table([1.0] * 5 + [np.nan], [9.0] * 6, [2.0] * 6, "test loss")
    assert judge(claim("lower", "test loss"), METHODS, values).runs == 5


def test_a_baseline_without_any_number_is_the_worst():
    values = table([1.0] * 6, [np.nan] * 6, [2.0] * 6, "test loss")
    assert judge(claim("lower", "test loss"), METHODS, values).baseline == "strong"


def test_measures_of_curves():
    accuracy = np.array([[[0.5]], [[0.9]], [[0.7]]])
    loss = np.array([[[0.6]], [[0.2]], [[0.5]]])
    names = ("train_loss", "train_accuracy", "largest_first_weight", "largest_output_weight")
    curves = {**dict.fromkeys(names, loss), "test_loss": loss, "test_accuracy": accuracy}
    values = from_curves(curves)
    assert set(values) <= set(MEASURES)
    assert values["test accuracy"][0, 0] == pytest.approx(70)
    assert values["test accuracy over training"][0, 0] == pytest.approx(70)
    assert values["rise of the test loss"][0, 0] == pytest.approx(0.3)


def test_curvature_is_summed_up_over_all_points_of_all_runs():
    one, other = np.array([1.0, 2.0, 9.0]), np.array([4.0])
    values = {
        "curvature points": np.array([[3.0, 1.0]]),
        "curvature": np.array([[one.mean(), other.mean()]]),
        "curvature std": np.array([[one.std(), other.std()]]),
        "curvature max": np.array([[9.0, 4.0]]),
    }
    together = np.concatenate((one, other))
    assert summary("curvature", values, 0) == f"{together.mean():.3g}"
    assert summary("curvature std", values, 0) == f"{together.std():.3g}"
    assert summary("curvature max", values, 0) == "9"


def test_summary_of_runs():
    values = {"test loss": np.array([[1.0, 2.0], [1.0, np.nan], [np.nan, np.nan]])}
    assert summary("test loss", values, 0) == "1.500 ± 0.707"
    assert summary("test loss", values, 1) == "1.000"
    assert summary("test loss", values, 2) == "not finite"


def test_losses_that_left_all_bounds_do_not_hide_the_others():
    losses = np.array([[5.0, 7.0, 6.0], [4.0, np.nan, np.inf]])
    assert readable(losses) is None
    losses[1, 1:] = 3e3, 1e10
    assert readable(losses) == (3.6, 11.0)


@pytest.mark.parametrize("losses", [[1e-3, 0.9], [np.nan, np.inf], [1e3, 1e10]])
def test_small_losses_beside_large_ones_and_such_as_all_left_are_shown_whole(losses):
    assert readable(np.array(losses)) is None


@pytest.mark.parametrize(
    ("better", "margin", "lead", "verdict"),
    [
        ("higher", 2.0, 3.0, "holds"),
        ("higher", 4.0, 3.0, "does not hold"),
        ("higher", -4.0, -3.0, "holds"),
        ("lower", 2.0, 3.0, "holds"),
        ("lower", 4.0, 3.0, "does not hold"),
        ("lower", -4.0, -3.0, "holds"),
        ("lower", -2.0, -3.0, "does not hold"),
        ("lower", 3.0, 3.0, "undecided"),
    ],
)
def test_a_margin_moves_what_a_lead_is_held_against(better, margin, lead, verdict):
    """A lead is in the direction that the claim calls better."""
    sign = 1 if better == "higher" else -1
    noise = np.linspace(-0.5, 0.5, 6)
    asked = replace(claim(better, baselines=("strong",)), margin=margin)
    finding = judge(asked, METHODS, table(90 + sign * lead + noise, 60 + noise, 90 - noise))
    assert finding.verdict == verdict
    assert finding.difference == pytest.approx(sign * lead)
