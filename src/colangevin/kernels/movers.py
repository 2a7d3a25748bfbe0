"""The three families of fused steps: lines and circles, spheres, orthogonal matrices."""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from colangevin.constraints import Circle, Sphere
from colangevin.kernels.columns import ChunkRow, LineReals, LineRow, SphereRow
from colangevin.kernels.elementwise.overdamped import overdamped
from colangevin.kernels.elementwise.underdamped import underdamped
from colangevin.kernels.fused import Form, Fused, Letters, copy_values
from colangevin.kernels.launch import Launch
from colangevin.kernels.letters import encoded
from colangevin.kernels.projection import Matrices, Matrix
from colangevin.kernels.sphere import sphere
from colangevin.optim.entry import Entry

__all__ = ["ElementwiseMover", "OrthogonalMover", "SphereMover"]

_BLOCK = 256  # elements a program of the elementwise kernels works on
# Of the underdamped one: with all the registers that it would take, fewer programs run at a time, too few to
# keep the memory busy.
_SMALL = {"num_warps": 1, "maxnreg": 64}
_TILE = 1024  # entries a program of the sphere kernel works on
_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def _address(tensor: Tensor | None, element: int) -> int:
    """Where an element of a dense tensor lies; 0 when there is no tensor."""
    return 0 if tensor is None else tensor.data_ptr() + element * tensor.element_size()


