"""Orthogonal's way back to its manifold: the paper's loop where it converges, the polar factor elsewhere."""

import math

import pytest
import torch
from scipy.linalg import polar
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import products
from tests.reference import orthogonal_overdamped, orthogonal_underdamped

TOL = 1e-12
ORTHOGONAL = cl.Orthogonal().on((2, 2))  # whose methods take matrices of any shape
SHAPES = [(6, 3), (5, 5), (40, 16), (7, 1), (64, 27)]
TALL = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
# Largest |Q^T Q - I|: the projection stops at 8 roundings, writing the product down adds a few.
ORTHONORMAL = {torch.float32: 5e-6, torch.float64: 1e-14}
COTANGENT = {torch.float32: 2e-6, torch.float64: 1e-14}


def point(shape: tuple[int, int], seed: int = 1) -> tuple[Tensor, Tensor]:
    """A matrix with orthonormal columns and a momentum of spectral norm 1, float64."""
    generator = torch.Generator().manual_seed(seed)
    Q, _ = torch.linalg.qr(torch.randn(*shape, generator=generator, dtype=torch.float64))
    _, P = orthogonal_underdamped.project(Q, torch.randn(*shape, generator=generator, dtype=torch.float64))
    return Q, P / torch.linalg.matrix_norm(P, 2)


def ambient(shape: tuple[int, int], seed: int = 2) -> Tensor:
    """A direction with normal part, spectral norm 1."""
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return noise / torch.linalg.matrix_norm(noise, 2)


def drift(Q: Tensor, P: Tensor, h: float) -> tuple[Tensor, Tensor]:
    Q_new, P_new = ORTHOGONAL.drift(Q.unsqueeze(0), P.unsqueeze(0), h)
    return Q_new[0], P_new[0]


def project(Q: Tensor, Q_bar: Tensor) -> Tensor:
    return ORTHOGONAL.project(Q.unsqueeze(0), Q_bar.unsqueeze(0))[0]


def polar_factor(matrix: Tensor) -> Tensor:
    return torch.from_numpy(polar(matrix.double().numpy())[0])


def orthonormality(Q: Tensor) -> float:
    Q = Q.double()
    return float((Q.mT @ Q - torch.eye(Q.shape[-1], dtype=torch.float64)).abs().max())


def assert_same(actual: Tensor, expected: Tensor, tol: float = TOL) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tol)


# Where the paper's loop converges.


@TALL
@pytest.mark.parametrize("sigma", [1e-8, 1e-4, 0.1, 0.3, 0.6])
def test_drift_is_the_papers_rattle_where_its_loop_converges(shape: tuple[int, int], sigma: float) -> None:
    """sigma = h |P|_2; 200 iterations take the paper's loop to rounding."""
    Q, P = point(shape)
    Q_new, P_new = drift(Q, P, sigma)
    Q_paper, P_paper = orthogonal_underdamped.step_a(Q, P, sigma, iterations=200)
    assert_same(Q_new, Q_paper)
    # the paper divides a difference of rounded matrices by h, the library does not
    assert_same(P_new, P_paper, max(TOL, 1e-15 / sigma))


@TALL
@pytest.mark.parametrize("sigma", [1e-8, 1e-4, 0.1, 0.3])
def test_overdamped_projection_is_the_papers_where_its_loop_converges(
    shape: tuple[int, int], sigma: float
) -> None:
    Q, _ = point(shape)
    step = ambient(shape)
    expected = orthogonal_overdamped.step(Q, -step, sigma, 0.0, torch.zeros(shape), iterations=200)
    assert_same(project(Q, Q + sigma * step), expected)


@TALL
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("sigma", [0.05, 0.4, 3.0])
def test_kick_and_drift_in_one_are_the_two_letters(shape: tuple[int, int], wide: bool, sigma: float) -> None:
    Q, P = point(shape)
    grad, h, b = ambient(shape), sigma / 2, 0.7
    q, p, grad = (each.mT.contiguous().unsqueeze(0) if wide else each.unsqueeze(0) for each in (Q, P, grad))
    together = ORTHOGONAL.kick_drift(q, p, grad, b, h)
    apart = ORTHOGONAL.drift(q, ORTHOGONAL.tangent(q, p - b * grad), h)
    for one, other in zip(together, apart, strict=True):
        assert_same(one, other)


@TALL
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
def test_a_gram_matrix_in_blocks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], wide: bool
) -> None:
    Q, P = point(shape)
    q, p = (each.mT.contiguous().unsqueeze(0) if wide else each.unsqueeze(0) for each in (Q, P))
    whole = ORTHOGONAL.drift(q, p, 0.3)
    monkeypatch.setattr(products, "_WORTH_HALVING", 2)
    for one, other in zip(ORTHOGONAL.drift(q, p, 0.3), whole, strict=True):
        assert_same(one, other)


@TALL
def test_a_step_of_no_length_projects_onto_its_start(shape: tuple[int, int]) -> None:
    Q, P = point(shape)
    assert_same(project(Q, Q), Q, 1e-14)
    Q_new, P_new = drift(Q, P, 0.0)
    assert torch.equal(Q_new, Q)
    assert torch.equal(P_new, P)


