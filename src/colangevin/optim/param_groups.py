"""`constrain`: parameter groups from rules that say which parameters get which constraint."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from colangevin.constraints import Constraint, Free
from colangevin.constraints.start import Init, chosen, start
from colangevin.draws import drawn_alike
from colangevin.errors import ConstraintError
from colangevin.optim.checks import warn_at_rest
from colangevin.optim.groups import Groups
from colangevin.optim.names import named
from colangevin.optim.outputs import transposed_groups
from colangevin.optim.stacked_module import StackedModule
from colangevin.optim.units import Unit, check_alike, units

__all__ = ["Rules", "begin", "choose", "constrain", "refuse_replicas", "units_of"]

#: From a glob, a module class or a tuple of names to a constraint or None. Mappings are invariant in their
#: keys, so only Any admits all of `dict[str, Circle]`, `dict[type[nn.Linear], Circle]` and
#: `dict[object, Circle]`. The last is what mypy takes a literal with both kinds of keys for. `choose` checks
#: the keys.
Rules = Mapping[Any, Constraint | None]
Group = dict[str, Any]
Member = tuple[Constraint, Unit]


def constrain(model: nn.Module, rules: Rules, *, init: Init = "auto") -> Groups:
    """Choose which parameters are held by which constraint; the result is for an optimizer of this library.

    There is one group for each constraint and one for the rest. The first rule that fits a parameter wins. A
    parameter that no rule fits is free. The groups print as a table of what is held and what is free, so that
    a weight which a rule has missed is seen.

    What a constraint calls rows are the output units of a layer, also of `nn.ConvTranspose2d` and the like
    and of `Conv1D` in `transformers`, whose weights count outputs along dimension 1. A `Sphere` without a
    radius takes the norms of its weight, so that each such parameter has a group of its own.

    A rule whose key is a tuple of names holds these parameters together, by an `Implicit` whose g takes as
    many weights: `{("encoder.weight", "decoder.weight"): cl.Implicit(lambda a, b: ...)}`. They have a group
    of their own, in the order of the tuple, and one of them without a gradient has the gradient zero.

    Args:
        model: any module. Names are those of the module itself: what `torch.compile`,
            `DistributedDataParallel` or `AveragedModel` put in front is left out.
        rules: maps a glob on parameter names (`"layers.*.weight"`), a module class (its `weight`, never its
            bias) or a tuple of names to a constraint, or to None for "leave free".
        init: how the weights start. `"auto"` keeps a weight that satisfies its constraint bit for bit, so
            that a loaded checkpoint stays as it is. Under `Orthogonal`, `Sphere` without slack and
            `Implicit` equalities it moves any other weight to the nearest point. (Under `Orthogonal` that
            is the polar factor; for a fresh weight it is an orthogonal initialisation.) Under bounds, which
            are `Circle`, `Sphere` with slack and inequalities, it raises for any other weight. `"keep"`
            only checks. `"nearest"` moves weights under bounds too: circles clamp entries, spheres shrink
            rows. `"draw"` replaces every constrained weight by one drawn uniformly on its manifold; in a
            distributed job all ranks have to call this, and get the same. True means `"auto"`, False
            `"keep"`.

    Returns:
        A list of groups with named parameters.

    Raises:
        ConstraintError: for a rule that fits no parameter; InfeasibleError for a weight that violates its
            constraint. No weight has been changed then.
        TypeError: for a rule that is neither a glob, a class nor a tuple of names, or one that maps to
            something else than a constraint or None.

    Examples:
        >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> groups = cl.constrain(model, {"0.weight": cl.Orthogonal(), "*.bias": None})
        >>> groups
        parameter  shape     constraint    weights
        0.weight   (32, 64)  Orthogonal()    2,048
        2.weight   (10, 32)  free matrix       320
        0.bias     (32,)     free               32
        2.bias     (10,)     free               10
        free matrices: "2.weight" (10, 32). Rules can name them as quoted.
        held: 2,048 of 2,410 weights (85.0 %)
        >>> optimizer = cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model: {type(model).__name__} is not a torch.nn.Module. Give the module whose parameters the "
            'rules name, or write groups: {"params": [weight], "constraint": colangevin.Circle(0.05)}.'
        )
    refuse_replicas(model)
    groups = choose(model, rules)
    begin(units_of(groups), init)
    held = [group for group in groups if not isinstance(group["constraint"], Free)]
    _send_from_first(model, {parameter for group in held for _, parameter in group["params"]})
    return groups


