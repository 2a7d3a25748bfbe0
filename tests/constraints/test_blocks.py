"""Orthogonal matrices with a scale, and several of them in one weight."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

OPTIMIZERS = {
    "CoLod": lambda groups: cl.CoLod(groups, 0.02, temperature=0.01, seed=3),
    "OBA": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, seed=3),
    "BAOAB": lambda groups: cl.CoLud(groups, 0.1, friction=1.0, splitting="BAOAB"),
    "SGD": lambda groups: cl.ConstrainedSGD(groups, 0.05, momentum=0.9),
}
# a weight's shape, blocks, and the matrices of it
CUTS = {
    "fused": ((9, 4), 3, lambda w: w.view(3, 3, 4)),
    "conv": ((4, 2, 3, 3), 2, lambda w: w.view(2, 2, 18)),
    "experts": ((3, 5, 4), 3, lambda w: w),
    "halves of experts": ((3, 6, 4), 6, lambda w: w.view(6, 3, 4)),
    "pairs of experts": ((4, 2, 5), 2, lambda w: w.view(2, 2, 10)),
    "one": ((1, 3, 4), 1, lambda w: w.view(1, 1, 12)),
    "two points": ((3, 1), 3, lambda w: w.view(3, 1, 1)),
}


def error(matrices: Tensor, scale: float = 1.0) -> float:
    """The largest distance of a singular value from the scale, relative to it."""
    return float((torch.linalg.svdvals(matrices.double()) / scale - 1).abs().max())


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_every_matrix_is_held_for_itself(cut, kind, scale):
    torch.manual_seed(0)
    shape, blocks, matrices = CUTS[cut]
    weight = nn.Parameter(torch.randn(shape))
    constraint = cl.Orthogonal(scale, blocks)
    constraint.init_(weight)
    assert error(matrices(weight.detach()), scale) < 1e-5
    optimizer = OPTIMIZERS[kind]([{"params": [weight], "constraint": constraint}])
    for _ in range(5):
        weight.grad = torch.randn(shape)
        optimizer.step()
        assert error(matrices(weight.detach()), scale) < 1e-5
    assert constraint.violation(weight) < 1e-5
    assert max(cl.diagnostics.cotangency(optimizer).values(), default=0) < 1e-5


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_block_moves_as_a_weight_of_its_own_does(kind):
    """Without noise: that of a block follows from its place in the weight."""
    torch.manual_seed(0)
    parts = [cl.Orthogonal().init_(torch.randn(3, 5, dtype=torch.float64)) for _ in range(2)]
    whole = nn.Parameter(torch.cat(parts))
    apart = [nn.Parameter(part) for part in parts]
    groups = (
        [{"params": [whole], "constraint": cl.Orthogonal(blocks=2)}],
        [{"params": apart, "constraint": cl.Orthogonal()}],
    )
    together, alone = (OPTIMIZERS[kind](each) for each in groups)
    for optimizer in (together, alone):
        optimizer.param_groups[0]["temperature"] = 0.0
    for _ in range(5):
        whole.grad = torch.randn(6, 5, dtype=torch.float64)
        for part, grad in zip(apart, whole.grad.split(3), strict=True):
            part.grad = grad.clone()
        together.step()
        alone.step()
    torch.testing.assert_close(whole.detach(), torch.cat(apart).detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_scaled_matrix_is_the_general_constraint_of_the_same_set(kind):
    """W^T W = c^2 I, written as a function of W: same weights to the order in which both move alike."""
    torch.manual_seed(0)
    c, steps = 0.6, 20
    start = cl.Orthogonal(c).init_(torch.randn(4, 2, dtype=torch.float64))

    def gram(w: Tensor) -> Tensor:
        product = w.mT @ w - c**2 * torch.eye(2, dtype=w.dtype)
        return torch.stack((product[0, 0], product[0, 1], product[1, 1]))

    ends = []
    for constraint in (cl.Orthogonal(c), cl.Implicit(gram)):
        weight = nn.Parameter(start.clone())
        optimizer = OPTIMIZERS[kind]([{"params": [weight], "constraint": constraint}])
        optimizer.param_groups[0]["temperature"] = 0.0
        for step in range(steps):
            weight.grad = torch.sin(step + torch.arange(8, dtype=torch.float64)).view(4, 2)
            optimizer.step()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends, rtol=1e-7, atol=1e-8)


def test_the_nearest_weight_is_the_polar_factor_of_each_block():
    weight = torch.randn(6, 4, dtype=torch.float64)
    nearest = cl.Orthogonal(0.5, 2).init_(weight.clone(), init="nearest")
    for block, found in zip(weight.split(3), nearest.split(3), strict=True):
        u, _, v = torch.linalg.svd(block, full_matrices=False)
        torch.testing.assert_close(found, 0.5 * u @ v)


def test_a_feasible_weight_keeps_its_bits():
    weight = cl.Orthogonal(0.3, 2).init_(torch.randn(6, 4), init="draw")
    assert torch.equal(cl.Orthogonal(0.3, 2).init_(weight.clone()), weight)


def test_each_replica_has_its_blocks():
    replicas = cl.Replicas(lambda: nn.Linear(4, 6), 3, seed=0)
    optimizer = OPTIMIZERS["OBA"](replicas.constrain({"weight": cl.Orthogonal(0.7, 2)}, init="draw"))
    replicas.weight.grad = torch.randn(3, 6, 4)
    replicas.bias.grad = torch.zeros(3, 6)
    optimizer.step()
    assert error(replicas.weight.detach().view(6, 3, 4), 0.7) < 1e-5


def test_what_is_said():
    assert repr(cl.Orthogonal()) == "Orthogonal()"
    assert repr(cl.Orthogonal(2, blocks=3)) == "Orthogonal(scale=2.0, blocks=3)"
    assert cl.Orthogonal().describe() == {"name": "Orthogonal"}  # as in checkpoints of before
    assert cl.Orthogonal(scale=1, blocks=1) == cl.Orthogonal() != cl.Orthogonal(blocks=2)
    assert type(cl.Orthogonal(math.sqrt(2)).scale) is float


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_kernel_is_orthonormal_as_the_kernel_that_it_is(groups):
    layer = nn.ConvTranspose2d(4, 6, 2, groups=groups)
    cl.constrain(layer, {"weight": cl.Orthogonal()})
    kernel = layer.weight.detach().unflatten(0, (groups, -1)).transpose(1, 2).reshape(6, -1)
    assert error(kernel) < 1e-5


def test_fused_outputs_of_conv1d_are_cut():
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D(6, 4)
    cl.constrain(conv1d, {"weight": cl.Orthogonal(blocks=3)})
    assert error(conv1d.weight.detach().T.reshape(3, 2, 4)) < 1e-5


def test_a_plain_matrix_has_no_orientation():
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D(6, 4)
    (held, _) = cl.constrain(conv1d, {"weight": cl.Orthogonal()})
    assert held["constraint"] == cl.Orthogonal()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cl.Orthogonal(0), r"scale=0: must be a positive, finite number"),
        (lambda: cl.Orthogonal("1"), r"scale='1': must be a positive, finite number"),
        (lambda: cl.Orthogonal(math.inf), r"scale=inf: must be a positive, finite number"),
        (lambda: cl.Orthogonal(blocks=0), r"blocks=0: must be a whole number, at least 1"),
        (lambda: cl.Orthogonal(blocks=2.0), r"blocks=2.0: must be a whole number, at least 1"),
        (
            lambda: cl.Orthogonal(blocks=4).check(torch.zeros(6, 3)),
            r"\(6, 3\): blocks=4 does not divide its 6 rows. Choose a divisor of 6, or leave blocks out",
        ),
        (
            lambda: cl.Orthogonal(blocks=4).check(torch.zeros(2, 3, 3)),
            r"\(2, 3, 3\): blocks=4 does not divide its 2 rows",
        ),
        (
            lambda: cl.Orthogonal(1e-60).check(torch.zeros(6, 3)),
            r"scale=1e-60 is out of range for a weight of torch.float32.*Choose a scale in between",
        ),
        (
            lambda: cl.Orthogonal(2.0, 2).check(torch.ones(6, 3)),
            r"as 2 x \(3, 3\), divided by scale=2, its columns are not orthonormal.*"
            r"Orthogonal\(scale=2.0, blocks=2\).init_\(weight\)",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(cl.ConstraintError, match=message):
        make()