# Where it does not.


@TALL
@pytest.mark.parametrize("sigma", [1.2, 3.0, 100.0, 1e6])
def test_drift_takes_the_polar_factor_where_the_papers_loop_diverges(
    shape: tuple[int, int], sigma: float
) -> None:
    Q, P = point(shape)
    Q_new, P_new = drift(Q, P, sigma)
    expected = polar_factor(Q + sigma * P)
    assert_same(Q_new, expected)
    # RATTLE's momentum with that point in place of its own: P + (Q' - Q_bar)/h = (Q' - Q)/h
    _, P_expected = orthogonal_underdamped.project(expected, (expected - Q) / sigma)
    assert_same(P_new, P_expected)


@TALL
@pytest.mark.parametrize("sigma", [5.0, 1e3, 1e6])
def test_overdamped_projection_takes_the_polar_factor_where_the_papers_loop_diverges(
    shape: tuple[int, int], sigma: float
) -> None:
    Q, _ = point(shape)
    Q_bar = Q + sigma * ambient(shape)
    # rounding of the matrix reaches its polar factor divided by the smallest singular value
    condition = float(torch.linalg.cond(Q_bar))
    assert_same(project(Q, Q_bar), polar_factor(Q_bar), TOL * max(1.0, condition))


@TALL
@pytest.mark.parametrize("sigma", [0.8, 0.9, 0.95, 0.99, 1.0, 1.05])
def test_in_between_it_is_one_of_the_two(shape: tuple[int, int], sigma: float) -> None:
    Q, P = point(shape)
    Q_new, _ = drift(Q, P, sigma)
    Q_paper, _ = orthogonal_underdamped.step_a(Q, P, sigma, iterations=5000)
    candidates = [polar_factor(Q + sigma * P)]
    if orthonormality(Q_paper) <= TOL:
        candidates.append(Q_paper)
    # near sigma = 1 the paper's root is nearly double: its error is the square root of rounding
    tol = 1e-10 if sigma < 0.99 else 1e-6
    assert min(float((Q_new - other).abs().max()) for other in candidates) <= tol
    assert orthonormality(Q_new) <= ORTHONORMAL[torch.float64]


def test_a_reflection_is_reached_when_the_step_aims_at_it() -> None:
    """The nearest orthonormal matrix, not the nearest in the same component."""
    Q = torch.eye(3, dtype=torch.float64)
    aim = torch.diag(torch.tensor([2.0, 3.0, -1.5], dtype=torch.float64))
    assert_same(project(Q, aim), torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)))


# At any size.


@DTYPES
@TALL
def test_steps_of_any_size_stay_orthonormal_and_cotangent(shape: tuple[int, int], dtype: torch.dtype) -> None:
    Q, P = point(shape)
    Q, P = ORTHOGONAL.lift(Q.to(dtype).unsqueeze(0)), P.to(dtype).unsqueeze(0)
    for exponent in torch.linspace(-6, 6, 49).tolist():
        sigma = 10.0**exponent
        Q_new, P_new = ORTHOGONAL.drift(Q, P, sigma)
        assert orthonormality(Q_new) <= ORTHONORMAL[dtype], sigma
        assert float(ORTHOGONAL.cotangency(Q_new.double(), P_new.double()).max()) <= COTANGENT[dtype], sigma
        assert orthonormality(ORTHOGONAL.project(Q, Q + sigma * P)) <= ORTHONORMAL[dtype], sigma


@DTYPES
def test_a_path_of_ever_longer_steps_stays_orthonormal(dtype: torch.dtype) -> None:
    """Step after step from its own result, h |P| from 1e-6 to 1e6: rounding must not add up."""
    Q, P = point((64, 27))
    Q, P = Q.to(dtype).unsqueeze(0), P.to(dtype).unsqueeze(0)
    for exponent in torch.linspace(-6, 6, 200).tolist():
        # a long step leaves a chord for a momentum, which is shorter: start each with one of norm 1
        P = P / torch.linalg.matrix_norm(P, 2, keepdim=True)
        Q, P = ORTHOGONAL.drift(Q, P, 10.0**exponent)
        assert orthonormality(Q) <= ORTHONORMAL[dtype], exponent
        assert float(ORTHOGONAL.cotangency(Q.double(), P.double()).max()) <= COTANGENT[dtype], exponent


# In a stack.

SIGMAS = [1e-6, 0.1, 0.5, 0.9, 2.0, 1e4]


