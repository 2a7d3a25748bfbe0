import math
from dataclasses import replace

import numpy as np

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.catalogue.source_code import ADAMW, ROWS
from colangevin.experiments.catalogue.source_code_searches import SEARCH
from colangevin.experiments.report import figures, rates
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.results import Result, load
from colangevin.experiments.storage.record import Record
from tests.experiments.small_run import run_all

SMALL = ByteProblem("python", 4, 16, steps=1, held_out=64, layers=1, width=8, heads=2)

ADAM, ROW = ADAMW.lr, ROWS.lr


def searched(*widths):
    """Two methods at two rates, as the catalogue has them, of seconds."""
    parts = []
    for method in (ADAMW, ROWS):
        for width in widths:
            each = (replace(method, name=f"rate × {k}", lr=k * method.lr) for k in (1, 2))
            setting = f", {width} wide" if len(widths) > 1 else ""
            parts.append(NetworkPart(method.name + setting, replace(SMALL, width=width), tuple(each)))
    claims = tuple(
        Claim("text", "best", "validation bits", "rate × 1", ("rate × 2",), "lower", part=part.name)
        for part in parts
    )
    about = {"title": "tiny", "covers": ("rates",), "about": "For tests.", "quick": Quick(1, 1)}
    return Experiment("decoder-search", parts=tuple(parts), runs=1, epochs=2, claims=claims, **about)


def result(experiment, values):
    """The results of an experiment, given what counts of every method of every part."""
    parts = [
        PartResult(
            part,
            {"validation bits": np.array(table, dtype=float)[:, None]},
            [0, 0],
            [0.0, 0.0],
            {},
            np.array([[value is not None] for value in table]),
            [],
        )
        for part, table in zip(experiment.parts, values, strict=True)
    ]
    run = Record(1, "0", None, "2", "cpu", 1, {}, "colangevin", {})
    return Result(experiment, run, parts, [])


def test_a_trial_is_a_method_with_what_its_rates_came_to():
    found = rates.trials(result(searched(8), [(1.5, 1.25), (1.0, None)]))
    assert found[0] == ("AdamW", "", 8, [ADAM, 2 * ADAM], [1.5, 1.25])
    assert found[1][3:] == ([ROW], [1.0])
    assert [trial.best for trial in found] == [2 * ADAM, ROW]


def test_a_rate_that_diverged_is_never_the_best():
    found = rates.trials(result(searched(8), [(math.nan, 1.25), (math.nan, math.nan)]))
    assert found[0].best == 2 * ADAM
    assert math.isnan(found[1].best)


def test_methods_that_differ_in_more_than_the_rate_are_no_trials(unfinished):
    assert rates.trials(load(unfinished)[0]) == []
    mixed = searched(8)
    parts = tuple(replace(part, methods=(ADAMW, ROWS)) for part in mixed.parts)
    assert rates.trials(result(replace(mixed, parts=parts, claims=()), [(1, 2), (1, 2)])) == []


def test_the_search_of_the_catalogue_has_trials():
    values = [tuple(range(len(part.methods))) for part in SEARCH.parts]
    found = rates.trials(result(SEARCH, values))
    assert [trial.method for trial in found] == [part.name.partition(", ")[0] for part in SEARCH.parts]
    for trial in found:
        assert sorted(trial.rates) == trial.rates
        assert trial.best == trial.rates[0]


def test_a_panel_for_each_method_and_a_line_for_each_setting():
    found = rates.trials(result(searched(8, 16, 32), 6 * [(2.0, 1.0)]))
    figure = rates.over_rates(found, "validation bits")
    seen = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in seen] == ["AdamW", "Muon on row spheres"]
    for axes, expected in zip(seen, ((ADAM, 2 * ADAM), (ROW, 2 * ROW)), strict=True):
        assert [tuple(line.get_xdata()) for line in axes.lines] == 3 * [expected]
        assert [line.get_label() for line in axes.lines] == ["8 wide", "16 wide", "32 wide"]
        assert [label.get_text() for label in axes.get_xticklabels()] == [f"{rate:g}" for rate in expected]


def test_the_best_rate_over_the_width():
    values = [(1.0, 2.0), (2.0, 1.0), (2.0, 1.0), *3 * [(1.0, 2.0)]]
    figure = rates.best_over_width(rates.trials(result(searched(8, 16, 32), values)))
    adam, rows = figure.axes[0].lines
    assert adam.get_ydata().tolist() == [ADAM, 2 * ADAM, 2 * ADAM]
    assert rows.get_ydata().tolist() == 3 * [ROW]
    assert np.abs(np.log2(adam.get_xdata()) - [3, 4, 5]).max() < 0.1
    assert rates.best_over_width(rates.trials(result(searched(8), values[:2]))) is None


def test_methods_of_one_width_have_no_place_among_the_best_rates_over_the_width():
    found = rates.trials(result(searched(8, 16), 4 * [(1.0, 2.0)]))
    figure = rates.best_over_width(found[:3])
    assert [trial.method for trial in found[:3]] == ["AdamW", "AdamW", "Muon on row spheres"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["AdamW"]


def test_all_of_a_search_is_drawn(tmp_path):
    drawn = figures.draw(load(run_all(tmp_path, searched(8, 16))))
    kinds = {name.rpartition(".svg")[0].rpartition(".")[2] for name in drawn}
    assert kinds == {"parts", "rates", "widths", "curves", "spectra", "norms"}
    assert "validation, bits a byte" in drawn["decoder-search.adamw--8-wide.curves.svg"].decode()
    assert "norm of a row" in drawn["decoder-search.adamw--8-wide.norms.svg"].decode()
