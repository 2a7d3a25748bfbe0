import dataclasses
import json
import math
from dataclasses import replace

import pytest

from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.index import EXPERIMENTS, find
from colangevin.experiments.catalogue.measures import MEASURES
from colangevin.experiments.catalogue.orthogonal_images import COLUD, PRINTED
from colangevin.experiments.storage.decoding import decode

ALL = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)


@ALL
def test_claims_and_numbers_refer_to_what_there_is(experiment):
    for part in experiment.parts:
        names = [method.name for method in part.methods]
        assert len(set(names)) == len(names)
    for claim in experiment.claims:
        names = {method.name for method in experiment.part(claim.part).methods}
        assert {claim.method, *claim.baselines} <= names
        assert claim.method not in claim.baselines
        assert claim.measure in MEASURES
        assert experiment.plane == "curvature" or not claim.measure.startswith(("curvature", "sharpest"))
    for each in experiment.reported:
        assert each.method in {method.name for method in experiment.part(each.part).methods}
        assert each.measure in MEASURES


@ALL
def test_all_parts_have_the_same_methods(experiment):
    # the report compares parts method by method
    names = {tuple(method.name for method in part.methods) for part in experiment.parts}
    assert len(names) == 1


@ALL
def test_parts_of_several_are_named_by_their_claims(experiment):
    if len(experiment.parts) > 1:
        assert all(claim.part is not None for claim in experiment.claims)


@ALL
def test_comes_back_from_json(experiment):
    stored = json.loads(json.dumps(dataclasses.asdict(experiment)))
    assert decode(Experiment, stored, "experiment") == experiment


@ALL
def test_quick_form_keeps_only_what_it_runs(experiment):
    quick = experiment.resized(None, None, quick=True)
    assert quick.runs <= experiment.runs
    assert quick.epochs < experiment.epochs
    names = {part.name for part in quick.parts}
    assert names <= {part.name for part in experiment.parts}
    assert all(claim.part in {None, *names} for claim in quick.claims)
    assert quick.claims


def test_size_can_be_given():
    small = find("fig4").resized(3, 7, quick=False)
    assert (small.runs, small.epochs, len(small.parts)) == (3, 7, 7)


@pytest.mark.parametrize(
    "name",
    [
        *("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "figD2", "figD3", "figD4", "figD5"),
        *("tab1", "tab2", "tabD1", "tabD2", "tabD3"),
    ],
)
def test_every_figure_and_table_is_a_name(name):
    assert name in find(name).covers
    assert find(name.lower()) is find(name)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(
        KeyError, match=r"no experiment 'fig9'. Experiments: two-turn, .*Figures and tables: fig1"
    ):
        find("fig9")


def test_the_papers_sizes():
    two, four, fashion = find("fig1"), find("fig4"), find("fig7")
    assert (len(two.parts[0].methods), two.runs, two.epochs) == (10, 100, 10_000)
    assert (len(four.parts[0].methods), four.runs, four.epochs) == (5, 10, 2000)
    assert (len(fashion.parts[0].methods), fashion.runs, fashion.epochs) == (6, 5, 400)
    assert len(find("tabD2").parts[0].methods) == 18
    resnet, transformer = find("fig6"), find("tab2")
    assert (resnet.runs, resnet.epochs, resnet.parts[0].problem.batch) == (5, 150, 128)
    assert (transformer.epochs, [part.problem.batch for part in transformer.parts]) == (200, [1024, 128])


def test_the_papers_two_scales_agree():
    """h² is the learning rate and exp(-γh) the momentum; with the printed γ the momentum is another."""
    assert PRINTED.lr**2 == pytest.approx(COLUD.lr)
    assert math.exp(-PRINTED.friction * PRINTED.lr) == pytest.approx(0.854, abs=1e-3)


def test_a_margin_is_a_difference_and_no_ratio():
    claim = replace(find("fig4").claims[0], measure="curvature", margin=0.1)
    with pytest.raises(ValueError, match="'curvature' has a margin, a difference, where ratios are compared"):
        replace(find("fig4"), claims=(claim,))


def test_a_small_form_may_have_another_text():
    quick = find("decoder").resized(None, None, quick=True)
    assert {part.problem.data for part in quick.parts} == {"python"}
    assert find("decoder").parts[0].problem.data == "linux-c"


def test_the_search_is_over_the_methods_that_are_compared():
    parts = find("decoder-search").parts
    methods = {method.name: method.lr for method in find("decoder").parts[0].methods}
    assert [part.name for part in parts if part.problem.width == 512] == [
        f"{name}, 512 wide" for name in methods
    ]
    assert {len(part.methods) for part in parts} == {7}
    for part in parts:
        assert methods[part.name.partition(", ")[0]] in {method.lr for method in part.methods}
        assert part.problem.width == 64 * part.problem.heads
    assert {part.problem.width for part in parts} == {256, 512, 1024}
