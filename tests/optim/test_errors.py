"""Every error says which argument or parameter, which value or shape, which rule, and what to do next."""

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from tests.optim_db import (
    CONSTRAINTS,
    OPTIMIZERS,
    ConstraintCase,
    OptimizerCase,
    Problem,
    assert_identical,
    by_id,
    rows_in_balls,
    snapshot,
    sphere_and_plane,
    start,
    train,
    whole_table,
)

OBA = by_id("colud-OBA")


def words(*parts: str) -> str:
    """A regular expression for parts that have to occur in this order."""
    return "(?s)" + ".*".join(re.escape(part) for part in parts)


def colud(weight: nn.Parameter, constraint: object, **options: Any) -> cl.CoLud:
    """An optimizer of one parameter named 'w'."""
    return cl.CoLud([{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0, **options)


def parameter(*values: Any, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=dtype))


# ---- the family -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["InfeasibleError", "ConvergenceError", "SplittingError", "NonFiniteError"])
def test_every_error_is_a_constraint_error_and_a_value_error(name: str) -> None:
    assert issubclass(getattr(cl, name), cl.ConstraintError)
    assert issubclass(cl.ConstraintError, ValueError)


# ---- infeasible starts ----------------------------------------------------------------------------

INFEASIBLE = (
    (
        cl.Circle(0.5),
        [[0.2, 0.7], [-0.9, 0.5]],
        ("(2, 2): 2 entries exceed radius=0.5 (largest 0.9).", "Choose radius >= 0.9, or", "'nearest'"),
    ),
    (
        cl.Circle(torch.tensor([0.1, 0.8])),
        [[0.2, 0.7], [-0.9, 0.5]],
        ("(2, 2): 2 entries exceed radius=tensor(2,) in [0.1, 0.8] (largest 0.9).",),
    ),
    (
        cl.Sphere(2.0),
        [[0.0, 3.0], [1.0, 1.0]],
        ("(2, 2): 1 rows exceed radius=2 (largest norm 3).", "Choose radius >= 3, or", "'nearest'"),
    ),
    (
        cl.Sphere(2.0, slack=False),
        [[0.0, 3.0], [1.0, 0.0]],
        ("(2, 2): row norms lie between 1 and 3, not at radius=2.", "init='nearest'", "colangevin.constrain"),
    ),
    (
        cl.Orthogonal(),
        [[1.0, 0.5], [0.0, 1.0]],
        ("(2, 2): its columns are not orthonormal", "0.5", "init='nearest'", "the nearest orthonormal"),
    ),
    (
        cl.Orthogonal(),
        [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        ("(2, 3): its rows are not orthonormal", "is 3)", "init='nearest'"),
    ),
    (
        cl.Implicit(sphere_and_plane),
        [[3.0, 1.0]],
        (
            "(1, 2): Implicit(g=tests.optim_db.sphere_and_plane",
            "is violated (largest |g| is 8)",
            "init='nearest'",
        ),
    ),
    (
        cl.Implicit(rows_in_balls, inequality=True),
        [[2.0, 0.0]],
        ("(1, 2): Implicit(", "is violated (largest component of g is 2.56, must be <= 0).", "'nearest'"),
    ),
)
each_infeasible = pytest.mark.parametrize(
    ("constraint", "values", "message"), INFEASIBLE, ids=[repr(case[0]) for case in INFEASIBLE]
)


@each_infeasible
def test_infeasible_start_in_a_plain_group(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
        colud(parameter(*values), constraint)


@each_infeasible
def test_infeasible_start_without_init(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    model = nn.ParameterDict({"w": parameter(*values)})
    with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
        cl.constrain(model, {"w": constraint}, init=False)
    assert_identical(model["w"].detach(), torch.tensor(values))


@each_infeasible
def test_infeasible_start_with_init(
    constraint: cl.Constraint, values: list[list[float]], message: tuple[str, ...]
) -> None:
    model = nn.ParameterDict({"w": parameter(*values)})
    if constraint.on(model["w"].shape).bounded:  # weights under a bound are the user's to choose
        with pytest.raises(cl.InfeasibleError, match=words("parameter 'w' ", *message)):
            cl.constrain(model, {"w": constraint})
        assert_identical(model["w"].detach(), torch.tensor(values))
    else:
        cl.constrain(model, {"w": constraint})
        assert constraint.violation(model["w"]) < 1e-6


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("constraint", CONSTRAINTS[1:], ids=lambda case: case.id)
def test_weight_that_is_not_finite_is_infeasible(constraint: ConstraintCase, bad: float) -> None:
    weight = nn.Parameter(constraint.weight())
    with torch.no_grad():
        weight[0, 0] = bad
    with pytest.raises(cl.InfeasibleError, match="parameter 'w'"):
        colud(weight, constraint.constraint)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "constraint", [case for case in CONSTRAINTS[1:] if case.manifold.bounded], ids=lambda case: case.id
)
def test_init_does_not_let_a_weight_that_is_not_finite_pass(constraint: ConstraintCase, bad: float) -> None:
    weight = constraint.weight()
    weight[0, 0] = bad
    with pytest.raises(cl.InfeasibleError, match="parameter 'w'"):
        constraint.constraint.init_(weight, name="w")


def test_row_without_a_direction() -> None:
    model = nn.ParameterDict({"w": parameter([0.0, 0.0], [1.0, 0.0])})
    message = words("parameter 'w' (2, 2): 1 rows have norm 0", "no nearest point", "Initialise these rows")
    with pytest.raises(cl.InfeasibleError, match=message):
        cl.constrain(model, {"w": cl.Sphere(1.0, slack=False)})


# ---- splittings -----------------------------------------------------------------------------------

SPLITTINGS = (
    ("BAXOB", ("splitting='BAXOB': unknown letter 'X' at position 2;", "letters are A, B, O.")),
    ("oBA", ("splitting='oBA': unknown letter 'o' at position 0;",)),
    ("OB A", ("splitting='OB A': unknown letter ' ' at position 2;",)),
    ("OB", ("splitting='OB': letter 'A' is missing, so the drift", "use each of A, B and O")),
    ("OA", ("splitting='OA': letter 'B' is missing, so the gradient",)),
    ("BA", ("splitting='BA': letter 'O' is missing, so friction and temperature",)),
    ("", ("splitting='': letter 'A' is missing",)),
    (None, ("splitting=None: must be a string of the letters A, B and O.",)),
    (5, ("splitting=5: must be a string",)),
    (["O", "B", "A"], ("splitting=['O', 'B', 'A']: must be a string",)),
)


@pytest.mark.parametrize(("splitting", "message"), SPLITTINGS, ids=[repr(case[0]) for case in SPLITTINGS])
def test_splitting(splitting: object, message: tuple[str, ...]) -> None:
    with pytest.raises(cl.SplittingError, match=words(*message)):
        cl.CoLud([parameter(1.0)], 0.1, friction=1.0, splitting=splitting)


@pytest.mark.parametrize("splitting", ["ABO", "BABO", "OABA"])
def test_kick_after_drift_without_closure_changes_nothing(splitting: str) -> None:
    problem = Problem(by_id("circle"))
    groups = problem.groups()
    groups[1]["splitting"] = splitting
    opt = OBA.build(groups)
    problem.backward()
    before = snapshot(opt)
    message = words(f"splitting='{splitting}' in param_groups[1]", "Pass a closure to step()", "'OBA'")
    with pytest.raises(cl.SplittingError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


# ---- rules of constrain ---------------------------------------------------------------------------


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("rule", "word"), [("layers.*", "'layers.*'"), ("weight", "'weight'"), (nn.Conv2d, "Conv2d")]
)
def test_rule_that_fits_nothing_lists_the_names(rule: object, word: str) -> None:
    names = "0.weight, 0.bias, 2.weight, 2.bias"
    message = words(f"rule {word} fits no parameter of Sequential.", f"Its parameters are: {names}.")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(model(), {"0.weight": cl.Circle(1.0), rule: cl.Orthogonal()})


@pytest.mark.parametrize("rule", [5, None, int, nn.Linear(2, 2)], ids=repr)
def test_rule_of_a_wrong_type(rule: object) -> None:
    with pytest.raises(TypeError, match="must be a glob on parameter names or a module class"):
        cl.constrain(model(), {rule: cl.Circle(1.0)})


@pytest.mark.parametrize("rule", ["0.weight", nn.Linear, 5])
def test_rule_that_leads_to_no_constraint(rule: object) -> None:
    word = rule.__name__ if isinstance(rule, type) else repr(rule)
    with pytest.raises(TypeError, match=words(f"rule {word}", "0.5 is not a constraint", "cl", "or None")):
        cl.constrain(model(), {rule: 0.5})


@pytest.mark.parametrize("constraint", [cl.Circle, "circle", None, 1.0], ids=repr)
def test_group_whose_constraint_is_none(constraint: object) -> None:
    message = words("constraint=", "in param_groups[0]: must be a constraint such as", "Circle(0.05)")
    with pytest.raises(TypeError, match=message):
        colud(parameter(1.0), constraint)


# ---- radii ----------------------------------------------------------------------------------------

RADII = (
    (0, "radius=0: must be positive and finite."),
    (-1.5, "radius=-1.5: must be positive and finite."),
    (math.nan, "radius=nan: must be positive and finite."),
    (math.inf, "radius=inf: must be positive and finite."),
    ("0.5", "radius='0.5': must be a positive number or a tensor of positive numbers."),
    (None, "radius=None: must be a positive number"),
    (True, "radius=True: must be a positive number"),
    (torch.tensor([1.0, 0.0]), "radius: a tensor of shape (2,) with smallest entry 0.0; every radius must"),
    (torch.tensor([1.0, math.nan]), "radius: a tensor of shape (2,) with smallest entry nan; every radius"),
    (torch.tensor([1.0, math.inf]), "every radius must be positive and finite."),
    (torch.tensor(-1.0), "every radius must be positive and finite."),
    (torch.tensor([]), "radius: a tensor of shape (0,)"),
)


@pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
@pytest.mark.parametrize(("radius", "message"), RADII, ids=[repr(case[0]) for case in RADII])
def test_radius(kind: type[cl.Constraint], radius: object, message: str) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        kind(radius)


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (cl.Circle(torch.ones(3)), (2, 4), ("radius of shape (3,) does not broadcast", "weight's shape")),
        (cl.Circle(torch.ones(4, 1)), (2, 4), ("radius of shape (4, 1) does not broadcast",)),
        (cl.Circle(torch.ones(5, 2, 4)), (2, 4), ("radius of shape (5, 2, 4) does not broadcast",)),
        (cl.Circle(torch.ones(2, 4)), (4,), ("radius of shape (2, 4) does not broadcast",)),
        (cl.Circle(torch.ones(5)), (), ("radius of shape (5,) does not broadcast",)),
        (cl.Sphere(torch.ones(3)), (2, 4), ("radius of shape (3,) does not fit 2 rows", "shape (2,)")),
        (cl.Sphere(torch.ones(2, 1)), (2, 4), ("radius of shape (2, 1) does not fit 2 rows", "shape (2,)")),
        (cl.Sphere(torch.ones(5, 2)), (2, 4), ("radius of shape (5, 2) does not fit 2 rows",)),
    ],
    ids=lambda value: repr(value) if isinstance(value, cl.Constraint) else "",
)
def test_radius_of_another_shape(
    constraint: cl.Constraint, shape: tuple[int, ...], message: tuple[str, ...]
) -> None:
    with pytest.raises(cl.ConstraintError, match=words(f"parameter 'w' {shape}: ", *message)):
        colud(nn.Parameter(torch.full(shape, 0.1)), constraint)


# ---- options --------------------------------------------------------------------------------------

BAD_NUMBERS = (math.nan, math.inf, -0.1, "0.1", None, True, torch.tensor(-1.0))
OPTIONS = (
    (cl.CoLod, ("lr", "temperature", "weight_decay")),
    (cl.CoLud, ("lr", "friction", "temperature", "weight_decay")),
    (cl.ConstrainedSGD, ("lr", "temperature", "weight_decay")),
)


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, options in OPTIONS for option in options]
)
def test_option(kind: type[torch.optim.Optimizer], option: str, value: object) -> None:
    required = {"lr": 0.1, "friction": 1.0} if kind is cl.CoLud else {"lr": 0.1}
    message = words(f"{option}={value!r} in param_groups[0]: must be finite and >= 0.")
    with pytest.raises(cl.ConstraintError, match=message):
        kind([parameter(1.0)], **{**required, option: value})
    group = {"params": [parameter(1.0)], option: value}
    with pytest.raises(cl.ConstraintError, match=re.escape("param_groups[1]")):
        kind([{"params": [parameter(1.0)]}, group], **required)


