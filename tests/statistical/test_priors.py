"""The priors of calibration and of Geweke's test: one for every constraint, with the law that they say."""

import pytest
import torch

import colangevin as cl
from colangevin.native.library import library
from tests.statistical.calibration import Model, sampler, spread
from tests.statistical.priors import CASES
from tests.statistical.sampling import Run
from tests.statistics import assert_mean

DRAWS = 20_000
#: what differs within one class: with and without slack, over rows, columns and matrices, scales and blocks
VARIANTS = {
    "Sphere": {("rows", False), ("rows", True), ("columns", True), ("matrix", False)},
    "Orthogonal": {(1.0, 1), (0.8, 1), (1.0, 2)},
}


def test_every_constraint_has_a_case():
    public = {
        value
        for value in vars(cl).values()
        if isinstance(value, type) and issubclass(value, cl.Constraint) and value is not cl.Constraint
    }
    assert {type(case.constraint) for case in CASES.values()} == public - {cl.Free}


def test_the_variants_of_spheres_and_orthogonal_matrices_have_one():
    spheres = {
        (case.constraint.over, case.constraint.slack)
        for case in CASES.values()
        if isinstance(case.constraint, cl.Sphere)
    }
    frames = {
        (case.constraint.scale, case.constraint.blocks)
        for case in CASES.values()
        if isinstance(case.constraint, cl.Orthogonal)
    }
    assert {"Sphere": spheres, "Orthogonal": frames} == VARIANTS


@pytest.mark.parametrize("name", CASES)
def test_draws_are_feasible_and_spread_as_they_say(name):
    torch.manual_seed(0)
    case = CASES[name]
    w = case.draw(DRAWS)
    assert case.constraint.violation(w, replicas=True) < 1e-10
    assert_mean(spread(w), case.spread, resolution=0.1 * case.spread)


@pytest.mark.parametrize("name", CASES)
def test_the_wrong_law_is_feasible_too_and_spreads_otherwise(name):
    torch.manual_seed(0)
    case = CASES[name]
    w = case.wrong(DRAWS)
    assert case.constraint.violation(w, replicas=True) < 1e-10
    with pytest.raises(AssertionError, match="biased"):
        assert_mean(spread(w), case.spread, resolution=0.1 * case.spread)


@pytest.mark.parametrize("name", CASES)
def test_posteriors_are_skewed(name):
    """No case is symmetric under w -> -w, which would hide a wrong sign."""
    torch.manual_seed(0)
    case = CASES[name]
    model, w = Model(case), case.draw(1)
    y = model.observe(w)
    assert not torch.allclose(model.potential(w, y), model.potential(-w, y), rtol=1e-3)
    assert not torch.allclose(model.gradient(w, y), -model.gradient(-w, y), rtol=1e-3)


@pytest.mark.skipif(library() is None, reason="without the native library all steps are plain")
@pytest.mark.parametrize("name", CASES)
def test_steps_take_the_path_that_users_get(name):
    torch.manual_seed(0)
    case = CASES[name]
    w = case.draw(4).clone()
    move = sampler(case, "BAOAB", Run(h=0.1, burn=0, steps=1, replicas=4), w)
    move(Model(case).observe(w), 1)  # asserts the path
