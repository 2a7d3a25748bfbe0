"""A third step from one state on the native path and on the plain one."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.step import plan
from colangevin.step.native import native
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "CoLod": lambda groups, **options: cl.CoLod(groups, lr=0.02, **options),
    "CoLod, noise": lambda groups, **options: cl.CoLod(groups, lr=0.02, temperature=0.1, seed=3, **options),
    "OBA": lambda groups, **options: cl.CoLud(groups, lr=0.1, friction=1.0, **options),
    **{
        f"{splitting}, noise": lambda groups, splitting=splitting, **options: cl.CoLud(
            groups, lr=0.1, friction=1.0, temperature=0.1, splitting=splitting, seed=3, **options
        )
        for splitting in ("OBA", "BOA", "BAOAB", "OBABO", "ABOBA", "OABAO")
    },
    "SGD": lambda groups, **options: cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9, **options),
    "SGD without momentum": lambda groups, **options: cl.ConstrainedSGD(groups, lr=0.1, **options),
}


def fill_gradients(weights: list[nn.Parameter], generator: torch.Generator) -> None:
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)


def both(
    build: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    weights: list[nn.Parameter],
    monkeypatch: Any,
) -> tuple[Any, Any]:
    """Take two steps natively, then a third from the same state on both paths; return both."""
    generator = torch.Generator().manual_seed(1)
    opt = build(weights)

    def closure() -> Tensor:
        fill_gradients(weights, generator)
        return torch.zeros(())

    for _ in range(2):
        opt.step(closure)
    assert {type(mover) for mover in opt._plan.movers} == {Native}
    twin_weights, twin = copy.deepcopy((weights, opt))
    state = generator.get_state()
    opt.step(closure)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "native", lambda entry, dynamics: False)
        generator.set_state(state)

        def twin_closure() -> Tensor:
            fill_gradients(twin_weights, generator)
            return torch.zeros(())

        twin.step(twin_closure)
        assert {type(mover) for mover in twin._plan.movers} == {Plain}
    return opt, twin


def with_threads(count: int, run: Callable[[], list[Tensor]]) -> list[Tensor]:
    """What a run returns when torch has so many threads."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        return run()
    finally:
        torch.set_num_threads(before)


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference in units of rounding of the largest number."""
    size = max(float(theirs.abs().max()), torch.finfo(theirs.dtype).tiny)
    return float((ours.double() - theirs.double()).abs().max()) / (size * torch.finfo(theirs.dtype).eps)


def assert_near(opt: Any, twin: Any, ulps: float) -> None:
    for group, twin_group in zip(opt.param_groups, twin.param_groups, strict=True):
        for one, other in zip(group["params"], twin_group["params"], strict=True):
            # a number between two of half precision may be rounded either way
            assert difference(one.detach(), other.detach()) <= max(ulps, 1.0)
            assert opt.state[one].keys() == twin.state[other].keys()
            assert int(opt.state[one]["step"]) == int(twin.state[other]["step"])
            for key in opt.state[one].keys() - {"step"}:
                assert difference(opt.state[one][key], twin.state[other][key]) <= ulps, key


def spoil_a_number(monkeypatch: Any) -> None:
    """Make one letter of every native step a ten-thousandth longer."""
    made = native.programs

    def spoiled(*arguments: Any) -> Any:
        programs = made(*arguments)
        programs[0].number[1] *= 1.0001
        return programs

    monkeypatch.setattr(native, "programs", spoiled)