@pytest.mark.parametrize(
    ("kind", "option"), [(kind, option) for kind, options in OPTIONS for option in options]
)
def test_option_for_each_replica(kind: type[torch.optim.Optimizer], option: str) -> None:
    options = {"lr": 0.1, "friction": 1.0} if kind is cl.CoLud else {"lr": 0.1}
    options[option] = torch.tensor([0.1, 0.2])
    for replicas in (0, 3):
        group = {"params": [nn.Parameter(torch.ones(3))], "replicas": replicas}
        start = f"{option}: a tensor of shape (2,) in param_groups[0], which has replicas={replicas}"
        with pytest.raises(cl.ConstraintError, match=words(start, "in a group of n replicas", "(n,)")):
            kind([group], **options)
    with pytest.raises(cl.ConstraintError, match=re.escape(f"{option}: a tensor of shape (0,)")):
        kind([parameter(1.0)], **{**options, option: torch.empty(0)})
    for bad in (-0.5, math.nan, math.inf):
        options[option] = torch.tensor([0.1, bad, 0.2])
        message = f"{option}[1]={bad} in param_groups[0]: must be finite and >= 0."
        with pytest.raises(cl.ConstraintError, match=re.escape(message)):
            kind([{"params": [nn.Parameter(torch.ones(3))], "replicas": 3}], **options)


