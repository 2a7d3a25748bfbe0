"""The gradients, noise and steps by which the library and the transcriptions are compared."""

from collections.abc import Iterator

import torch
from torch import Tensor

import colangevin as cl
from tests.dynamics.case import Case, Variables, normal

TOL = 1e-12
STEPS = 100
H = 0.05  # h |P| stays near 0.1, where an iteration of the paper's fixed loop divides the error by 10
GAMMA = 0.7
TAU = 0.3

ORDERS = ["OBA", "BOA", "BAOAB"]


def forces(case: Case, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Gradient and noise of each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        yield normal(generator, *case.shape), normal(generator, *case.noise_shape)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert torch.allclose(actual, expected, rtol=0, atol=TOL), float((actual - expected).abs().max())


def assert_same_point(case: Case, q: Tensor, p: Tensor | None, x: Variables) -> None:
    """Compare one copy of the library's q and p with the reference's variables."""
    if isinstance(case.constraint, cl.Circle):
        # angles are equal modulo a turn
        expected = case.position(x)
        assert_same(torch.sin(q), torch.sin(expected))
        assert_same(torch.cos(q), torch.cos(expected))
    else:
        assert_same(q, case.position(x))
    if p is not None:
        assert_same(p, case.momentum(x))


def reference_step(
    case: Case, x: Variables, letters: str, h: float, gamma: float, tau: float, grad: Tensor, noise: Tensor
) -> tuple[Variables, Tensor]:
    """Run a splitting with one O: each B takes all of h, the A's share h.

    Returns:
        The new variables, and the noise in the coordinates that the library has at its O.
    """
    drifts = letters.count("A")
    given = noise
    for letter in letters:
        if letter == "A":
            x = case.step_a(x, h / drifts)
        elif letter == "B":
            x = case.step_b(x, grad, h)
        else:
            given = case.kick_noise(x, noise)
            x = case.step_o(x, h, gamma, tau, noise)
    return x, given


def moving_start(case: Case) -> tuple[Variables, Tensor, Tensor]:
    """A start with momentum, for the reference and as a stack of one for the library."""
    x = case.start(case.weight)
    x = case.shove(x, 0.5 * normal(torch.Generator().manual_seed(99), *case.noise_shape))
    return x, case.position(x).unsqueeze(0), case.momentum(x).unsqueeze(0)
