"""A g of the whole weight with many components: J J^T is applied, and agrees with closed forms."""

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import colangevin as cl
from colangevin.constraints import residual
from colangevin.constraints.linear import Dense, MatrixFree
from tests.constraints.implicit_functions import R, orthonormal_columns, row_norms, row_sums, within_radius
from tests.constraints.implicit_runs import assert_same, normal


def trained(constraint: cl.Constraint, start: Tensor, steps: int = 5, **options: float) -> Tensor:
    weight = Parameter(start.clone())
    optimizer = cl.CoLud([{"params": [weight], "constraint": constraint}], 0.05, friction=1.0, **options)
    for step in range(steps):
        weight.grad = normal(100 + step, *start.shape).to(start.dtype)
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("shape", [(64, 64), (96, 64)])
def test_orthonormal_columns_with_two_thousand_components(shape: tuple[int, int]) -> None:
    """The closed form of Orthogonal is the same RATTLE, so runs with noise agree to rounding."""
    start = torch.linalg.qr(normal(1, *shape)).Q
    general = cl.Implicit(orthonormal_columns)
    assert isinstance(linear(general, start), MatrixFree)
    expected = trained(cl.Orthogonal(), start, temperature=0.01, seed=3)
    actual = trained(general, start, temperature=0.01, seed=3)
    assert_same(actual, expected, 1e-11)
    assert cl.Orthogonal().violation(actual) <= 1e-13


def test_spheres_as_one_function_of_the_weight_have_the_geodesics_of_rows() -> None:
    """Of 512 rows: J J^T is diagonal, and one product solves. RATTLE is third order to the geodesic."""
    shape = (512, 256)
    general, closed = cl.Implicit(row_norms).on(shape), cl.Sphere(R, slack=False).on(shape)
    q = closed.lift(normal(2, 1, *shape))
    p = closed.tangent(q, normal(3, *q.shape))
    assert isinstance(linear(general.constraint, q[0].reshape(shape)), MatrixFree)
    assert_same(general.tangent(q.flatten(1), p.flatten(1)), p.flatten(1), 1e-12)
    errors = []
    for h in (0.02, 0.01):
        expected, _ = closed.drift(q, p, h)
        actual, _ = general.drift(q.flatten(1), p.flatten(1), h)
        errors.append(float((actual - expected.flatten(1)).norm()))
    assert 7.5 < errors[0] / errors[1] < 8.5


def test_circles_as_one_function_of_the_weight() -> None:
    """4096 entries with a slack each, against the same bound of one entry."""
    start = torch.tanh(normal(4, 64, 64))
    whole = cl.Implicit(within_radius, inequality=True)
    entries = cl.Implicit(within_radius, inequality=True, over="entries")
    assert isinstance(linear(whole, start), MatrixFree)
    assert_same(trained(whole, start), trained(entries, start), 1e-11)


def chained(w: Tensor) -> Tensor:
    """Neighbours have rows of J with half their length in common: J J^T is tridiagonal."""
    rows = w.square().sum(1)
    return rows[1:] + rows[:-1] - 2


def badly_scaled(w: Tensor) -> Tensor:
    return chained(w) * torch.logspace(-3, 3, len(w) - 1, dtype=w.dtype)


def redundant(w: Tensor) -> Tensor:
    return torch.cat((row_sums(w), w.sum(1)[:1] - 1))


@pytest.mark.parametrize("g", [chained, badly_scaled, row_sums, orthonormal_columns])
def test_what_is_applied_agrees_with_what_is_formed(g, monkeypatch: pytest.MonkeyPatch) -> None:
    start = cl.Implicit(g).init_(torch.linalg.qr(normal(5, 24, 16)).Q)
    ends = []
    for formed in (2**60, 0):
        monkeypatch.setattr(residual, "_FORMED", formed)
        assert isinstance(linear(cl.Implicit(g), start), Dense if formed else MatrixFree)
        ends.append(trained(cl.Implicit(g), start))
    assert_same(ends[0], ends[1], 1e-10)


def test_a_diagonal_is_found_by_two_products() -> None:
    start = torch.linalg.qr(normal(6, 64, 64)).Q
    found = linear(cl.Implicit(orthonormal_columns), start)
    # off the diagonal of Q^T Q a component moves two columns, on it one, twice as much
    rows, columns = torch.triu_indices(64, 64)
    assert_same(found.diagonal[0], torch.where(rows == columns, 4.0, 2.0).double(), 1e-12)