def test_momentum_is_one_number() -> None:
    group = {"params": [parameter(1.0, 2.0)], "replicas": 2}
    message = words("momentum in param_groups[0]: a tensor of shape (2,)", "Use CoLud, whose friction")
    with pytest.raises(cl.ConstraintError, match=message):
        cl.ConstrainedSGD([group], 0.1, momentum=torch.tensor([0.8, 0.9]))


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (cl.Circle(torch.ones(3)), "radius of shape (3,) does not broadcast"),
        (cl.Sphere(torch.ones(3)), "radius of shape (3,) does not fit 2 rows"),
    ],
    ids=repr,
)
def test_radius_for_each_replica(constraint: cl.Constraint, message: str) -> None:
    group = {"params": [nn.Parameter(torch.full((3, 2, 4), 0.1))], "replicas": 3, "constraint": constraint}
    shape = "(3, 1, 1)" if isinstance(constraint, cl.Circle) else "(3, 1)"
    with pytest.raises(cl.ConstraintError, match=words(message, f"of shape {shape} for one a replica")):
        cl.CoLod([group], 0.1)


@pytest.mark.parametrize("momentum", [1, 1.5, -0.1, math.nan, "0.9"])
def test_momentum(momentum: object) -> None:
    message = f"momentum={momentum!r} in param_groups[0]: must be at least 0 and below 1."
    with pytest.raises(cl.ConstraintError, match=re.escape(message)):
        cl.ConstrainedSGD([parameter(1.0)], 0.1, momentum=momentum)


