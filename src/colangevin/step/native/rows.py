"""Rows: what the native library knows of one parameter, a row for each copy or for each matrix of one."""

import ctypes
import weakref

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.constraints.forms import (
    BlocksForm,
    ElementwiseForm,
    Form,
    LevelForm,
    OrthogonalForm,
    SimplexForm,
    SphereForm,
    SquareForm,
)
from colangevin.dynamics.rates import Scalar, varies
from colangevin.native import tables
from colangevin.native.tables import (
    CIRCLE,
    FRAME,
    LEVEL,
    LINE,
    SIMPLEX,
    SPHERE,
    SQUARE,
    TYPES,
    Program,
    Weight,
)
from colangevin.noise import Window
from colangevin.step.entry import STATE, Entry
from colangevin.step.native.radii import one_a_copy, radius_table

__all__ = ["Rows"]

# Elements from which on the checksum of a weight leaves most of them out: a whole one would cost a third of a
# sphere's step.
_LARGE = 1 << 16
# What an element of a matrix costs at least, in units of one that moves alone: some thirty passes.
_OF_A_MATRIX = 32
_NUMBERS = {
    SquareForm: SQUARE,
    SphereForm: SPHERE,
    SimplexForm: SIMPLEX,
    LevelForm: LEVEL,
    OrthogonalForm: FRAME,
    BlocksForm: FRAME,
}
_MASK = (1 << 64) - 1


