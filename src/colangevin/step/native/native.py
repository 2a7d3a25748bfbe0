"""Parameters that the native library moves: two calls a step, one that looks and one that moves."""

import ctypes
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from colangevin.constraints import solves
from colangevin.dynamics import Dynamics
from colangevin.dynamics.rates import stamp
from colangevin.native.library import Library, library
from colangevin.native.tables import Finding, Job, Program, Weight
from colangevin.step.entry import Entry
from colangevin.step.gradients import largest_norm
from colangevin.step.mover import Mover
from colangevin.step.native.eligible import natively
from colangevin.step.native.left_out import move_plainly
from colangevin.step.native.programs import programs
from colangevin.step.native.rows import Rows

__all__ = ["Native"]

_SMALL = 1 << 15  # elements that move alone, up to which a second thread costs more than it does

_KEPT = ("momentum", "position", "second_moment", "step")  # what a step keeps in the state


class Native(Mover):
    """All parameters of an optimizer that the native library can move.

    Args:
        entries: the parameters.
    """

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        used = library()
        assert used is not None
        self._library: Library = used
        for entry in entries:
            if entry.rows is None:
                entry.rows = Rows(entry)
        self._rows: list[Rows] = [entry.rows for entry in entries]
        self._job = Job()
        self._call = ctypes.byref(self._job)
        # the longest work first, so that no thread begins it when the others are done
        by_cost = sorted(self._rows, key=lambda rows: -rows.cost)
        pointers = [pointer for rows in by_cost for pointer in rows.pointers]
        self._pointers = (ctypes.POINTER(Weight) * len(pointers))(*pointers)
        self._job.weights, self._job.count = self._pointers, len(pointers)
        self._small = sum(rows.cost for rows in self._rows) <= _SMALL
        self._matrices = [rows for rows in self._rows if rows.matrices]
        self._parameters = [entry.parameter for entry in entries]
        self._groups = list({entry.group_index: entry.group for entry in entries}.items())
        # what rows hold: addresses of weights, gradients and state, options, and numbers
        self._weights: list[int] = []
        self._gradients: list[int] = []
        self._state: list[int] = []
        self._options: list[tuple[object, ...]] = []
        self._followed: tuple[Sequence[Dynamics], int] = ((), -1)
        self._versions: list[int] = []  # of the parameters after the last step
        self._doubted = False  # whether the last look found anything
        self._uncounted = True  # whether a state may lack its number of steps
        self._edited: list[Entry] = []
        self._lifted: list[tuple[Entry, Tensor]] = []

    # ---- the step --------------------------------------------------------------------------------

    def doubtful(self, dynamics: Sequence[Dynamics], segment: int) -> list[Entry]:
        if self._followed[0] is not dynamics or self._followed[1] != segment:
            self._follow(dynamics, segment)
        versions = [parameter._version for parameter in self._parameters]
        weights = [parameter.data_ptr() for parameter in self._parameters]
        same = versions == self._versions and weights == self._weights
        if weights != self._weights:
            for rows in self._rows:
                rows.point_to_weight()
        changed = set() if same else self._changed(versions, weights)
        self._versions, self._weights = versions, weights
        self._point_to_gradients()
        self._use_threads()
        found = self._library.look(self._call)
        self._doubted = bool(found)
        if same and not found:
            self._edited = []
            return []
        edited = {id(rows.entry) for rows in self._rows if any(row.edited for row in rows.table)}
        self._edited = [entry for entry in self.entries if id(entry) in edited | changed]
        return [rows.entry for rows in self._rows if any(row.doubtful for row in rows.table)]

    def edited(self) -> list[Entry]:
        for entry in self.entries:
            entry.untouched = True
        for entry in self._edited:
            entry.untouched = False
        return self._edited

    def prepare(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        if self._doubted:  # a gradient that was too large has been cut, into new memory
            self._point_to_gradients()
        options = [
            (group["seed"], group["maximize"], type(dynamics[index]), *stamp(group["weight_decay"]))
            for index, group in self._groups
        ]
        state = self._addresses()
        self._lifted = []
        if self._edited or state != self._state or options != self._options:
            for entry in self.entries:
                self._settle(entry, dynamics[entry.group_index].kept(entry.manifold))
            for rows in self._rows:
                rows.point_to_state()
            self._uncounted = True
            self._options = options
            self._state = self._addresses()

    def advance(self) -> None:
        for entry, weight in self._lifted:
            entry.stack(entry.parameter).copy_(weight)
        self._library.move(self._call)
        if self._matrices:
            self._move_matrices()

    def finish(self) -> None:
        if self._uncounted:
            for rows in self._rows:
                if rows.completes and "step" not in rows.entry.state:
                    rows.entry.state["step"] = rows.count
            self._uncounted = not all("step" in entry.state for entry in self.entries)
        torch.autograd.graph.increment_version(self._parameters)
        self._versions = [parameter._version for parameter in self._parameters]

    # ---- what rows hold --------------------------------------------------------------------------

    def _follow(self, dynamics: Sequence[Dynamics], segment: int) -> None:
        """Take the numbers of a segment of other dynamics than before."""
        made: dict[tuple[int, int], list[Program]] = {}
        for rows in self._rows:
            entry = rows.entry
            mine = natively(entry, dynamics[entry.group_index])
            key = (id(mine), entry.copies)
            if key not in made:
                made[key] = programs(mine, segment, entry.copies)
            rows.follow(made[key], largest_norm(entry, mine))
        self._followed = dynamics, segment

    def _addresses(self) -> list[int]:
        """Where the state lies; others may keep things of their own in it."""
        states = [entry.state for entry in self.entries]
        try:
            return [state[key].data_ptr() for state in states for key in _KEPT if key in state]
        except AttributeError:  # not a tensor: rows say what to do about it
            return []

    def _changed(self, versions: list[int], weights: list[int]) -> set[int]:
        """Parameters that torch saw written, or replaced, since the last step."""
        if not self._versions:
            return set(map(id, self.entries))
        before = zip(self._versions, self._weights, strict=True)
        now = zip(versions, weights, strict=True)
        return {id(entry) for entry, a, b in zip(self.entries, before, now, strict=True) if a != b}

    def _point_to_gradients(self) -> None:
        gradients = [entry.grad.data_ptr() for entry in self.entries]
        if gradients != self._gradients:
            for rows in self._rows:
                rows.point_to_gradient()
            self._gradients = gradients

    def _move_matrices(self) -> None:
        """Count what was iterated, and move in plain torch what the library left out."""
        dynamics, segment = self._followed
        left_out = [rows for rows in self._matrices if any(row.left_out for row in rows.table)]
        for rows in left_out:
            matrices = [place for place, row in enumerate(rows.table) if row.left_out]
            move_plainly(rows.entry, matrices, dynamics[rows.entry.group_index], segment, rows.steps_before)
        if left_out:
            self._library.remember(self._call)
        if solves.current.get():
            for rows in self._matrices:
                rows.note_solves()

    def _use_threads(self) -> None:
        """As many as torch uses, each with room of its own."""
        threads = 1 if self._small else torch.get_num_threads()
        if threads != self._job.threads:
            self._job.threads = threads
            self._findings = (Finding * self._library.plan(self._call))()
            self._job.findings = self._findings
            self._room = torch.empty(self._job.whole_room_bytes, dtype=torch.uint8, device="cpu")
            self._job.room = self._room.data_ptr()

    def _settle(self, entry: Entry, moments: Iterable[str]) -> None:
        """Make the state of a parameter; a weight that has to be put onto its manifold is put there later."""
        if not entry.stored and not entry.untouched and not entry.manifold.free:
            q = entry.configuration()
            weight = entry.stack(entry.parameter).to(entry.dtype)
            if not torch.equal(q, entry.manifold.read(weight)):  # it is not where a step leaves it
                self._lifted.append((entry, entry.manifold.lower(q)))
        entry.settle(moments)
