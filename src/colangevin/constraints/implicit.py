r"""General constraints: $g(w) = 0$, or $g(w) \le 0$ with slack, for any differentiable g."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from colangevin.constraints.constraint import Constraint
from colangevin.constraints.fingerprint import fingerprint, not_compared
from colangevin.constraints.parts import OVER, Over
from colangevin.constraints.several import parted
from colangevin.constraints.zero_set import ZeroSet
from colangevin.errors import ConstraintError, label

__all__ = ["Implicit"]


@dataclass(frozen=True)
class Implicit(Constraint):
    r"""Your own constraint as a function of the weight: $g(w) = 0$, or $g(w) \le 0$ for an inequality.

    Choose it for what no other constraint here says: those have closed forms, which are faster. Where g says
    the same of every row, write it for one row and pass `over="rows"`. All rows are then solved for at once,
    each with a small system of its own. A g of the whole weight solves for as many multipliers as it has
    components: by a matrix if they are few, by conjugate gradients if they are many. A g of several weights
    holds them together: name them in one rule, `{("encoder.weight", "decoder.weight"): cl.Implicit(g)}`.

    The configuration is the flattened weight, followed for an inequality by one slack a component of g,
    $g(w) + \xi^2 = 0$. Momenta are projected with $\Pi = I - J^T (J J^T)^{-1} J$; the overdamped step and
    letter A (RATTLE) solve for the multipliers (`colangevin.constraints.newton`). A step that cannot land
    raises `ConvergenceError` and changes nothing.

    A checkpoint remembers g by its name, its bytecode and the numbers, strings, tensors and functions that it
    takes from its closure or its module; a state that was saved under another g is refused. It cannot compare
    what is inside of objects, lists and dictionaries, nor bytecode of another version of Python: there the
    name decides, and loading warns.

    Leimkuhler et al. 2021, appendix "Discretization of constrained (over-, under-)damped Langevin (general
    constraint)".

    Args:
        g: a differentiable torch function of one weight, in the weight's own shape, to a vector (or a tensor
            of any shape, which is flattened). Its components must be independent. Under a rule that names
            several weights it takes as many arguments.
        inequality: whether g(w) <= 0 is meant rather than g(w) = 0.
        nonpositive: a second function c of the same kind, for c(w) <= 0 besides g(w) = 0.
        over: what g is a function of. `"weight"`: the whole weight. `"rows"`: one row, that is a slice along
            dimension 0, flattened. `"columns"`: one slice along dimension 1, flattened. `"entries"`: one
            entry, a tensor without dimensions. Over parts, g is batched by `torch.func.vmap`.
        shapes: of the weights that g takes together, in the order of its arguments. A rule that names several
            weights sets it.

    Examples:
        >>> def zero_mean(row):
        ...     return row.mean()
        >>> model = nn.Linear(3, 2)
        >>> groups = cl.constrain(model, {"weight": cl.Implicit(zero_mean, over="rows")})
        >>> bool(model.weight.mean(dim=1).abs().max() < 1e-6)
        True
        >>> cl.Implicit(torch.det, inequality=True)
        Implicit(g=...det, inequality=True)
    """

    g: Callable[..., Tensor]
    inequality: bool = False
    nonpositive: Callable[..., Tensor] | None = field(default=None, kw_only=True)
    over: Over = field(default="weight", kw_only=True)
    shapes: tuple[tuple[int, ...], ...] | None = field(default=None, kw_only=True)
    #: how many components each function has for the shapes of parts seen so far
    counts: dict[tuple[int, ...], tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        part = "weight" if self.over == "weight" else "part of the weight"
        if not callable(self.g):
            raise ConstraintError(f"g={self.g!r}: must be a function of the {part}.")
        if self.nonpositive is not None and not callable(self.nonpositive):
            raise ConstraintError(f"nonpositive={self.nonpositive!r}: must be a function of the {part}.")
        if self.nonpositive is not None and self.inequality:
            raise ConstraintError(
                "inequality=True with nonpositive: the first makes g a bound as well. Return the components "
                "of both from one function, or leave inequality out if g(w) = 0 is meant."
            )
        if self.over not in OVER:
            raise ConstraintError(f"over={self.over!r}: must be one of {', '.join(map(repr, OVER))}.")
        if self.shapes is not None and self.over != "weight":
            raise ConstraintError(
                f"over={self.over!r} with several weights: g takes whole weights then. Leave over out, and "
                "return what holds for each part as one vector."
            )

    def __repr__(self) -> str:
        more = "" if self.nonpositive is None else f", nonpositive={_name(self.nonpositive)}"
        more += "" if self.over == "weight" else f", over={self.over!r}"
        return f"Implicit(g={_name(self.g)}, inequality={self.inequality}{more})"

    def on(self, shape: Sequence[int]) -> ZeroSet:
        return ZeroSet(self, tuple(shape))

    def together(self, shapes: Sequence[Sequence[int]]) -> "Implicit":
        return replace(self, shapes=tuple(tuple(shape) for shape in shapes))

    def check_shape(self, shape: Sequence[int], name: str = "weight", copies: int = 1) -> None:
        if self.shapes is not None and tuple(shape) != (sum(map(math.prod, self.shapes)),):
            raise ConstraintError(
                f"{label(name, shape)}: {self!r} holds {len(self.shapes)} weights together. Give it a group "
                "of these weights, or their entries one behind the other."
            )
        if self.over == "columns" and len(shape) < 2:
            raise ConstraintError(
                f"{label(name, shape)}: {self!r} needs a weight with columns, of 2 dimensions at least. Use "
                "over='weight'."
            )

    def describe(self) -> dict[str, Any]:
        description = {
            "name": "Implicit",
            "g": _name(self.g),
            "inequality": self.inequality,
            "code": fingerprint(self.g),
        }
        # what earlier versions did not have is left out where it changes nothing, so that their states load
        if self.nonpositive is not None:
            description["nonpositive"] = _name(self.nonpositive)
            description["nonpositive_code"] = fingerprint(self.nonpositive)
        if self.over != "weight":
            description["over"] = self.over
        if self.shapes is not None:
            description["shapes"] = [list(shape) for shape in self.shapes]
        return description

    def not_compared(self, saved: Mapping[str, Any]) -> str:
        keys = ("code", "nonpositive_code")
        pairs = zip(keys, self.functions, strict=False)
        words = [(function, not_compared(function, dict(saved.get(key, {})))) for key, function in pairs]
        return "; ".join(f"{_name(function)}: {each}" for function, each in words if each)

    # ---- what the manifold asks ------------------------------------------------------------------

    @property
    def has_bounds(self) -> bool:
        """Whether the components of the last function have slack."""
        return self.inequality or self.nonpositive is not None

    @property
    def functions(self) -> tuple[Callable[..., Tensor], ...]:
        """The functions of a part; only the last may be a bound."""
        return (self.g,) if self.nonpositive is None else (self.g, self.nonpositive)

    def values(self, part: Tensor) -> list[Tensor]:
        """The components of each function for one part, as flat vectors."""
        found = []
        weights = [part] if self.shapes is None else parted(part, self.shapes)
        for name, function in zip(("g", "nonpositive"), self.functions, strict=False):
            value = function(*weights)
            if not isinstance(value, Tensor):
                raise ConstraintError(f"{self!r}: {name} returned {type(value).__name__}, not a tensor.")
            found.append(value.reshape(-1))
        return found

    def component_name(self, index: int, counts: Sequence[int]) -> tuple[str, int]:
        """The function to which a component belongs, by its short name, and the component's number there."""
        for function, count in zip(self.functions, counts, strict=True):
            if index < count:
                return _name(function).rpartition(".")[2], index
            index -= count
        raise IndexError(index)


def _name(g: Callable[..., Tensor]) -> str:
    """A function's name as far as a checkpoint can know it."""
    module, name = getattr(g, "__module__", None), getattr(g, "__qualname__", type(g).__qualname__)
    return f"{module}.{name}" if module else str(name)