class _Lines:
    """Table and launches of the elementwise kernels.

    Args:
        mover: whose parameters they move.
        weights: what is moved: the parameters, or something of their size in their place.
        counts: whether a launch adds 1 to the step counts.
    """

    def __init__(self, mover: Fused, weights: Sequence[Tensor], *, counts: bool) -> None:
        rows: list[LineRow] = []
        reals: list[LineReals] = []
        chunks: list[ChunkRow] = []
        for number, (entry, weight) in enumerate(zip(mover.entries, weights, strict=True)):
            numel = math.prod(entry.shape)
            radius = entry.constraint.radius if isinstance(entry.constraint, Circle) else 0.0
            radii = [radius] * entry.copies if isinstance(radius, float) else radius.flatten().tolist()
            decays = copy_values(entry.group["weight_decay"], entry.copies)
            state = entry.state
            for copy in range(entry.copies):
                chunks += [ChunkRow(row=len(rows), block=block) for block in range(-(-numel // _BLOCK))]
                rows.append(
                    LineRow(
                        weight=_address(weight, copy * numel),
                        momentum=_address(state.get("momentum"), copy * numel),
                        position=_address(state.get("position"), copy * numel),
                        step=state["step"].data_ptr(),
                        elements=numel,
                        parameter=entry.index,
                        # the launch that counts steps makes no noise, and knows a parameter's first copy by 0
                        copy=copy if counts else entry.numbers[copy],
                        seed=entry.group["seed"] or 0,
                        flag=number,
                    )
                )
                reals.append(LineReals(radius=radii[copy], decay=decays[copy]))
        self.table = mover.upload(rows, torch.int64)
        self.reals = mover.upload(reals, torch.float32)
        self.chunks = mover.upload(chunks, torch.int32)
        self._aligned = all(
            number % 16 == 0
            for row in rows
            for number in (row.weight, row.momentum, row.position, 4 * row.elements)
        )
        self._mover = mover
        self._options = {
            "COUNTS": counts,
            "MAXIMIZE": bool(mover.entries[0].group["maximize"]),
            "weight_type": _TYPES[weights[0].dtype],
            "grad_type": _TYPES[mover.entries[0].grad.dtype],
            "BLOCK": _BLOCK,
        }
        self._launches: dict[object, Launch] = {}

    def __call__(self, form: Form, grads: Tensor, rates: Tensor, letters: Letters, draw: int = 0) -> None:
        """Letters on every weight, the overdamped step if none; ``draw`` counts the Os that came before."""
        key = (
            tuple(letters),
            draw,
            form.noisy,
            form.varies,
            self._mover.trusted,
            self._mover.gradients_aligned,
        )
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._compose(*key)
        launch(self.table, grads, self.reals, self.chunks, self._mover.flags, rates)

    def _compose(
        self, letters: Letters, draw: int, noise: bool, varies: bool, trusted: bool, aligned: bool
    ) -> Launch:
        aligned = self._aligned and aligned
        options = {**self._options, "NOISE": noise, "VARIES": varies, "TRUSTED": trusted, "ALIGNED": aligned}
        if not letters:
            return Launch(overdamped, len(self.chunks), **options, num_warps=2)
        moves = any(letter == "A" for letter, _ in letters)
        code = {
            "LETTERS": encoded(letter for letter, _ in letters),
            "COUNT": len(letters),
            "MOVES": moves,
            "DRAW": draw,
        }
        return Launch(underdamped, len(self.chunks), **code, **options, **_SMALL)


class ElementwiseMover(Fused):
    """Free and circle parameters: one launch."""

    def tabulate(self, form: Form) -> None:
        # with noise every program reads the step count, so that none may change it
        self.counts = form.noisy
        self.lines = _Lines(self, [entry.parameter for entry in self.entries], counts=not form.noisy)

    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        self.lines(form, grads, rates, form.letters)


class SphereMover(Fused):
    """Sphere parameters, all with slack or all without: one launch for each width of rows."""

    def tabulate(self, form: Form) -> None:
        rows: list[SphereRow] = []
        decays: list[float] = []
        chunks: dict[tuple[int, bool], list[ChunkRow]] = {}
        self.radii = []
        for number, entry in enumerate(self.entries):
            count, held = entry.configuration_shape
            constraint = entry.constraint
            assert isinstance(constraint, Sphere)
            n = held - int(constraint.slack)
            radius = torch.as_tensor(constraint.radius, dtype=torch.float32)
            radii = self.upload(radius.expand(entry.copies, count).tolist(), torch.float32)
            self.radii.append(radii)
            width = triton.next_power_of_2(held)
            state = entry.state
            kept = [state[key] for key in ("momentum", "position") if key in state and constraint.slack]
            length = kept[0].stride(-2) if kept else held
            aligned = n % 4 == 0 and length % 4 == 0 and self._at_multiples_of_16(entry)
            for copy in range(entry.copies):
                block = max(1, _TILE // width)
                blocks = chunks.setdefault((width, aligned), [])
                blocks += [ChunkRow(row=len(rows), block=chunk) for chunk in range(-(-count // block))]
                rows.append(
                    SphereRow(
                        weight=_address(entry.parameter, copy * count * n),
                        momentum=_address(state.get("momentum"), copy * count * length),
                        position=_address(state.get("position"), copy * count * length),
                        step=state["step"].data_ptr(),
                        radii=_address(radii, copy * count),
                        rows=count,
                        entries=n,
                        stride=length,
                        parameter=entry.index,
                        copy=entry.numbers[copy],
                        seed=entry.group["seed"] or 0,
                        flag=number,
                    )
                )
                decays.append(copy_values(entry.group["weight_decay"], entry.copies)[copy])
        self.table = self.upload(rows, torch.int64)
        self.decays = self.upload(decays, torch.float32)
        first = self.entries[0]
        assert isinstance(first.constraint, Sphere)
        letters = form.letters
        self.launches = [
            (
                Launch(
                    sphere,
                    len(blocks),
                    LETTERS=encoded(letter for letter, _ in letters),
                    COUNT=len(letters),
                    NOISE=form.noisy,
                    VARIES=form.varies,
                    SLACK=int(first.constraint.slack),
                    STORED="position" in first.state,
                    MAXIMIZE=bool(first.group["maximize"]),
                    weight_type=_TYPES[first.parameter.dtype],
                    grad_type=_TYPES[first.grad.dtype],
                    ALIGNED=aligned,
                    ROWS=max(1, _TILE // width),
                    WIDTH=width,
                    num_warps=max(4, min(16, width // 256)),
                ),
                self.upload(blocks, torch.int32),
            )
            for (width, aligned), blocks in chunks.items()
        ]

    @staticmethod
    def _at_multiples_of_16(entry: Entry) -> bool:
        tensors = (entry.parameter, entry.grad, entry.state.get("momentum"), entry.state.get("position"))
        return all(tensor is None or tensor.data_ptr() % 16 == 0 for tensor in tensors)

    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        for launch, chunks in self.launches:
            launch(self.table, grads, self.decays, chunks, self.flags, rates)


class OrthogonalMover(Fused):
    """Orthogonality: momenta by the elementwise kernels, drift and projections by the matrix kernels."""

    def tabulate(self, form: Form) -> None:
        # X lies in the weight, or in its float32 copy in the state
        places = [entry.state.get("position", entry.parameter) for entry in self.entries]
        matrices: list[Matrix] = []
        firsts = []
        for entry, place in zip(self.entries, places, strict=True):
            rows, columns = entry.shape[0], math.prod(entry.shape[1:])
            firsts.append(len(matrices))
            for copy in range(entry.copies):
                X = _address(place, copy * rows * columns)
                P = _address(entry.state.get("momentum"), copy * rows * columns)
                matrices.append(Matrix(X, P, rows, columns))
        overdamped = "momentum" not in self.entries[0].state
        self.matrices = Matrices(matrices, self.upload, overdamped=overdamped, varies=form.varies)
        if not overdamped:
            self.lines = _Lines(self, places, counts=False)
        else:
            # the overdamped step moves a copy of every X, in one piece of memory
            self.flat = [torch.as_strided(place, (place.numel(),), (1,)) for place in places]
            self.ahead = torch.empty(self.matrices.copy_size, device=self.device)
            starts = [self.matrices.offsets[first] for first in firsts]
            self.copies = [
                self.ahead[start : start + flat.numel()]
                for start, flat in zip(starts, self.flat, strict=True)
            ]
            self.lines = _Lines(self, self.copies, counts=False)

    def launch(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        stored = [entry for entry in self.entries if "position" in entry.state]
        for entry in stored:  # as Constraint.reconcile, but without asking whether there is an edit
            position = entry.state["position"]
            edited = position.to(entry.parameter.dtype) != entry.parameter
            position.copy_(torch.where(edited, entry.parameter.to(position.dtype), position))
        if form.letters:
            self._underdamped(form, grads, rates)
        else:
            torch._foreach_copy_(self.copies, self.flat)
            self.lines(form, grads, rates, ())
            self.matrices.drift(rates, self.ahead)
        if stored:
            weights = [entry.parameter for entry in stored]
            torch._foreach_copy_(weights, [entry.state["position"] for entry in stored])

    def _underdamped(self, form: Form, grads: Tensor, rates: Tensor) -> None:
        """Runs of O and B on the momenta without their projections, which the next A or the end makes."""
        run: list[tuple[str, float]] = []
        draws = 0
        for letter in form.letters:
            if letter[0] != "A":
                run.append(letter)
                continue
            if run:
                self.lines(form, grads, rates, run, draws)
            draws += sum(letter == "O" for letter, _ in run)
            run = []
            self.matrices.drift(rates)
        if run:
            self.lines(form, grads, rates, run, draws)
            self.matrices.tangent(rates)