@pytest.mark.parametrize("seed", [1.5, "7", True])
def test_seed(seed: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"seed={seed!r}")):
        cl.CoLod([parameter(1.0)], 0.1, seed=seed)
    with pytest.raises(cl.ConstraintError, match=re.escape(f"seed={seed!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "seed": seed}], 0.1, temperature=1.0)


@pytest.mark.parametrize("first", [1.0, "2", True, -1])
def test_first_replica(first: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"first_replica={first!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "first_replica": first}], 0.1)


@pytest.mark.parametrize("replicas", [1.0, "2", True, -1])
def test_replicas(replicas: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"replicas={replicas!r} in param_groups[0]")):
        cl.CoLod([{"params": [parameter(1.0)], "replicas": replicas}], 0.1)


def test_replicas_that_the_parameter_does_not_have() -> None:
    with pytest.raises(cl.ConstraintError, match=words("(2,): param_groups[0] has replicas=3", "must be 3")):
        cl.CoLod([{"params": [parameter(1.0, 2.0)], "replicas": 3}], 0.1)


def test_option_spoiled_during_the_run_changes_nothing() -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    problem.backward()
    opt.param_groups[1]["lr"] = math.nan
    weights = [p.detach().clone() for p in problem.parameters()]
    with pytest.raises(cl.ConstraintError, match=re.escape("lr=nan in param_groups[1]")):
        opt.step()
    assert_identical([p.detach() for p in problem.parameters()], weights)


# ---- parameters that cannot be held ---------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,)])
def test_too_few_dimensions_for_orthogonality(shape: tuple[int, ...]) -> None:
    message = words(f"parameter 'w' {shape}: Orthogonal needs a weight with at least 2 dimensions", "Circle")
    with pytest.raises(cl.ConstraintError, match=message):
        colud(nn.Parameter(torch.ones(shape)), cl.Orthogonal())
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(nn.ParameterDict({"w": nn.Parameter(torch.ones(shape))}), {"w": cl.Orthogonal()})


def test_bad_shape_is_found_before_any_weight_is_initialised() -> None:
    net = model()
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(cl.ConstraintError, match=re.escape("parameter '2.bias' (2,)")):
        cl.constrain(net, {"0.weight": cl.Orthogonal(), "2.bias": cl.Orthogonal()})
    assert_identical([p.detach() for p in net.parameters()], before)


def test_complex_parameter() -> None:
    weight = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(cl.ConstraintError, match=words("parameter 'w' (2,): complex", "view_as_real")):
        colud(weight, cl.Free())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_integer_parameter(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.ones(2, dtype=dtype), requires_grad=False)
    with pytest.raises(cl.ConstraintError, match=words("parameter 'w' (2,)", str(dtype), "use float64")):
        colud(weight, cl.Circle(2.0))


def test_sparse_gradient_changes_nothing() -> None:
    embedding, other = nn.Embedding(4, 3, sparse=True), parameter(1.0)
    nn.init.uniform_(embedding.weight, -0.5, 0.5)
    groups = [{"params": [("other", other)]}, *cl.constrain(embedding, {"weight": cl.Circle(1.0)})]
    opt = OBA.build(groups)
    embedding(torch.tensor([1])).sum().backward()
    other.grad = torch.ones(1)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=words("parameter 'weight' (4, 3): sparse", "sparse=False")):
        opt.step()
    assert_identical(snapshot(opt), before)


# ---- implicit constraints -------------------------------------------------------------------------


def twice_the_same(w: Tensor) -> Tensor:
    return torch.stack((w.square().sum() - 1, 2 * w.square().sum() - 2))


def cone(w: Tensor) -> Tensor:
    return w[0].square() - w[1].square()


@pytest.mark.parametrize(
    ("g", "values", "rank"),
    [(twice_the_same, (0.6, 0.8), "rank 1 for 2 components"), (cone, (0.0, 0.0), "rank 0 for 1 components")],
)
@pytest.mark.parametrize("kind", [cl.CoLod, cl.ConstrainedSGD, cl.CoLud])
def test_jacobian_that_loses_rank(
    kind: type[torch.optim.Optimizer], g: Callable[[Tensor], Tensor], values: tuple[float, ...], rank: str
) -> None:
    weight, other = parameter(*values), parameter(1.0)
    options = {"friction": 1.0} if kind is cl.CoLud else {}
    groups = [{"params": [("o", other)]}, {"params": [("w", weight)], "constraint": cl.Implicit(g)}]
    opt = kind(groups, 0.1, **options)
    weight.grad, other.grad = torch.ones(2), torch.ones(1)
    before = snapshot(opt)
    message = words("parameter 'w' (2,): Implicit(", f"its Jacobian has {rank} of g", "Drop redundant")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_jacobian_that_has_no_rank_where_a_weight_is_to_be_moved() -> None:
    message = words(
        "parameter 'w' (2,): Implicit(", "its Jacobian has rank 1 for 2 components", "Drop redundant"
    )
    with pytest.raises(cl.ConvergenceError, match=message):
        cl.constrain(nn.ParameterDict({"w": parameter(0.7, 0.8)}), {"w": cl.Implicit(twice_the_same)})


@pytest.mark.parametrize(
    ("optimizer", "constraint"),
    [(case, by_id("circle")) for case in OPTIMIZERS] + [(OBA, case) for case in CONSTRAINTS],
    ids=lambda case: case.id,
)
def test_step_that_cannot_land_changes_nothing(optimizer: OptimizerCase, constraint: ConstraintCase) -> None:
    problem, hard = Problem(constraint, torch.float64), parameter(0.5, 0.5, dtype=torch.float64)
    alone: list[Tensor] = []  # once there is one, g exists nowhere else
    plane = {"params": [("hole", hard)], "constraint": cl.Implicit(nowhere_but(alone))}
    opt = optimizer.build([*problem.groups(), plane])
    hard.grad = torch.tensor([1.0, -1.0], dtype=torch.float64)
    train(problem, opt, 1)
    alone.append(hard.detach().clone())
    problem.backward()
    before = snapshot(opt)
    message = words("parameter 'hole' (2,): Implicit(", "no point with g = 0 was found", "reduce lr")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def nowhere_but(points: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """The plane of entries that sum to 1; if there are points, a function that exists only there."""

    def g(w: Tensor) -> Tensor:
        away = sum(((w != point).any() for point in points), torch.zeros((), dtype=torch.bool))
        return (w.sum() - 1 + torch.where(away, math.nan, 0.0)).reshape(1)

    return g


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shorter_and_shorter_steps_do_not_end_as_no_step(dtype: torch.dtype) -> None:
    weight = parameter(0.75, 0.25, dtype=dtype)
    opt = colud(weight, cl.Implicit(nowhere_but([weight.detach().float()])))
    weight.grad = torch.tensor([1.0, 0.0], dtype=dtype)
    before = snapshot(opt)
    message = words("parameter 'w' (2,)", "from a step of size 0.00", "halvings", "reduce lr")
    with pytest.raises(cl.ConvergenceError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_function_that_returns_no_tensor() -> None:
    message = words("Implicit(g=", "g returned float, not a tensor")
    with pytest.raises(cl.ConstraintError, match=message):
        colud(parameter(1.0), cl.Implicit(lambda w: 0.0))


@pytest.mark.parametrize("g", [3, None, "norm"])
def test_function_that_is_none(g: object) -> None:
    with pytest.raises(cl.ConstraintError, match=re.escape(f"g={g!r}: must be a function of the weight.")):
        cl.Implicit(g)


# ---- gradients that are not finite ----------------------------------------------------------------


@whole_table
def test_gradient_that_is_not_finite_changes_nothing(
    optimizer: OptimizerCase, constraint: ConstraintCase
) -> None:
    problem, opt = start(optimizer, constraint)
    check_refused(problem, opt, "weight", math.nan)
    train(problem, opt, 1)
    check_refused(problem, opt, "weight", -math.inf)
    check_refused(problem, opt, "bias", math.nan)


def check_refused(problem: Problem, opt: torch.optim.Optimizer, name: str, bad: float) -> None:
    problem.backward()
    grad = getattr(problem, name).grad
    grad.view(-1)[1] = bad
    before = snapshot(opt)
    message = words(f"parameter '{name}' {tuple(grad.shape)}: its gradient holds NaN or Inf", "GradScaler")
    with pytest.raises(cl.NonFiniteError, match=message):
        opt.step()
    assert_identical(snapshot(opt), before)


def test_refused_first_step_leaves_no_trace_in_the_state_dict() -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    problem.weight.grad.fill_(math.nan)
    with pytest.raises(cl.NonFiniteError):
        opt.step()
    assert opt.state_dict()["state"] == {}


def test_several_such_gradients_are_counted() -> None:
    problem, opt = start(OBA, by_id("circle"))
    problem.backward()
    for each in problem.parameters():
        each.grad.fill_(math.nan)
    with pytest.raises(cl.NonFiniteError, match=words("'weight'", "(1 more parameters have one too)")):
        opt.step()


# ---- state dicts ----------------------------------------------------------------------------------


def saved(constraint: object, *shape: int) -> dict[str, Any]:
    """A state dict after a step."""
    weight = nn.Parameter(torch.full(shape or (2, 2), 0.1))
    opt = cl.CoLud([{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0)
    weight.grad = torch.ones_like(weight)
    opt.step()
    return opt.state_dict()


def positive(w: Tensor) -> Tensor:
    return -w.reshape(-1)[:2]


STATE_DICTS = (
    (
        lambda: saved(cl.Circle(0.5)),
        cl.Sphere(1.0),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=0.5)", "under Sphere(radius=1.0, slack=True)"),
    ),
    (
        lambda: saved(cl.Circle(0.5)),
        cl.Circle(0.6),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=0.5)", "under Circle(radius=0.6)", "fresh"),
    ),
    (
        lambda: saved(cl.Circle(torch.tensor([0.5, 0.6]))),
        cl.Circle(torch.tensor([0.5, 0.7])),
        ("parameter 'w' (2, 2)", "saved under Circle(radius=tensor", "under Circle(radius=tensor"),
    ),
    (
        lambda: saved(cl.Sphere(1.0)),
        cl.Sphere(0.1 * 2**0.5, slack=False),
        ("saved under Sphere(radius=1.0, slack=True)", "slack=False)"),
    ),
    (
        lambda: saved(cl.Free()),
        cl.Circle(0.5),
        ("saved under Free()", "under Circle(radius=0.5)", "Use the same constraint"),
    ),
    (
        lambda: saved(cl.Implicit(rows_in_balls, inequality=True)),
        cl.Implicit(positive, inequality=True),
        ("saved under Implicit(g='tests.optim_db.rows_in_balls'", "test_errors.positive"),
    ),
    (
        lambda: saved(cl.Circle(0.5), 3, 2),
        cl.Circle(0.5),
        ("parameter 'w' (2, 2)", "position of shape (3, 2)", "needs (2, 2)", "same model"),
    ),
    (
        lambda: saved(cl.Free(), 3, 2),
        cl.Free(),
        ("parameter 'w' (2, 2)", "momentum of shape (3, 2)", "needs (2, 2)"),
    ),
    (
        lambda: cl.CoLod([parameter(1.0)], 0.1).state_dict(),
        cl.Free(),
        ("state dict: group 0 has no 'friction'", "optimizer"),
    ),
    (
        lambda: torch.optim.SGD([parameter(1.0)], 0.1).state_dict(),
        cl.Free(),
        ("state dict: group 0 names no constraint", "not saved by this library", "model's weights"),
    ),
    (
        lambda: cl.CoLod([{"params": [parameter(1.0)]}, {"params": [parameter(1.0)]}], 0.1).state_dict(),
        cl.Free(),
        ("state dict: it has 2 parameter groups, the optimizer 1.", "as the saved one was built"),
    ),
    (
        lambda: cl.CoLud([parameter(1.0), parameter(1.0)], 0.1, friction=1.0).state_dict(),
        cl.Free(),
        ("state dict: group 0 has 2 parameters, the optimizer's 1.", "as the saved one was built"),
    ),
)


@pytest.mark.parametrize(("build", "constraint", "message"), STATE_DICTS, ids=range(len(STATE_DICTS)))
def test_state_dict_of_another_run_changes_nothing(
    build: Callable[[], dict[str, Any]], constraint: cl.Constraint, message: tuple[str, ...]
) -> None:
    opt = colud(nn.Parameter(torch.full((2, 2), 0.1)), constraint)
    before = snapshot(opt)
    with pytest.raises(cl.ConstraintError, match=words(*message)):
        opt.load_state_dict(build())
    assert_identical(snapshot(opt), before)


def test_two_radii_that_print_alike_are_told_apart() -> None:
    radius = 0.5
    close = math.nextafter(radius, 1)
    opt = colud(nn.Parameter(torch.full((2, 2), 0.1)), cl.Circle(close))
    with pytest.raises(cl.ConstraintError, match=words("radius=0.5)", f"radius={close!r})")):
        opt.load_state_dict(saved(cl.Circle(radius)))


# ---- groups that are refused ----------------------------------------------------------------------

REFUSED = (
    ({"constraint": cl.Circle(0.1)}, cl.InfeasibleError),
    ({"constraint": "circle"}, TypeError),
    ({"lr": -1.0}, cl.ConstraintError),
    ({"splitting": "BAD"}, cl.SplittingError),
    ({"constraint": cl.Orthogonal()}, cl.ConstraintError),
)


@pytest.mark.parametrize(("options", "error"), REFUSED)
def test_refused_group_leaves_the_optimizer_unchanged(
    options: dict[str, Any], error: type[Exception]
) -> None:
    problem, opt = start(OBA, by_id("circle"))
    train(problem, opt, 1)
    before = snapshot(opt)
    added = parameter(0.5, 0.2)
    with pytest.raises(error):
        opt.add_param_group({"params": [("added", added)], **options})
    assert_identical(snapshot(opt), before)
    train(problem, opt, 1)
    opt.add_param_group({"params": [("added", added)]})
    assert len(opt.param_groups) == 3


# ---- weights at rest ------------------------------------------------------------------------------


def test_weights_at_their_bound_are_warned_of() -> None:
    norm = nn.LayerNorm(6)
    message = words("parameter 'weight' (6,): 6 weights start exactly at the bound of Circle(radius=1)")
    with pytest.warns(UserWarning, match=message + ".*will not move.*larger radius.*temperature"):
        cl.constrain(norm, {nn.LayerNorm: cl.Circle(1.0)})
    with pytest.warns(UserWarning, match=message):
        OBA.build([{"params": [("weight", norm.weight)], "constraint": cl.Circle(1.0)}])


def test_weights_at_either_bound_are_counted() -> None:
    with pytest.warns(UserWarning, match=words("parameter 'w' (4,): 2 weights start exactly at the bound")):
        colud(parameter(1.0, -1.0, 0.5, 0.0), cl.Circle(1.0))


@pytest.mark.parametrize("options", [{"temperature": 0.1, "seed": 1}, {}], ids=["noise", "smaller weights"])
def test_no_warning_when_weights_can_move(options: dict[str, Any]) -> None:
    weight = parameter(1.0 if options else 0.999)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        colud(weight, cl.Circle(1.0), **options)
