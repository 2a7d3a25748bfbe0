"""This library's Muon along constraints, and a plain one that takes all matrices of a shape at once."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

import colangevin as cl
from benchmarks.contender import LR, MOMENTUM, Contender, Gradients, Run, optimizer_run, orthogonality

__all__ = ["BATCHED", "CONSTRAINED"]

_COEFFICIENTS = (3.4445, -4.775, 2.0315)  # torch.optim.Muon's
_STEPS = 5
_LR = LR / 5  # an angle on spheres and frames


def _orthogonalised(stack: Tensor) -> Tensor:
    """Newton-Schulz of a stack, with a product of cuBLAS for each of its formula."""
    a, b, c = _COEFFICIENTS
    tall = stack.shape[1] > stack.shape[2]
    X = stack.mT if tall else stack
    X = X / torch.linalg.vector_norm(X, dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(_STEPS):
        gram = torch.bmm(X, X.mT)
        X = torch.baddbmm(X, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), X, beta=a)
    return X.mT if tall else X


def _batched(weights: list[Tensor], size: float) -> Run:
    """Averages by foreach, Newton-Schulz by batched products."""
    gradients = Gradients(weights, size)
    gradients.attach()
    averages = [torch.zeros_like(weight) for weight in weights]
    members: dict[tuple[int, ...], list[int]] = {}
    for number, weight in enumerate(weights):
        members.setdefault(tuple(weight.shape), []).append(number)

    @torch.no_grad()
    def step() -> None:
        torch._foreach_lerp_(averages, gradients.views, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients.views, averages, MOMENTUM)
        for (rows, columns), numbers in members.items():
            stack = torch.stack([ahead[number] for number in numbers]).bfloat16()
            moves = _orthogonalised(stack).float().unbind()
            scale = math.sqrt(max(1, rows / columns))
            torch._foreach_add_([weights[number] for number in numbers], list(moves), alpha=-_LR * scale)

    def state() -> Iterator[Tensor]:
        yield from averages

    return Run(weights, gradients.refill, step, state, None)


def _constrained(method: str, constraint: cl.Constraint, words: int) -> Contender:
    def build(weights: list[Tensor], size: float) -> Run:
        for weight in weights:
            if isinstance(constraint, cl.Orthogonal):  # spheres keep the norms that weights have
                constraint.init_(weight)
        # norms that are kept differ from weight to weight, so that each has a group of its own
        members = [[weight] for weight in weights] if isinstance(constraint, cl.Sphere) else [weights]
        groups = [{"params": each, "constraint": constraint} for each in members]
        optimizer = cl.ConstrainedMuon(groups, _LR, MOMENTUM)

        def error() -> float:
            if isinstance(constraint, cl.Orthogonal):
                return orthogonality(weights)
            return max(cl.diagnostics.violation(optimizer).values())

        return optimizer_run(optimizer, weights, size, None if constraint == cl.Free() else error)

    return Contender(f"Muon, {method}", "colangevin", build, words, ("graph",))


BATCHED = Contender("Muon, batched", "plain torch", _batched, 5, ("graph",))
CONSTRAINED = (
    _constrained("free", cl.Free(), 5),
    _constrained("row spheres", cl.Sphere(), 5),
    _constrained("matrix spheres", cl.Sphere(over="matrix"), 5),
    _constrained("orthogonal", cl.Orthogonal(), 5),
)
