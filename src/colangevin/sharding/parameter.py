"""ShardedParameter: one sharded parameter of an optimizer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement

from colangevin.constraints import Constraint
from colangevin.constraints.dtypes import state_dtype
from colangevin.errors import ConstraintError, label
from colangevin.sharded import part
from colangevin.sharding.layout import Layout, layout_of
from colangevin.sharding.peers import Peers
from colangevin.sharding.states import wrapped
from colangevin.sharding.ways import way
from colangevin.step.entry import Entry, state_shape
from colangevin.step.hosted import untouched

__all__ = ["STATE", "ShardedParameter"]

#: what of the state lies as the parameter does
STATE = ("position", "momentum")


@dataclass(eq=False)
class ShardedParameter:
    """A sharded parameter.

    Attributes:
        parameter: the DTensor.
        name: what to call it in a message.
        index: its number in the optimizer.
        word: of its noise.
        group_index: the number of its group.
        group: its group.
    """

    parameter: DTensor
    name: str
    index: int
    word: int
    group_index: int
    group: dict[str, Any]

    def __post_init__(self) -> None:
        self.constraint: Constraint = self.group["constraint"]
        self.layout: Layout = layout_of(self.parameter, self.label)
        self.region = self.layout.region(self.parameter.device_mesh.get_coordinate() or ())
        self.manifold = self.constraint.on(self.parameter.shape)
        #: of a tensor of the state
        self.state_layout = self.layout.of_state(state_shape(self.manifold, self.layout.whole, 1))
        self.way = way(self.layout, self.manifold)
        #: the processes that it moves with; None if parts move alone
        self.peers: Peers | None = None
        #: which of them steps the whole weight, if one does
        self.owner = 0
        #: what moves here: the part, or the whole weight
        self.entry: Entry | None = None
        #: of the parameter after the last step
        self.version = -1
        self.grad: Tensor | None = None

    @property
    def label(self) -> str:
        """Name and shape, for a message."""
        return label(self.name, self.parameter.shape)

    @property
    def part(self) -> Tensor:
        """What this process holds of it."""
        return self.parameter._local_tensor

    @property
    def edited(self) -> bool:
        """Whether somebody wrote the part that moves here since the last step, as far as one can tell."""
        seen = self.entry is not None and untouched(self.entry)
        return self.parameter._version != self.version or not seen

    def look(self) -> None:
        """Take the part of the gradient.

        Raises:
            ConstraintError: for a gradient that lies on another mesh, or is no DTensor.
        """
        grad = self.parameter.grad
        if grad is None:
            self.grad = None
            return
        if not isinstance(grad, DTensor) or grad.device_mesh != self.parameter.device_mesh:
            lies = f"on {grad.device_mesh}" if isinstance(grad, DTensor) else "whole on this process"
            raise ConstraintError(
                f"{self.label}: lies on {self.parameter.device_mesh}, and its gradient {lies}. Give the "
                "gradient the mesh and the placements of the parameter."
            )
        if grad.placements != self.parameter.placements:  # a sum over ranks that nobody has taken yet, say
            grad = grad.redistribute(placements=self.parameter.placements)
        held = grad._local_tensor
        self.grad = held if held.numel() else held.view(self.region.shape)

    def local_state(self, states: dict[Tensor, dict[str, Any]]) -> dict[str, Tensor]:
        """The parts of the state that this process holds.

        Args:
            states: the optimizer's state.

        Returns:
            The parts by key.

        Raises:
            ConstraintError: when a tensor of the state lies elsewhere than its parameter.
        """
        state = states.get(self.parameter, {})
        expected = self.parameter.device_mesh, self.state_layout.placements
        for key in STATE:
            value = state.get(key)
            if value is not None and (not isinstance(value, DTensor) or _place(value) != expected):
                lies = _place(value) if isinstance(value, DTensor) else "this process alone"
                raise ConstraintError(
                    f"{self.label}: its {key} lies on {lies}, and should lie on {expected}: the parameter "
                    "was spread anew since its last step. Save a checkpoint before, build the model and its "
                    "optimizer on the new mesh, and load it there."
                )
        return {key: part(state[key]) for key in ("step", *STATE) if key in state}

    def store(self, states: dict[Tensor, dict[str, Any]], key: str, part: Tensor) -> None:
        """Put a part of the state into the optimizer's state, where it is not there already."""
        state = states[self.parameter]
        known = state.get(key)
        if key == "step":
            state[key] = part
        elif not isinstance(known, DTensor) or known._local_tensor is not part:
            state[key] = wrapped(part, self.state_layout, self.parameter.device_mesh)

    def room(self) -> Tensor:
        """Memory for this process's part of a tensor of the state."""
        shape = self.state_layout.region(self.parameter.device_mesh.get_coordinate() or ()).shape
        return torch.zeros(shape, dtype=state_dtype(self.parameter.dtype), device=self.part.device)


def _place(tensor: DTensor) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """The mesh that a DTensor lies on, and how."""
    return tensor.device_mesh, tuple(tensor.placements)
