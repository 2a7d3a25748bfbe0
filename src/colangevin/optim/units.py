"""Units: what a constraint holds, one parameter or several that it holds together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.several import joined, joined_gradients, parted
from colangevin.errors import ConstraintError, label
from colangevin.sharded import is_sharded, write_

__all__ = ["Unit", "check_alike", "units"]


@dataclass(frozen=True)
class Unit:
    """One parameter, or several that one constraint holds together. The first one has their state.

    Attributes:
        names: of the parameters.
        parameters: in the order in which the constraint takes them.
        replicas: how many copies each stacks along dimension 0, 0 when it is one weight.
    """

    names: tuple[str, ...]
    parameters: tuple[Tensor, ...]
    replicas: int
    #: whether a constraint holds them together, also if there is one alone
    together: bool = False

    @property
    def name(self) -> str:
        """What to call it in a message and in a table of diagnostics."""
        return ", ".join(self.names)

    @property
    def named(self) -> list[tuple[str, Tensor]]:
        """Names and parameters."""
        return list(zip(self.names, self.parameters, strict=True))

    @property
    def first(self) -> Tensor:
        """The parameter that has the state."""
        return self.parameters[0]

    @property
    def weight(self) -> Tensor:
        """The parameter itself, or a flat copy of those that are held together."""
        return joined(self.parameters, replicas=bool(self.replicas)) if self.together else self.first

    @property
    def gradient(self) -> Tensor | None:
        """The gradient of the weight."""
        if not self.together:
            return self.first.grad
        return joined_gradients(self.parameters, replicas=bool(self.replicas))

    def parts(self, weight: Tensor) -> list[Tensor]:
        """Values in the shape of the weight, as one tensor for each parameter."""
        if not self.together:
            return [weight]
        return parted(weight, [each.shape[int(bool(self.replicas)) :] for each in self.parameters])

    def write_(self, weight: Tensor) -> None:
        """Copy values in the shape of the weight into the parameters."""
        for parameter, values in zip(self.parameters, self.parts(weight), strict=True):
            write_(parameter, values)


def units(
    constraint: Constraint, members: Iterable[tuple[str, Tensor]], replicas: int, where: str
) -> Iterator[Unit]:
    """The units of a group, in the order of its parameters.

    Args:
        constraint: of the group.
        members: names and parameters.
        replicas: how many copies each stacks along dimension 0, 0 when it is one weight.
        where: what to call the group in an error.

    Yields:
        One unit for each parameter, or one for all that the constraint holds together.

    Raises:
        ConstraintError: when the constraint holds other parameters together than these.
    """
    members = list(members)
    if constraint.shapes is None:
        for name, parameter in members:
            yield Unit((name,), (parameter,), replicas)
    elif members:
        names, parameters = zip(*members, strict=True)
        _check_shapes(constraint, names, parameters, replicas, where)
        yield Unit(names, parameters, replicas, together=True)


def _check_shapes(
    constraint: Constraint, names: Sequence[str], parameters: Sequence[Tensor], replicas: int, where: str
) -> None:
    shapes = [tuple(each.shape[1:] if replicas else each.shape) for each in parameters]
    if tuple(shapes) != constraint.shapes:
        found = ", ".join(f"'{name}' {shape}" for name, shape in zip(names, shapes, strict=True))
        raise ConstraintError(
            f"constraint={constraint!r} in {where}: it holds weights of shapes {constraint.shapes} "
            f"together, and the group has {found}. Keep the "
            "parameters of a rule of colangevin.constrain in one group and in their order."
        )


def check_alike(unit: Unit, constraint: Constraint) -> None:
    """Raise unless parameters that are held together can be moved as one weight.

    Args:
        unit: the parameters.
        constraint: what holds them.

    Raises:
        ConstraintError: naming the first that is sharded, frozen, or of another dtype or device.
    """
    if not unit.together:
        return
    first, group = unit.first, f"{constraint!r} holds it together with others ({unit.name})"
    for name, each in zip(unit.names, unit.parameters, strict=True):
        what = label(name, each.shape)
        if is_sharded(each):
            raise ConstraintError(
                f"{what}: is a DTensor, and {group}. What is held together has to be whole on every process: "
                "leave these parameters out of fully_shard and parallelize_module."
            )
        if not each.requires_grad:
            raise ConstraintError(
                f"{what}: is frozen (requires_grad=False), and {group}, so it would have to move. Unfreeze "
                "it, or write g for the others alone."
            )
        if (each.dtype, each.device) != (first.dtype, first.device):
            raise ConstraintError(
                f"{what}: is {each.dtype} on {each.device}, and {group}, of which '{unit.names[0]}' is "
                f"{first.dtype} on {first.device}. Give them one dtype and one device."
            )