@DTYPES
@pytest.mark.parametrize("shape", [(6, 3), (20, 5), (64, 27)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_a_matrix_does_not_depend_on_the_others_of_its_stack(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """To rounding, not bitwise: batched products may sum in another order than single ones.

    The number of iterations each matrix takes is its own, so that a diverging neighbour changes nothing:
    near sigma = 1 an iteration more or less would show as more than rounding.
    """
    points = [point(shape, seed) for seed in range(len(SIGMAS))]
    Q = torch.stack([Q for Q, _ in points]).to(dtype)
    P = torch.stack([sigma * P for sigma, (_, P) in zip(SIGMAS, points, strict=True)]).to(dtype)
    Q_stack, P_stack = ORTHOGONAL.drift(Q, P, 1.0)
    projected = ORTHOGONAL.project(Q, Q + P)
    eps = torch.finfo(dtype).eps
    for i, sigma in enumerate(SIGMAS):
        Q_alone, P_alone = ORTHOGONAL.drift(Q[i : i + 1], P[i : i + 1], 1.0)
        tol = 4 * eps  # half a unit in the last place was measured
        assert_same(Q_stack[i], Q_alone[0], tol)
        assert_same(P_stack[i] / max(1, sigma), P_alone[0] / max(1, sigma), tol)
        assert_same(projected[i], ORTHOGONAL.project(Q[i : i + 1], (Q + P)[i : i + 1])[0], tol)


@DTYPES
def test_neighbours_of_any_kind_change_nothing_bitwise(dtype: torch.dtype) -> None:
    """With the stack's length fixed, and so the products' order, what the others do is invisible."""
    Q, P = point((20, 5))
    Q, P = Q.to(dtype), 0.4 * P.to(dtype)
    results = []
    for sigma in SIGMAS:
        other_Q, other_P = point((20, 5), seed=7)
        stack_Q = torch.stack((Q, other_Q.to(dtype)))
        stack_P = torch.stack((P, sigma * other_P.to(dtype)))
        Q_new, P_new = ORTHOGONAL.drift(stack_Q, stack_P, 1.0)
        results.append(torch.cat((Q_new[0], P_new[0])))
    for result in results[1:]:
        assert torch.equal(result, results[0])


# The momentum of a small step.


@pytest.mark.parametrize("shape", [(6, 3), (64, 27), (64, 64), (16, 8, 3, 3)])
@pytest.mark.parametrize("lr", [1e-3, 1e-6, 1e-9])
def test_float32_momentum_of_a_small_step_is_the_float64_one(shape: tuple[int, ...], lr: float) -> None:
    """SGD's scale, no noise: (Q' - Q_bar) / lr, as the paper has it, is rounding divided by lr."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(1, *shape, generator=generator, dtype=torch.float64)
    weight = cl.Orthogonal().on(shape).nearest(weight, "weight")[0]  # the nearest orthonormal matrix
    grads = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)]
    momenta = {}
    for dtype in (torch.float32, torch.float64):
        # both start from the float32 weight, which is orthonormal to float32's rounding only
        parameter = Parameter(weight.float().to(dtype))
        group = {"params": [parameter], "constraint": cl.Orthogonal()}
        optimizer = cl.ConstrainedSGD([group], lr=lr, momentum=0.9)
        for grad in grads:
            parameter.grad = grad.float().to(dtype)
            optimizer.step()
        momenta[dtype] = optimizer.state[parameter]["momentum"].double()
    expected = momenta[torch.float64]
    error = float((momenta[torch.float32] - expected).norm() / expected.norm())
    assert error <= 1e-5


@pytest.mark.parametrize("h", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("shape", [(6, 3), (64, 27), (64, 64)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_rounding_of_the_matrix_does_not_reach_the_momentum(shape: tuple[int, int], h: float) -> None:
    """A float32 matrix is orthonormal to 1e-6 only: correcting that is no velocity of 1e-6 / h."""
    Q, P = point(shape)
    rough = (Q + 1e-6 * ambient(shape)).float()
    P = P.float()
    _, P_new = drift(rough, P, h)
    _, expected = drift(rough.double(), P.double(), h)
    assert float((P_new.double() - expected).norm() / expected.norm()) <= 1e-5
    # and the correction itself is what the constraint does to a matrix at rest
    assert float((expected - P.double()).norm() / P.double().norm()) <= 10 * max(h, 1e-6)


@pytest.mark.parametrize("exponent", [-300, -150, 150, 300])
def test_entries_of_any_finite_size_are_projected(exponent: int) -> None:
    """Far out the polar factor; near zero the paper's loop, which climbs back to Q."""
    Q, _ = point((6, 3))
    aim = ambient((6, 3))
    assert_same(project(Q, 10.0**exponent * aim), polar_factor(aim) if exponent > 0 else Q)


@TALL
def test_the_polar_factor_is_the_nearest_orthonormal_matrix(shape: tuple[int, int]) -> None:
    """No other orthonormal matrix nearby is closer, in the Frobenius norm."""
    Q, P = point(shape)
    Q_bar = Q + 3.0 * P
    nearest = project(Q, Q_bar)
    distance = float((nearest - Q_bar).norm())
    for seed in range(10):
        _, tangent = orthogonal_underdamped.project(nearest, ambient(shape, seed))
        other = polar_factor(nearest + 0.1 * tangent)
        if math.isclose(float((other - nearest).norm()), 0.0, abs_tol=1e-6):
            continue  # nothing to move to, as on a line
        assert float((other - Q_bar).norm()) > distance