def choose(model: nn.Module, rules: Rules, *, replicas: int = 0) -> Groups:
    """The groups of `constrain`, before anything is done to the weights.

    Args:
        model: any module.
        rules: as in `constrain`.
        replicas: how many copies the parameters stack along dimension 0, 0 when they are single weights.

    Returns:
        Groups with named parameters.

    Raises:
        ConstraintError: for a rule that fits no parameter, or a shape that its constraint cannot hold.
        TypeError: for a rule that is neither a glob, a class nor a tuple of names, or one that maps to
            something else than a constraint or None.
    """
    if not isinstance(rules, Mapping):
        raise TypeError(
            f"rules={rules!r}: must map names of parameters or classes of modules to constraints, as "
            '{"*.weight": colangevin.Circle(0.05)}.'
        )
    names = named(model)
    chosen: dict[Tensor, Constraint] = {}
    together: dict[Tensor, Group] = {}
    for rule, constraint in rules.items():
        if not (constraint is None or isinstance(constraint, Constraint)):
            raise TypeError(
                f"rule {_words(rule)}: {constraint!r} is not a constraint; use one such as "
                "colangevin.Circle(0.05), or None to leave the parameters free."
            )
        fitting = _fitting(model, rule, names)
        if not fitting:
            raise ConstraintError(
                f"rule {_words(rule)} fits no parameter of {type(model).__name__}. {_known(names)}"
            )
        if isinstance(rule, tuple) and not isinstance(constraint, Free | None):
            group = _group_together(rule, constraint, fitting, chosen, replicas)
            together |= dict.fromkeys(fitting, group)
        for parameter in fitting:
            chosen.setdefault(parameter, constraint or Free())
    turns = transposed_groups(model)
    groups: dict[object, Group] = {}
    copies = {"replicas": replicas} if replicas else {}
    for parameter, aliases in names.items():
        if parameter in together:
            group = together[parameter]
            groups.setdefault(id(group), {**group, **copies})
            continue
        constraint = chosen.get(parameter, Free())
        if parameter in turns:
            shape = parameter.shape[1:] if replicas else parameter.shape
            constraint = constraint.turned(turns[parameter], shape)
        constraint.check_stack(parameter.shape, bool(replicas), aliases[0])
        fitted = constraint.fitted(parameter, replicas=bool(replicas), name=aliases[0])
        # what takes numbers from a weight has a group for each, also where two weights have the same ones now
        key = constraint if fitted is constraint else parameter
        empty = {"params": [], "constraint": fitted, **copies}
        groups.setdefault(key, empty)["params"].append((aliases[0], parameter))
    return Groups(groups.values())


def _group_together(
    rule: tuple[str, ...],
    constraint: Constraint,
    parameters: Sequence[Tensor],
    taken: Mapping[Tensor, Constraint],
    replicas: int,
) -> Group:
    """The group of parameters that a rule holds together."""
    for name, parameter in zip(rule, parameters, strict=True):
        if parameter in taken:
            raise ConstraintError(
                f"rule {rule}: '{name}' is held by an earlier rule, {taken[parameter]!r}, and the first rule "
                "wins. A parameter has one rule: put this one first."
            )
    if len(set(parameters)) < len(parameters):
        raise ConstraintError(
            f"rule {rule}: two of its names are those of one parameter. Name each once, and write g so."
        )
    joint = constraint.together([each.shape[1:] if replicas else each.shape for each in parameters])
    members = list(zip(rule, parameters, strict=True))
    for unit in units(joint, members, replicas, f"rule {rule}"):
        check_alike(unit, joint)
    return {"params": members, "constraint": joint}


def units_of(groups: Groups) -> list[Member]:
    """What the constraints of groups hold one by one: parameters, or several together."""
    return [
        (group["constraint"], unit)
        for group in groups
        for unit in units(group["constraint"], group["params"], group.get("replicas", 0), "rules")
    ]


