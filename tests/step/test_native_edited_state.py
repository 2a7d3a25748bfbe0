"""The native path where somebody has put other tensors into the optimizer's state, or emptied it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native.library import library
from colangevin.step import plan
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain

pytestmark = pytest.mark.skipif(library() is None, reason="the native library is not compiled")


def cast(dtype: torch.dtype) -> Callable[[dict[str, Any]], None]:
    def edit(state: dict[str, Any]) -> None:
        for key in state:
            if key != "step":
                state[key] = state[key].to(dtype)

    return edit


def cast_in_place(state: dict[str, Any]) -> None:
    state["momentum"].data = state["momentum"].double()


def count_as(make: Callable[[int], object]) -> Callable[[dict[str, Any]], None]:
    def edit(state: dict[str, Any]) -> None:
        state["step"] = make(int(state["step"]))

    return edit


EDITS = {
    "bfloat16": cast(torch.bfloat16),
    "double": cast(torch.double),
    "double, by .data": cast_in_place,
    "a float64 count": count_as(lambda n: torch.tensor(n, dtype=torch.float64)),
    "a float32 count": count_as(lambda n: torch.tensor(n, dtype=torch.float32)),
    "an int32 count": count_as(lambda n: torch.tensor(n, dtype=torch.int32)),
    "a number": count_as(int),
    "nothing left": dict.clear,
}


def run(edit: Callable[[dict[str, Any]], None], kind: type, constraint: cl.Constraint) -> tuple[Tensor, int]:
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(0.1 * torch.rand(20, 31, generator=generator))
    options = {"temperature": 1e-4, "seed": 1} if kind is not cl.ConstrainedAdam else {}
    if kind is cl.ConstrainedSGD:
        options["momentum"] = 0.9
    optimizer = kind([{"params": [weight], "constraint": constraint}], lr=0.1, **options)
    for step in range(5):
        if step == 2:
            edit(optimizer.state[weight])
        if step == 3 and edit is dict.clear:
            optimizer.state.clear()
        weight.grad = torch.randn(20, 31, generator=generator)
        optimizer.step()
    return weight.detach(), int(optimizer.state[weight]["step"])


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("kind", [cl.ConstrainedSGD, cl.ConstrainedAdam])
@pytest.mark.parametrize("constraint", [cl.Free(), cl.Circle(0.5), cl.Sphere(9.0)], ids=str)
def test_an_edited_state_goes_on_as_on_the_plain_path(
    name: str, kind: type, constraint: cl.Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is cl.ConstrainedAdam and name == "nothing left":
        pytest.skip("its averages begin anew at another weight than the plain path's, by rounding")
    native, count = run(EDITS[name], kind, constraint)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "native", lambda entry, dynamics: False)
        plain, plain_count = run(EDITS[name], kind, constraint)
    assert count == plain_count == (2 if name == "nothing left" else 5)
    torch.testing.assert_close(native, plain, rtol=0, atol=1e-5)


def test_a_state_that_holds_no_tensor_is_named() -> None:
    weight = nn.Parameter(torch.zeros(3))
    optimizer = cl.ConstrainedSGD([("w", weight)], lr=0.1, momentum=0.9)
    for value in (torch.ones(3), None):
        weight.grad = torch.ones(3)
        optimizer.step()
        optimizer.state[weight]["momentum"] = value
    with pytest.raises(cl.ConstraintError, match=r"'w' \(3,\): its momentum in the state is None"):
        optimizer.step()


def test_a_lazily_negated_weight_takes_the_plain_path() -> None:
    weight = nn.Parameter(torch._neg_view(torch.ones(4)))
    optimizer = cl.ConstrainedSGD([weight], lr=1.0)
    weight.grad = torch.ones(4)
    optimizer.step()
    assert weight.tolist() == [-2.0] * 4
    assert {type(mover) for mover in optimizer._plan.movers} == {Plain}
    weight.data = torch.ones(4)
    optimizer.step()
    assert weight.tolist() == [0.0] * 4
    assert {type(mover) for mover in optimizer._plan.movers} == {Native}
