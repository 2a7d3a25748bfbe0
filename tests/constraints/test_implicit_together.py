"""Equations and bounds on one weight: g(w) = 0 and c(w) <= 0."""

import io
import re

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from tests.constraints.implicit_runs import assert_same, normal, run_noisily


def sums_to_one(part: Tensor) -> Tensor:
    return part.sum() - 1


def negative(part: Tensor) -> Tensor:
    return -part


def unit(w: Tensor) -> Tensor:
    return w.square().sum() - 1


def above(w: Tensor) -> Tensor:
    return w[0] - 0.5


SIMPLEX = cl.Implicit(sums_to_one, nonpositive=negative, over="rows")
CAP = cl.Implicit(unit, nonpositive=above)


@pytest.mark.parametrize("method", ["colod", "colud"])
def test_rows_stay_on_the_simplex(method: str) -> None:
    weight = Parameter(torch.softmax(normal(1, 4, 3), dim=1))
    group = {"params": [weight], "constraint": SIMPLEX}
    if method == "colod":
        optimizer = cl.CoLod([group], 0.005, temperature=0.3, seed=1)
    else:
        optimizer = cl.CoLud([group], 0.1, friction=1.0, temperature=0.3, seed=1)
    path = torch.stack(run_noisily(optimizer, 150, 1e-13))
    assert float((path.sum(2) - 1).abs().max()) <= 1e-14
    assert -1e-15 <= float(path.min()) < 0.01, "the bound was never approached"
    assert optimizer.state[weight]["position"].shape == (1, 4, 6)


def test_an_equation_and_a_bound_of_the_whole_weight_hold() -> None:
    weight = Parameter(torch.tensor([-0.6, 0.8, 0.0], dtype=torch.float64))
    optimizer = cl.CoLud(
        [{"params": [weight], "constraint": CAP}], 0.2, friction=1.0, temperature=0.5, seed=2
    )
    path = torch.stack(run_noisily(optimizer, 200, 1e-13))
    assert float((path.square().sum(1) - 1).abs().max()) <= 1e-14
    assert 0.4 < float(path[:, 0].max()) <= 0.5 + 1e-15


def test_a_bound_far_away_changes_nothing() -> None:
    """Far from a bound its slack takes part of the noise and of the momentum, but no gradient moves it.

    Without noise and from rest the weight follows the gradient alone, up to the share that the slack takes of
    it, which vanishes with the distance from the bound.
    """
    ends = []
    for constraint in (cl.Implicit(unit), cl.Implicit(unit, nonpositive=lambda w: w[0] - 1e8)):
        weight = Parameter(torch.tensor([-0.6, 0.8, 0.0], dtype=torch.float64))
        optimizer = cl.CoLod([{"params": [weight], "constraint": constraint}], 0.1)
        for step in range(5):
            weight.grad = normal(50 + step, 3)
            optimizer.step()
        ends.append(weight.detach())
    assert_same(ends[0], ends[1], 1e-7)


def test_degrees_of_freedom_count_equations_only() -> None:
    assert SIMPLEX.on((4, 3)).degrees_of_freedom == 4 * 2
    assert CAP.on((3,)).degrees_of_freedom == 2


def test_a_weight_off_the_bound_or_the_equation_says_which() -> None:
    message = r"negative\(row 1\)\[2\] = 0\.25, must be <= 0"
    with pytest.raises(cl.InfeasibleError, match=message):
        SIMPLEX.check(torch.tensor([[0.5, 0.25, 0.25], [0.75, 0.5, -0.25]]))
    with pytest.raises(cl.InfeasibleError, match=r"sums_to_one\(row 0\)\[0\] = 0\.5, must be 0"):
        SIMPLEX.check(torch.full((1, 3), 0.5))


def test_nearest_moves_onto_both() -> None:
    weight = SIMPLEX.init_(normal(3, 5, 4), init="nearest")
    assert_same(weight.sum(1), torch.ones(5, dtype=torch.float64), 1e-14)
    assert float(weight.min()) >= -1e-15


@pytest.mark.parametrize("c", [3, "norm"])
def test_a_bound_that_is_no_function(c: object) -> None:
    message = re.escape(f"nonpositive={c!r}: must be a function of the weight.")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.Implicit(unit, nonpositive=c)


def test_a_bound_that_returns_no_tensor() -> None:
    with pytest.raises(cl.ConstraintError, match="nonpositive returned float, not a tensor"):
        cl.Implicit(unit, nonpositive=lambda w: 0.0).check(torch.ones(1))


def test_an_inequality_with_a_second_one_is_refused() -> None:
    with pytest.raises(cl.ConstraintError, match=r"inequality=True with nonpositive.*from one function"):
        cl.Implicit(unit, inequality=True, nonpositive=above)


# ---- checkpoints ---------------------------------------------------------------------------------


def built(constraint: cl.Implicit) -> tuple[Parameter, cl.CoLud]:
    weight = Parameter(torch.softmax(normal(1, 4, 3), dim=1))
    group = {"params": [("w", weight)], "constraint": constraint}
    return weight, cl.CoLud([group], 0.05, friction=1.0, temperature=0.1, seed=4)


def stepped(weight: Parameter, optimizer: cl.CoLud, steps: range) -> None:
    for step in steps:
        weight.grad = normal(200 + step, 4, 3)
        optimizer.step()


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit() -> None:
    weight, optimizer = built(SIMPLEX)
    stepped(weight, optimizer, range(3))
    file = io.BytesIO()
    torch.save((weight.detach(), optimizer.state_dict()), file)
    stepped(weight, optimizer, range(3, 6))
    other, resumed = built(cl.Implicit(sums_to_one, nonpositive=negative, over="rows"))
    file.seek(0)
    saved, state = torch.load(file, weights_only=True)
    other.data.copy_(saved)
    resumed.load_state_dict(state)
    stepped(other, resumed, range(3, 6))
    assert torch.equal(other, weight)


@pytest.mark.parametrize(
    "constraint",
    [
        cl.Implicit(sums_to_one, over="rows"),
        cl.Implicit(sums_to_one, nonpositive=negative, over="weight"),
        cl.Implicit(sums_to_one, nonpositive=lambda part: -part, over="rows"),
    ],
    ids=repr,
)
def test_a_state_of_another_constraint_is_refused(constraint: cl.Implicit) -> None:
    weight, optimizer = built(SIMPLEX)
    stepped(weight, optimizer, range(1))
    other = Parameter(torch.full((4, 3), 1 / 3, dtype=torch.float64))
    with torch.no_grad():
        constraint.init_(other, init="nearest")
    groups = [{"params": [("w", other)], "constraint": constraint}]
    with pytest.raises(
        cl.ConstraintError, match=r"parameter 'w' .*saved under Implicit.*the optimizer holds"
    ):
        cl.CoLud(groups, 0.05, friction=1.0).load_state_dict(optimizer.state_dict())


def test_descriptions_of_what_there_was_before_are_as_they_were() -> None:
    assert cl.Implicit(unit, inequality=True).describe().keys() == {"name", "g", "inequality", "code"}