def begin(
    members: Sequence[Member],
    init: Init,
    *,
    around: Callable[[int], AbstractContextManager[None]] = lambda number: nullcontext(),
) -> None:
    """Put parameters onto their manifolds, or check that they are there. On an error none has changed.

    Args:
        members: parameters, or several that are held together, with their constraints.
        init: how the weights start, as in `constrain`.
        around: a context manager to enter while a parameter starts, by its number; of several, by that of the
            first.
    """
    firsts = accumulate((len(unit.parameters) for _, unit in members), initial=0)
    held = [
        (number, *member)
        for number, member in zip(firsts, members, strict=False)
        if not isinstance(member[0], Free)
    ]

    def starts() -> list[Tensor | None]:
        found = []
        for number, constraint, unit in held:
            with around(number):
                found.append(
                    start(constraint, unit.weight, init, replicas=bool(unit.replicas), name=unit.name)
                )
        return found

    if chosen(init) == "draw":
        placed = drawn_alike(starts, [(unit.name, unit.weight) for _, _, unit in held])
    else:
        placed = starts()
    for (_, constraint, unit), values in zip(held, placed, strict=True):
        warn_at_rest(constraint, unit.weight if values is None else values, unit.name, unit.replicas)
    with torch.no_grad():
        for (_, _, unit), values in zip(held, placed, strict=True):
            if values is not None:
                unit.write_(values)


@torch.no_grad()
def _send_from_first(model: nn.Module, held: set[Tensor]) -> None:
    """Give all ranks of a `DistributedDataParallel` the weights of its first rank.

    Their weights were the same before. On processors that round differently their nearest points need not be,
    and a completion of a weight without full rank is drawn. A module that is wrapped later is sent by torch.
    """
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            for name, parameter in module.module.named_parameters():
                if parameter in held and name not in module.parameters_to_ignore:
                    values = parameter.detach().contiguous()
                    torch.distributed.broadcast(values, group=module.process_group, group_src=0)
                    parameter.copy_(values)


def refuse_replicas(model: nn.Module) -> None:
    """Raise for replicas: a stack of weights would be taken for one weight."""
    for place, module in model.named_modules():
        if isinstance(module, StackedModule):
            where = f"its module '{place}' is" if place else "is"
            raise ConstraintError(
                f"model: {where} a Replicas, each of whose parameters stacks {len(module)} weights. Call "
                "replicas.constrain(rules) on it instead, which constrains each replica apart."
            )


def _fitting(model: nn.Module, rule: object, names: dict[Tensor, list[str]]) -> list[Tensor]:
    """The parameters a rule fits."""
    if isinstance(rule, str):
        return [p for p, aliases in names.items() if any(fnmatchcase(a, rule) for a in aliases)]
    if isinstance(rule, tuple) and all(isinstance(name, str) for name in rule):
        return _of_these_names(model, rule, names)
    if not (isinstance(rule, type) and issubclass(rule, nn.Module)):
        raise TypeError(
            f"rule {rule!r}: must be a glob on parameter names, a module class or a tuple of names."
        )
    weights = [getattr(m, "weight", None) for m in model.modules() if isinstance(m, rule)]
    return [weight for weight in weights if isinstance(weight, Tensor) and weight in names]


def _of_these_names(model: nn.Module, rule: tuple[str, ...], names: dict[Tensor, list[str]]) -> list[Tensor]:
    """The parameters of exactly these names, in their order."""
    owner = {alias: parameter for parameter, aliases in names.items() for alias in aliases}
    for name in rule:
        if name not in owner:
            raise ConstraintError(
                f"rule {rule}: {type(model).__name__} has no parameter '{name}'. The names of a tuple are "
                f"whole names, not globs. {_known(names)}"
            )
    return [owner[name] for name in rule]


def _known(names: dict[Tensor, list[str]]) -> str:
    return f"Its parameters are: {', '.join(name for aliases in names.values() for name in aliases)}."


def _words(rule: object) -> str:
    return rule.__name__ if isinstance(rule, type) else repr(rule)
