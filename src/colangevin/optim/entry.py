"""One parameter of an optimizer: its weight and state as configuration, momentum and gradient."""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Circle, Constraint, Free
from colangevin.constraints.base import state_dtype
from colangevin.errors import ConstraintError, label
from colangevin.integrators.rates import factor, host, largest, varies
from colangevin.lasting import lasting

__all__ = ["Entry", "state_shape"]

_LONG_ROW = 64  # entries from which on a row is worth padding


class Entry:
    """A parameter with its place in the optimizer.

    Args:
        parameter: the parameter.
        name: what to call it in a message.
        index: its number among all parameters of the optimizer, a word of its noise.
        position: of its group.
        group: the group.
    """

    def __init__(
        self,
        parameter: Tensor,
        name: str,
        index: int,
        position: int,
        group: dict[str, Any],
    ) -> None:
        self.parameter = parameter
        self.name = name
        self.index = index
        self.position = position
        self.group = group
        self.state: dict[str, Any] = {}
        self.replicas: int = group["replicas"]
        self.copies = max(1, self.replicas)
        #: numbers of its copies, words of their noise
        self.numbers = range(group["first_replica"], group["first_replica"] + self.copies)
        self.shape = tuple(parameter.shape[1:] if self.replicas else parameter.shape)
        #: what its state is made under
        self.held_by: Constraint = group["constraint"]
        self.constraint: Constraint = self.held_by.on(self.shape)
        self.dtype = state_dtype(parameter.dtype)
        self.numel = parameter.numel()
        self.grad: Tensor | Any = parameter.grad
        self._written: tuple[int, int] | None = None
        self._sums: tuple[Tensor, ...] = ()
        self._untouched = False

    @property
    def varies(self) -> bool:
        """Whether its copies decay each by a number of its own."""
        return varies(self.group["weight_decay"])

    @property
    def label(self) -> str:
        """Name and shape, for a message."""
        return label(self.name, self.parameter.shape)

    # ---- before a step ---------------------------------------------------------------------------

    def bind(self, state: dict[str, Any] | None) -> None:
        """Take the optimizer's state of this parameter for its own, or a copy in the dtype it needs now.

        Args:
            state: None while there is none. It is not changed.

        Raises:
            ConstraintError: when it was made for another shape.
        """
        fitting = {} if state is None else dict(state)
        if not self.constraint.keeps_position(self.parameter.dtype):
            fitting.pop("position", None)  # of a coarser dtype that the parameter had
        for key in [key for key in ("position", "momentum") if key in fitting]:
            if tuple(fitting[key].shape) != self.state_shape:
                raise ConstraintError(
                    f"{self.label}: its {key} has shape {tuple(fitting[key].shape)} and should have "
                    f"{self.state_shape}: the parameter was given another shape since its last step. Give it "
                    "the old shape back, or build a new optimizer for the new one."
                )
            fitting[key] = fitting[key].to(self.parameter.device, self.dtype)
        if "step" in fitting:
            fitting["step"] = fitting["step"].to(self.parameter.device)
        kept = state or {}
        unchanged = kept.keys() == fitting.keys() and all(kept[key] is fitting[key] for key in kept)
        self.state = state if state is not None and unchanged else fitting

    def look(self) -> bool:
        """Whether only the optimizer wrote the parameter since its last step, as far as one can tell."""
        same = self._written == self._stamp()
        self._untouched = same and all(map(torch.equal, self._sums, self._checksum()))
        return self._untouched

    def remember(self) -> None:
        """Note what the parameter looks like after a step of ours."""
        self._written, self._sums = self._stamp(), self._checksum()

    def _stamp(self) -> tuple[int, int]:
        """Changes when the parameter is replaced or written in torch's sight."""
        return self.parameter._version, self.parameter.data_ptr()

    def _checksum(self) -> tuple[Tensor, ...]:
        """Changes when it is written through ``.data``; on the CPU, where that can be looked at."""
        if self.parameter.device.type != "cpu" or isinstance(self.constraint, Free):
            return ()
        # a step on circles costs a few passes over memory, so that one more would show
        sparse = isinstance(self.constraint, Circle) and self.numel > _LARGE
        return _checksum(self.parameter.detach(), *(_SPARSE if sparse else _DENSE))

    # ---- reading ---------------------------------------------------------------------------------

    def stack(self, tensor: Tensor) -> Tensor:
        """A tensor of the parameter's shape with the dimension that counts copies in front."""
        return tensor if self.replicas else tensor.unsqueeze(0)

    def configuration(self) -> Tensor:
        """Where the parameter is: stored, read off the weight, or lifted from a weight that was changed."""
        weight = self.stack(self.parameter)
        if "position" in self.state:
            return self.constraint.reconcile(weight, self._configured(self.state["position"]))
        weight = weight.to(self.dtype)
        # a weight that a step wrote is read as it is, also after a checkpoint, a copy or an undone step
        if "step" in self.state and (self._untouched or self.constraint.settled(weight)):
            return self.constraint.read(weight)
        return self.constraint.lift(weight)

    def settle(self, *, momentum: bool) -> None:
        """Make the state a step needs: the position of the weight as it is now, and the momentum."""
        if self.constraint.keeps_position(self.parameter.dtype) and not (
            "position" in self.state and self._untouched
        ):
            self._store("position", self.configuration())
        if momentum:
            self.allocate("momentum")

    def momentum(self) -> Tensor:
        """The stored momentum, or zero: p = 0 makes the first step that of torch.optim.SGD."""
        if "momentum" in self.state:
            return self._configured(self.state["momentum"])
        return self.parameter.new_zeros(self.copies, *self.configuration_shape, dtype=self.dtype)

    def gradient(self) -> Tensor:
        """The gradient of what is minimised, weight decay included."""
        grad = self.stack(self.grad).to(self.dtype)
        if self.group["maximize"]:
            grad = -grad
        if largest(self.group["weight_decay"]):
            decay, weight = factor(
                host(self.group["weight_decay"]), self.stack(self.parameter).to(self.dtype)
            )
            grad = torch.add(grad, weight, alpha=decay)
        return grad

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        """The shape of q for one copy."""
        return self.constraint.configuration_shape(self.shape)

    @property
    def step(self) -> int:
        """How many steps the parameter has taken."""
        return int(self.state.get("step", 0))

    # ---- writing ---------------------------------------------------------------------------------

    def write(self, q: Tensor, p: Tensor | None, *, last: bool) -> None:
        """Store a result; the last segment of a step completes it."""
        self.stack(self.parameter).copy_(self.constraint.lower(q, self.shape))
        if self.constraint.keeps_position(self.parameter.dtype):
            self._store("position", q)
        if p is not None:
            self._store("momentum", p)
        if last:
            self.count()
        self.remember()

    def _store(self, key: str, value: Tensor) -> None:
        room, value = self.allocate(key), value.reshape(self.state_shape)
        if room.data_ptr() != value.data_ptr():  # letters that leave q as it is hand the stored one back
            room.copy_(value)

    def allocate(self, key: str) -> Tensor:
        """The tensor of the state under ``key``, made when it is missing.

        Returns:
            The tensor.
        """
        if key not in self.state:
            self.state[key] = self._room()
        tensor: Tensor = self.state[key]
        return tensor

    def align(self, key: str) -> None:
        """Move a tensor of the state that came with a checkpoint to where :meth:`allocate` would put it."""
        room = self._room()
        if self.state[key].stride() != room.stride():
            self.state[key] = room.copy_(self.state[key])

    def _room(self) -> Tensor:
        """Zeros for a tensor of the state.

        They have the parameter's shape and memory format where q has as many entries, so that both can be
        walked through together. With slack they have the shape of q, and long rows are padded so that each
        begins at a multiple of 16 bytes.

        Returns:
            The tensor.
        """
        shape = self.state_shape
        if shape == tuple(self.parameter.shape):
            return torch.zeros_like(self.parameter, dtype=self.dtype, requires_grad=False)
        length = shape[-1] if shape[-1] < _LONG_ROW else -(-shape[-1] // 4) * 4
        room = torch.zeros(*shape[:-1], length, dtype=self.dtype, device=self.parameter.device)
        return room[..., : shape[-1]]

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of position and momentum in the state."""
        return state_shape(self.constraint, tuple(self.parameter.shape), self.shape, self.copies)

    def count(self) -> None:
        """One more step."""
        self.counter.add_(1)

    @property
    def counter(self) -> Tensor:
        """The number of steps in the state, made when it is missing."""
        if "step" not in self.state:
            self.state["step"] = torch.zeros((), dtype=torch.int64, device=self.parameter.device)
        counter: Tensor = self.state["step"]
        return counter

    def _configured(self, tensor: Tensor) -> Tensor:
        """A tensor of the state in the shape of stacked configurations."""
        return tensor.reshape(self.copies, *self.configuration_shape)


# Of every so many elements of a weight, how many from the first on are summed against one ramp. All of them:
# few enough that their rounding hides no edit of a single one by more than about 1e-5 of the largest in
# float32, and enough for the sums to cost no more than reading the weight. An eighth: as the fused step does.
_DENSE, _SPARSE = (4096, 4096), (256, 32)
# Elements from which on an eighth will do.
_LARGE = 1 << 16


def _checksum(weight: Tensor, row: int, summed: int) -> tuple[Tensor, ...]:
    """Sums over a weight that see its values, their signs and their order, in one pass."""
    flat = weight.reshape(-1).to(state_dtype(weight.dtype))
    count = flat.numel()
    if count < row:
        return (flat.dot(_ramp(count, flat.dtype)),)
    whole = count // row * row
    last = flat[whole:].dot(_ramp(count - whole, flat.dtype))
    return flat[:whole].view(-1, row)[:, :summed].mv(_ramp(summed, flat.dtype)), last


@lru_cache(maxsize=256)
@lasting
def _ramp(count: int, dtype: torch.dtype) -> Tensor:
    return torch.linspace(1, 2, count, dtype=dtype, device="cpu")


def state_shape(
    constraint: Constraint, whole: tuple[int, ...], shape: tuple[int, ...], copies: int
) -> tuple[int, ...]:
    """The shape of position and momentum in the state: the parameter's, unless there is slack.

    Args:
        constraint: what holds the parameter.
        whole: the parameter's shape.
        shape: that of one of its copies.
        copies: how many there are.

    Returns:
        The shape.
    """
    configured = (copies, *constraint.configuration_shape(shape))
    return whole if math.prod(configured) == math.prod(whole) else configured
