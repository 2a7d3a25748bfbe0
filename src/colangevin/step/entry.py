"""One parameter of an optimizer: its weight and state as configuration, momentum and gradient."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Manifold
from colangevin.constraints.dtypes import state_dtype
from colangevin.dynamics import MOMENTS
from colangevin.dynamics.rates import factor, host, largest, varies
from colangevin.errors import ConstraintError, label
from colangevin.noise import Window

__all__ = ["STATE", "Entry", "state_shape"]

#: what of the state is in the coordinates of q
STATE = ("position", *MOMENTS)

# Entries of a row of the state, with slack, from which on it is padded: to multiples of 16 bytes for loads
# on CUDA, and of 64 bytes for the cache lines of a CPU.
_LONG_ROW, _VERY_LONG_ROW = 64, 256
# Largest violation that a step leaves, in units of the dtype's rounding: |Q^T Q - I| is 20 at 1024 x 256.
_SETTLED = 512.0


class Entry:
    """A parameter with its place in the optimizer.

    Args:
        parameter: the parameter.
        name: what to call it in a message.
        index: its number among all parameters of the optimizer.
        word: of its noise: what tells it from other parameters of the same seed, a number of 64 bits.
        group_index: the number of its group.
        group: the group.
        dtype: of its state; None for the one of Langevin dynamics.
        window: of a parameter that is a part of a weight: which elements it has, for their noise. Parts have
            no replicas.
        manifold: of a part of a weight that does not move alone; None: that of the group's constraint.
    """

    #: whether its tensors are parts of DTensors, or come from them
    sharded: ClassVar[bool] = False
    #: how the weight is cut whose parts move together; None: this parameter moves without others
    split: object = None

    def __init__(
        self,
        parameter: Tensor,
        name: str,
        index: int,
        word: int,
        group_index: int,
        group: dict[str, Any],
        *,
        dtype: torch.dtype | None = None,
        window: Window | None = None,
        manifold: Manifold | None = None,
    ) -> None:
        self.parameter = parameter
        self.name = name
        self.index = index
        self.word = word
        self.window = window
        self.group_index = group_index
        self.group = group
        self.state: dict[str, Any] = {}
        self.replicas: int = group["replicas"]
        self.copies = max(1, self.replicas)
        #: numbers of its copies, words of their noise
        self.numbers = range(group["first_replica"], group["first_replica"] + self.copies)
        self.shape = self.whole_shape[1:] if self.replicas else self.whole_shape
        self.constraint: Constraint = group["constraint"]
        self.manifold: Manifold = manifold or self.constraint.on(self.shape)
        self.form = self.manifold.form
        self.smallest_length = self.manifold.smallest_length
        #: whether the configuration is kept in the state
        self.stored = self.manifold.stored(parameter.dtype)
        self.dtype = dtype or state_dtype(parameter.dtype)
        self.numel = math.prod(self.whole_shape)
        self.grad: Tensor | Any = parameter.grad
        #: of the parameter after its last step; see :mod:`colangevin.step.hosted`
        self.stamp: object = None
        self.sums: tuple[Tensor, ...] = ()
        self.untouched = False
        #: what the native library knows of it, from its first step there on
        self.rows: Any = None
        self._configuration_shape: tuple[int, ...] | None = None
        self._state_shape: tuple[int, ...] | None = None

    @property
    def varies(self) -> bool:
        """Whether its copies decay each by a number of its own."""
        return varies(self.group["weight_decay"])

    @property
    def label(self) -> str:
        """Name and shape, for a message."""
        return label(self.name, self.whole_shape)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of the weight, copies included."""
        return tuple(self.parameter.shape)

    @property
    def weight(self) -> Tensor:
        """The weight, copies included."""
        return self.parameter

    @property
    def versions(self) -> object:
        """Changes when a parameter is replaced or written in torch's sight."""
        return self.parameter._version, self.parameter.data_ptr()

    @property
    def moves(self) -> bool:
        """Whether a step has anything to do for it."""
        return self.numel > 0

    @property
    def size(self) -> int:
        """How many elements the weight has that it is a copy or a part of."""
        return math.prod(self.shape)

    def check(self) -> None:
        """Raise unless the weight satisfies its constraint up to the rounding of a checkpoint."""
        self.constraint.check(self.weight, replicas=bool(self.replicas), name=self.name)

    # Kept when first asked for. A cached_property would make a dictionary of the entry's attributes, which
    # slows down every access to them.

    @property
    def configuration_shape(self) -> tuple[int, ...]:
        """The shape of q for one copy."""
        if self._configuration_shape is None:
            self._configuration_shape = self.manifold.configuration_shape
        return self._configuration_shape

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of position and moments in the state."""
        if self._state_shape is None:
            self._state_shape = state_shape(self.manifold, self.whole_shape, self.copies)
        return self._state_shape

    def bind(self, state: dict[str, Any] | None) -> None:
        """Take the optimizer's state of this parameter for its own, or a copy in the dtype it needs now.

        Args:
            state: None while there is none. It is not changed.

        Raises:
            ConstraintError: when it was made for another shape.
        """
        fitting = {} if state is None else dict(state)
        if not self.stored:
            fitting.pop("position", None)  # of a coarser dtype that the parameter had
        for key in [key for key in STATE if key in fitting]:
            if tuple(fitting[key].shape) != self.state_shape:
                raise ConstraintError(
                    f"{self.label}: its {key} has shape {tuple(fitting[key].shape)} and should have "
                    f"{self.state_shape}: the parameter was given another shape since its last step. Give it "
                    "the old shape back, or build a new optimizer for the new one."
                )
            fitting[key] = fitting[key].to(self.parameter.device, self.dtype)
        if "step" in fitting:
            fitting["step"] = self._counted(fitting["step"])
        kept = state or {}
        unchanged = kept.keys() == fitting.keys() and all(kept[key] is fitting[key] for key in kept)
        self.state = state if state is not None and unchanged else fitting

    # ---- reading ---------------------------------------------------------------------------------

    def stack(self, tensor: Tensor) -> Tensor:
        """A tensor of the parameter's shape with the dimension that counts copies in front."""
        return tensor if self.replicas else tensor.unsqueeze(0)

    def configuration(self) -> Tensor:
        """Where the parameter is: stored, read off the weight, or lifted from a weight that was changed."""
        weight = self.stack(self.weight)
        if "position" in self.state:
            return self.manifold.reconcile(weight, self._held("position"))
        weight = weight.to(self.dtype)
        # a weight that a step wrote is read as it is, also after a checkpoint, a copy or an undone step
        if self.step and (self.untouched or self._settled(weight)):
            return self.manifold.read(weight)
        return self.manifold.lift(weight)

    def _settled(self, weight: Tensor) -> bool:
        """Whether a stack of weights is as near to the manifold as a step leaves it."""
        return bool(self.manifold.infeasibility(weight).max() <= _SETTLED * torch.finfo(weight.dtype).eps)

    def moment(self, key: str) -> Tensor:
        """The stored momentum or another average, or zero: that makes the first step torch's."""
        if key in self.state:
            return self._held(key)
        return self.parameter.new_zeros(self.copies, *self.configuration_shape, dtype=self.dtype)

    def _held(self, key: str) -> Tensor:
        """A tensor of the state in the shape of stacked configurations."""
        if getattr(self.state[key], "dtype", None) != self.dtype:
            self.align(key)
        return self._configured(self.state[key])

    def gradient(self, *, decay: bool = True) -> Tensor:
        """The gradient of what is minimised, with weight decay in it or without."""
        grad = self.stack(self.grad).to(self.dtype)
        if self.group["maximize"]:
            grad = -grad
        if decay and largest(self.group["weight_decay"]):
            rate, weight = factor(host(self.group["weight_decay"]), self.stack(self.weight).to(self.dtype))
            grad = torch.add(grad, weight, alpha=rate)
        return grad

    def _configured(self, tensor: Tensor) -> Tensor:
        """A tensor of the state in the shape of stacked configurations."""
        return tensor.reshape(self.copies, *self.configuration_shape)

    # ---- writing ---------------------------------------------------------------------------------

    def settle(self, moments: Iterable[str]) -> None:
        """Make the state a step needs: the position of the weight as it is now, and some moments."""
        if self.stored and not ("position" in self.state and self.untouched):
            self._store("position", self.configuration())
        for key in moments:
            self.allocate(key)

    def write(self, q: Tensor, moments: Mapping[str, Tensor]) -> None:
        """Store where a step led."""
        q = self.manifold.stopped(q, self.parameter.dtype)
        self.stack(self.parameter).copy_(self.manifold.lower(q))
        self.keep(q, moments)

    def keep(self, q: Tensor, moments: Mapping[str, Tensor]) -> None:
        """Store in the state where a step led."""
        if self.stored:
            self._store("position", q)
        for key, value in moments.items():
            self._store(key, value)

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
            self.state[key] = self._room().zero_()
        tensor: Tensor = self.state[key]
        return tensor

    def align(self, key: str) -> None:
        """Make a tensor that others put into the state one as :meth:`allocate` makes it.

        Raises:
            ConstraintError: for what is no tensor, or one of another shape.
        """
        held, room = self.state[key], self._room()
        if not isinstance(held, Tensor) or held.shape != room.shape:
            kind = f"of shape {tuple(held.shape)}" if isinstance(held, Tensor) else repr(held)
            raise ConstraintError(
                f"{self.label}: its {key} in the state is {kind}, and has to be a tensor of shape "
                f"{tuple(room.shape)}. Put back what was there, or load a state dict."
            )
        if (held.dtype, held.device, held.stride()) != (room.dtype, room.device, room.stride()):
            self.state[key] = room.copy_(held)
            if key == "position" and held.dtype != room.dtype:  # which may have been too coarse
                self._store(key, self.configuration())

    def _room(self) -> Tensor:
        """Memory for a tensor of the state.

        It has the parameter's shape where q has as many entries and, where they come in the same order, its
        memory format, so that both can be walked through together. With slack it has the shape of q, and long
        rows are padded.

        Returns:
            The tensor.
        """
        shape = self.state_shape
        if shape == tuple(self.parameter.shape):
            lies = torch.preserve_format if self.manifold.ordered else torch.contiguous_format
            return torch.empty_like(self.parameter, dtype=self.dtype, memory_format=lies, requires_grad=False)
        multiple = 1 if shape[-1] < _LONG_ROW else 4 if shape[-1] < _VERY_LONG_ROW else 16
        length = -(-shape[-1] // multiple) * multiple
        # zeros, since the padding goes into checkpoints
        room = torch.zeros(*shape[:-1], length, dtype=self.dtype, device=self.parameter.device)
        return room[..., : shape[-1]]

    # ---- counting --------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """How many steps the parameter has taken."""
        return int(self.state.get("step", 0))

    def begin_count(self) -> None:
        """Make the number of steps in the state, when it is missing or of another kind."""
        self.state["step"] = self._counted(self.state.get("step", 0))

    def _counted(self, steps: Tensor | float) -> Tensor:
        """A number of steps as steps keep it."""
        right = isinstance(steps, Tensor) and steps.dtype == torch.int64 and not steps.dim()
        if isinstance(steps, Tensor) and right and steps.device == self.parameter.device:
            return steps
        return torch.tensor(int(steps), dtype=torch.int64, device=self.parameter.device)


def state_shape(manifold: Manifold, whole: tuple[int, ...], copies: int) -> tuple[int, ...]:
    """The shape of position and moments in the state: the parameter's, unless there is slack.

    Args:
        manifold: of one copy of the parameter.
        whole: the parameter's shape.
        copies: how many copies it has.

    Returns:
        The shape.
    """
    configured = (copies, *manifold.configuration_shape)
    return whole if math.prod(configured) == math.prod(whole) else configured