class Rows:
    """The rows of a parameter.

    They outlive a plan: what the last step left, which tells an edit, is in them.

    Args:
        entry: the parameter.
    """

    def __init__(self, entry: Entry) -> None:
        # weak, since the entry holds its rows: weights are freed without waiting for the garbage collector
        self._entry = weakref.ref(entry)
        form = entry.form
        assert form is not None
        self._matrices = form.matrices if isinstance(form, BlocksForm) else 1
        self.table = (Weight * (entry.copies * self._matrices))()
        #: steps taken, until the first one is complete and the state has a number of its own
        self.count = torch.zeros((), dtype=torch.int64, device="cpu")
        #: for a list of all rows of a job
        self.pointers = [ctypes.pointer(row) for row in self.table]
        elements = entry.numel // len(self.table)
        sphere = isinstance(form, SphereForm)
        alone = isinstance(form, ElementwiseForm | SquareForm)
        rows, held = (0, 0) if alone else entry.configuration_shape[-2:]
        slack = int(isinstance(form, SphereForm) and form.slack)
        radius = form.radius if isinstance(form, ElementwiseForm | SphereForm) else None
        window = entry.window or Window(0, elements, 0)
        for place, row in enumerate(self.table):
            copy, matrix = divmod(place, self._matrices)
            row.elements, row.rows, row.entries, row.slack = elements, rows, held - slack, slack
            row.form = _number(form)
            row.weight_type, row.state_type = TYPES[entry.parameter.dtype], TYPES[entry.dtype]
            row.sampled = row.form not in (LINE, FRAME) and entry.numel > _LARGE
            row.radius = _radius(form)
            first = window.first + matrix * elements
            row.window = tables.Window(first, min(window.length, elements), window.stride)
            row.word, row.copy, row.counts = entry.word & _MASK, entry.numbers[copy], place == 0
        if radius is not None:
            self._set_radii(radius_table(radius, entry), one=one_a_copy(radius, entry) and not sphere)

    def _set_radii(self, radii: Tensor, *, one: bool) -> None:
        self._radii = radii  # kept alive
        # not asked of a part: where the whole has several radii, it rounds as the whole does
        alike = self.entry.window is None and bool((radii == radii[0, 0]).all())
        for copy, row in enumerate(self.table):
            if one or alike:
                row.radius = float(radii[copy, 0])
            else:
                row.radii = radii[copy].data_ptr()

    @property
    def entry(self) -> Entry:
        """The parameter."""
        entry = self._entry()
        assert entry is not None
        return entry

    # ---- what may change between steps -----------------------------------------------------------

    def point_to_weight(self) -> None:
        """Take the address of the weight."""
        weight = self.entry.parameter
        for place, row in enumerate(self.table):
            row.weight = weight.data_ptr() + place * row.elements * weight.element_size()

    def point_to_gradient(self) -> None:
        """Take the addresses of the gradient."""
        grad = self.entry.grad
        for place, row in enumerate(self.table):
            row.gradient = grad.data_ptr() + place * row.elements * grad.element_size()
            row.gradient_type = TYPES[grad.dtype]

    def point_to_state(self) -> None:
        """Take the addresses of the state, and the options of the group."""
        entry = self.entry
        state, group = entry.state, entry.group
        for key in state.keys() & set(STATE):
            entry.align(key)
        if "step" in state:
            entry.begin_count()
        else:
            self.count = torch.zeros((), dtype=torch.int64, device="cpu")
        momentum, position, second = map(state.get, ("momentum", "position", "second_moment"))
        for place, row in enumerate(self.table):
            copy, matrix = divmod(place, self._matrices)
            first = matrix * row.elements
            row.momentum = None if momentum is None else _address(momentum, copy, first, entry)
            row.position = None if position is None else _address(position, copy, first, entry)
            row.second = None if second is None else _address(second, copy, first, entry)
            row.step = state.get("step", self.count).data_ptr()
            kept = momentum if position is None else position
            row.stride = kept.stride(-2) if kept is not None and row.slack else row.entries
            # Adam's is among its numbers
            row.decay = 0.0 if self._programs[0].adam else _of_copy(group["weight_decay"], copy)
            row.seed = (group["seed"] or 0) & _MASK
            row.maximize = bool(group["maximize"])

    @property
    def matrices(self) -> bool:
        """Whether the parameter has matrices that are moved as a whole."""
        return bool(self.table[0].form == FRAME)

    @property
    def cost(self) -> int:
        """How long a step of it takes, in units of an element that moves alone."""
        shape = self.entry.configuration_shape[-2:]
        return self.entry.numel * (_OF_A_MATRIX + min(shape) if self.matrices else 1)

    @property
    def steps_before(self) -> int:
        """How many steps the parameter had taken when the last segment began."""
        return int(self.entry.state.get("step", self.count)) - self.completes

    def note_solves(self) -> None:
        """Count how the multipliers of the last segment were found; plain torch counts its own."""
        moved = [row for row in self.table if not row.left_out]
        drifts = self._programs[0].letter.count(b"A") or 1
        for drift in range(drifts if moved else 0):
            rounds = 0 if drift else max(row.rounds for row in moved)
            fallbacks = 0 if drift else sum(row.polar for row in moved)
            solves.note("Orthogonal", self.entry.parameter.device, len(moved), rounds, fallbacks)

    @property
    def completes(self) -> bool:
        """Whether a step ends with the segment that it follows."""
        return bool(self._programs[0].completes)

    def follow(self, programs: list[Program], bound: float) -> None:
        """Take the numbers of a segment, and the largest norm of a gradient that nobody has to look at."""
        self._programs = programs  # kept alive
        for place, row in enumerate(self.table):
            row.program, row.bound = ctypes.pointer(programs[place // self._matrices]), bound


def _number(form: Form) -> int:
    """The number of a form."""
    if isinstance(form, ElementwiseForm):
        return LINE if form.radius is None else CIRCLE
    return _NUMBERS[type(form)]


def _radius(form: Form) -> float:
    """What a form has instead of a radius, or 1."""
    if isinstance(form, LevelForm):
        return form.mean
    return form.scale if isinstance(form, BlocksForm) else 1.0


def _address(tensor: Tensor, copy: int, first: int, entry: Entry) -> int:
    """Where an element of a copy lies in a tensor of the state."""
    length = tensor.stride(0) if entry.copies > 1 else 0
    return int(tensor.data_ptr() + (copy * length + first) * tensor.element_size())


def _of_copy(value: Scalar, copy: int) -> float:
    return float(value[copy] if varies(value) else value)
