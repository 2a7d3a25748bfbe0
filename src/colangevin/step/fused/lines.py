"""Free and circle parameters, whose elements move one by one."""

from collections.abc import Sequence

from torch import Tensor

from colangevin.constraints.forms import SquareForm
from colangevin.kernels.elementwise.overdamped import overdamped
from colangevin.kernels.elementwise.underdamped import underdamped
from colangevin.kernels.letters import encoded
from colangevin.step.fused.fused import Fused
from colangevin.step.fused.launch import Launch
from colangevin.step.fused.line_tables import LineTable
from colangevin.step.fused.memory import TYPES
from colangevin.step.fused.pattern import Letters, Pattern

__all__ = ["ElementwiseMover", "Lines"]

_BLOCK = 256  # elements that a program works on
# Compiler options of the underdamped kernel. Without the limit it takes so many registers that too few
# programs run at a time to keep the memory busy.
_SMALL = {"num_warps": 1, "maxnreg": 64}


class Lines:
    """Tables and launches of the elementwise kernels.

    Args:
        mover: whose parameters they move.
        weights: what they move: the parameters, or tensors of their size in their place.
        counts: whether a launch adds 1 to the step counts.
    """

    def __init__(self, mover: Fused, weights: Sequence[Tensor], *, counts: bool) -> None:
        self._table = LineTable(mover.entries, weights, mover.upload, _BLOCK, counts=counts)
        self._mover = mover
        self._options = {
            "COUNTS": counts,
            "DIGITS": self._table.digits,
            "SQUARES": isinstance(mover.entries[0].form, SquareForm),
            "RADII": self._table.radii,
            "PARTS": any(entry.window is not None for entry in mover.entries),
            "MAXIMIZE": bool(mover.entries[0].group["maximize"]),
            "weight_type": TYPES[weights[0].dtype],
            "grad_type": TYPES[mover.entries[0].grad.dtype],
            "BLOCK": _BLOCK,
        }
        self._launches: dict[object, Launch] = {}

    def __call__(
        self, pattern: Pattern, grads: Tensor, rates: Tensor, letters: Letters, draw: int = 0
    ) -> None:
        """Follow letters with every weight, or take the overdamped step if there are none.

        Args:
            pattern: of the whole step.
            grads: addresses of the gradients.
            rates: of the step.
            letters: those of this launch.
            draw: how many Os of the step came in launches before.
        """
        mover = self._mover
        key = (tuple(letters), draw, pattern.noisy, pattern.varies, mover.trusted, mover.gradients_aligned)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._compose(*key)
        table = self._table
        launch(table.rows, grads, table.reals, table.chunks, mover.flags.table, rates)

    def _compose(
        self, letters: Letters, draw: int, noise: bool, varies: bool, trusted: bool, aligned: bool
    ) -> Launch:
        aligned = self._table.aligned and aligned
        options = {**self._options, "NOISE": noise, "VARIES": varies, "TRUSTED": trusted, "ALIGNED": aligned}
        if not letters:
            # Programs compiled apart (PARTS, ALIGNED) would fuse other products with sums, and a part of a
            # weight has to move bit for bit as in the whole.
            return Launch(overdamped, len(self._table.chunks), **options, num_warps=2, enable_fp_fusion=False)
        names = [name for name, _ in letters]
        code = {"LETTERS": encoded(names), "COUNT": len(names), "MOVES": "A" in names, "DRAW": draw}
        return Launch(underdamped, len(self._table.chunks), **code, **options, **_SMALL)


class ElementwiseMover(Fused):
    """Free and circle parameters: one launch."""

    def tabulate(self, pattern: Pattern) -> None:
        # with noise every program reads the step count, so none of them may change it
        self.counts = pattern.noisy
        self.lines = Lines(self, [entry.parameter for entry in self.entries], counts=not pattern.noisy)

    def launch(self, pattern: Pattern, grads: Tensor, rates: Tensor) -> None:
        self.lines(pattern, grads, rates, pattern.letters)