def test_conjugate_gradients_that_do_not_converge_give_way_to_a_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = cl.Implicit(chained).init_(torch.linalg.qr(normal(5, 24, 16)).Q)
    expected = trained(cl.Implicit(chained), start)
    monkeypatch.setattr(residual, "_FORMED", 0)
    monkeypatch.setattr("colangevin.constraints.linear._ITERATIONS", 2)
    assert_same(trained(cl.Implicit(chained), start), expected, 1e-10)
    monkeypatch.setattr(residual, "_LARGEST", 0)
    message = "conjugate gradients found no multipliers for its 23 components.*Scale them.*redundant"
    with pytest.raises(cl.ConvergenceError, match=message):
        trained(cl.Implicit(chained), start)


def test_rank_is_looked_at_where_a_matrix_is_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conjugate gradients solve for redundant components; the matrix that replaces them says the rank."""
    start = cl.Implicit(row_sums).init_(normal(7, 8, 4))
    monkeypatch.setattr(residual, "_FORMED", 0)
    assert_same(trained(cl.Implicit(redundant), start), trained(cl.Implicit(row_sums), start), 1e-10)
    monkeypatch.setattr("colangevin.constraints.linear._ITERATIONS", 0)
    with pytest.raises(cl.ConvergenceError, match="Jacobian has rank 8 for 9 components"):
        trained(cl.Implicit(redundant), start)


def on_ellipses(w: Tensor) -> Tensor:
    """Two columns of which every row lies on an ellipse: a component has weights of its own."""
    return w[:, 0].square() + 4 * w[:, 1].square() - 1


def test_components_with_weights_of_their_own_need_no_matrix_for_a_long_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps of up to half an axis, where Newton has to renew its matrix and some have to be shortened."""
    angle = normal(9, 1024)
    start = torch.stack((angle.cos(), angle.sin() / 2), dim=1)
    rows = cl.Implicit(lambda row: row[0] ** 2 + 4 * row[1] ** 2 - 1, over="rows")

    def refuse(self: residual.Residual, q: Tensor) -> Dense:
        raise AssertionError(f"a matrix of {q.shape} was formed")

    with monkeypatch.context() as patched:
        patched.setattr(residual.Residual, "formed", refuse)
        quietly = trained(cl.Implicit(on_ellipses), start, temperature=0.05, seed=1)
        noisily = trained(cl.Implicit(on_ellipses), start, steps=20, temperature=20.0, seed=1)
    assert float(on_ellipses(noisily).abs().max()) < 1e-13
    assert_same(quietly, trained(rows, start, temperature=0.05, seed=1), 1e-12)


def test_a_newton_matrix_with_other_entries_is_not_taken_for_diagonal() -> None:
    """J J^T of orthonormal columns is diagonal, J of a longer step times J^T is not."""
    start = torch.linalg.qr(normal(6, 64, 64)).Q
    at = linear(cl.Implicit(orthonormal_columns), start)
    assert at.separate
    assert linear(cl.Implicit(orthonormal_columns), start + 0.1 * normal(10, 64, 64)).against(at) is None
    assert_same(at.against(at).solve(at.diagonal), torch.ones_like(at.diagonal), 1e-12)


class Doubled(torch.autograd.Function):
    """A function that can be differentiated ``times`` times."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, times: int) -> Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.times = inputs[1]

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        if not ctx.times:
            raise NotImplementedError("the derivative is not implemented.")
        return Doubled.apply(grad, ctx.times - 1), None


@pytest.mark.parametrize(("times", "kind"), [(1, Dense), (2, MatrixFree)])
def test_an_operation_that_can_be_differentiated_once_is_formed(
    times: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = cl.Implicit(lambda w: Doubled.apply(w, times).sum(1) - 2)
    start = constraint.init_(normal(8, 6, 4))
    monkeypatch.setattr(residual, "_FORMED", 0)
    assert isinstance(linear(constraint, start), kind)
    assert_same(trained(constraint, start), trained(cl.Implicit(row_sums), start))


def linear(constraint: cl.Implicit, weight: Tensor) -> Dense | MatrixFree:
    """The derivative at a weight, which holds no slack here."""
    manifold = constraint.on(weight.shape)
    return manifold.system.linear(weight.reshape(1, -1), manifold.components)
