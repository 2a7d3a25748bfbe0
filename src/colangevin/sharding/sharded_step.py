"""ShardedStep: the sharded parameters of an optimizer, from their parts to a step and back."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.dtypes import state_dtype
from colangevin.dynamics import Dynamics
from colangevin.errors import ConstraintError
from colangevin.sharding.agreement import Agreement
from colangevin.sharding.entries import PartEntry, TogetherEntry, WholeEntry
from colangevin.sharding.exchange import Parcel, Sheet, collect, deliver
from colangevin.sharding.layout import Layout
from colangevin.sharding.owners import owners, work
from colangevin.sharding.parameter import STATE, ShardedParameter
from colangevin.sharding.peers import Peers, peers
from colangevin.sharding.split import Split
from colangevin.sharding.ways import part_of, summed
from colangevin.step.entry import Entry

__all__ = ["ShardedStep"]

States = dict[Tensor, dict[str, Any]]


class ShardedStep:
    """All sharded parameters of an optimizer.

    A parameter whose parts move alone or together is stepped where its parts are. Any other is stepped by one
    rank, its owner: the parts of weight, gradient and state go there, and the parts of the new weight and
    state come back.

    Args:
        parameters: the parameters, the same on every rank.
    """

    def __init__(self, parameters: Sequence[ShardedParameter]) -> None:
        self.parameters = list(parameters)
        self.agreement = Agreement([sharded.parameter.device_mesh for sharded in parameters])
        self._exchanged: dict[Peers, list[ShardedParameter]] = {}
        for sharded in self.parameters:
            if sharded.way == "together":
                sharded.peers = peers(sharded.parameter.device_mesh, summed(sharded.layout, sharded.manifold))
            elif sharded.way == "owned":
                sharded.peers = peers(sharded.parameter.device_mesh, sharded.layout.cutting)
                self._exchanged.setdefault(sharded.peers, []).append(sharded)
        for theirs, exchanged in self._exchanged.items():
            for sharded, owner in zip(
                exchanged, owners([work(sharded.manifold) for sharded in exchanged], len(theirs)), strict=True
            ):
                sharded.owner = owner
        for sharded in self.parameters:
            sharded.entry = self._entry(sharded)
        #: what moves here
        self.entries = [sharded.entry for sharded in self.parameters if sharded.entry is not None]

    @staticmethod
    def _entry(sharded: ShardedParameter) -> Entry | None:
        place = sharded.name, sharded.index, sharded.word, sharded.group_index, sharded.group
        if sharded.peers is None:
            return PartEntry(sharded.part.detach(), sharded.region, *place)
        if sharded.way == "together":
            split = Split(sharded.layout, sharded.peers)
            manifold = part_of(sharded.manifold, sharded.region, split)
            return TogetherEntry(sharded.part.detach(), sharded.region, *place, manifold, split)
        if sharded.peers.me != sharded.owner:
            return None
        return WholeEntry(sharded.part.new_zeros(sharded.layout.whole).detach(), *place)

    # ---- before a step ---------------------------------------------------------------------------

    def take(self, states: States, dynamics: Sequence[Dynamics], segment: int) -> None:
        """Give every entry its gradient and state. Every rank has to call it.

        Args:
            states: the optimizer's state.
            dynamics: of every group.
            segment: of the step.
        """
        error = None
        try:
            for sharded in self.parameters:
                sharded.look()
                sharded.local_state(states)
        except ConstraintError as found:
            error = found
        together = [sharded for sharded in self.parameters if sharded.way == "together"]
        edited = self.agreement.reach(
            error,
            tuple(sharded.grad is not None for sharded in self.parameters),
            [sharded.edited for sharded in together],
        )
        self._active = [
            sharded
            for sharded in self.parameters
            if sharded.grad is not None and segment < dynamics[sharded.group_index].segments
        ]
        for sharded in self.parameters:
            if isinstance(sharded.entry, PartEntry):
                self._take_part(sharded, sharded.entry, states)
            elif sharded.entry is not None:
                sharded.entry.grad = None
        for sharded, each in zip(together, edited, strict=True):
            assert isinstance(sharded.entry, TogetherEntry)
            if each and sharded.entry.moves and sharded in self._active:
                sharded.entry.examine()
        waits = [self._collect(theirs, states) for theirs in self._exchanged]
        for wait in waits:
            wait()

    @staticmethod
    def _take_part(sharded: ShardedParameter, entry: PartEntry, states: States) -> None:
        entry.grad = sharded.grad
        if (
            sharded.parameter._version != sharded.version
        ):  # written as a DTensor, which the part does not count
            torch.autograd.graph.increment_version(entry.parameter)
            sharded.version = sharded.parameter._version
        state = sharded.local_state(states) if entry.moves else {}
        if state.keys() != entry.state.keys() or any(state[key] is not entry.state[key] for key in state):
            entry.bind(state)

    def _collect(self, theirs: Peers, states: States) -> Callable[[], None]:
        parameters = [sharded for sharded in self._exchanged[theirs] if sharded in self._active]
        parcels, names = [], []
        for sharded in parameters:
            assert sharded.grad is not None
            edited = torch.tensor([sharded.parameter._version != sharded.version], device=sharded.part.device)
            state = sharded.local_state(states)
            kept = [key for key in STATE if key in state]
            sheets = [
                Sheet(_one_each(sharded.layout), edited),
                Sheet(sharded.layout, sharded.part),
                Sheet(sharded.layout, sharded.grad),
                *(Sheet(sharded.state_layout, state[key]) for key in kept),
            ]
            parcels.append(Parcel(sharded.owner, sheets))
            names.append(("edited", "weight", "gradient", *kept))
        complete = collect(parcels, theirs)

        def take() -> None:
            complete()
            for sharded, parcel, keys in zip(parameters, parcels, names, strict=True):
                if isinstance(sharded.entry, WholeEntry):
                    values = {
                        key: sheet.whole
                        for key, sheet in zip(keys, parcel.sheets, strict=True)
                        if sheet.whole is not None
                    }
                    sharded.entry.state["step"] = states[sharded.parameter]["step"]
                    sharded.entry.refill(values, edited=bool(values["edited"].any()))

        return take

    def fail(self, error: Exception) -> None:
        """Tell the other ranks of an error, unless they raised it too. It is raised here or there."""
        if error is not self.agreement.raised:
            self.agreement.reach(error)

    def agree(self) -> None:
        """Raise the error of another rank, if one has failed."""
        self.agreement.reach(None)

    # ---- after a step ----------------------------------------------------------------------------

    def give(self, states: States, dynamics: Sequence[Dynamics], segment: int) -> None:
        """Put what the entries have become into parameters and state. Every rank has to call it.

        Args:
            states: the optimizer's state.
            dynamics: of every group.
            segment: of the step.
        """
        for wait in [self._deliver(theirs, states, dynamics) for theirs in self._exchanged]:
            wait()
        for sharded in self._active:
            if isinstance(sharded.entry, PartEntry):
                for key in sharded.entry.state.keys() & {"step", *STATE}:
                    sharded.store(states, key, sharded.entry.state[key])
            completes = segment == dynamics[sharded.group_index].segments - 1
            if completes and (sharded.entry is None or not sharded.entry.moves):
                states[sharded.parameter]["step"].add_(1)
            torch.autograd.graph.increment_version(sharded.parameter)
            sharded.version = sharded.parameter._version

    def _deliver(self, theirs: Peers, states: States, dynamics: Sequence[Dynamics]) -> Callable[[], None]:
        parameters = [sharded for sharded in self._exchanged[theirs] if sharded in self._active]
        parcels = []
        for sharded in parameters:
            state, entry = sharded.local_state(states), sharded.entry
            kept = [
                key
                for key in STATE
                if key in state or (key == "momentum" and dynamics[sharded.group_index].momentum)
            ]
            sheets = [Sheet(sharded.layout, sharded.part, None if entry is None else entry.parameter)]
            for key in kept:
                if key not in state or state[key].dtype != state_dtype(sharded.part.dtype):
                    state[key] = sharded.room()
                    sharded.store(states, key, state[key])
                sheets.append(
                    Sheet(sharded.state_layout, state[key], None if entry is None else entry.state[key])
                )
            parcels.append(Parcel(sharded.owner, sheets))
        return deliver(parcels, theirs)


def _one_each(layout: Layout) -> Layout:
    """The layout of a tensor with one number for each process that holds another part."""
    ranks = math.prod(layout.mesh[d] for d in layout.cutting)
    return Layout(
        (ranks,), layout.mesh, tuple((0, 1) if d in layout.cutting else None for d in range(len(layout.mesh)))
    )
