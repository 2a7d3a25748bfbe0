"""`suggest`: radii that fit a model's weights, layers to leave free, and rates to start from."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colangevin.constraints.dtypes import START_TOLERANCE, state_dtype
from colangevin.constraints.orientation import turned
from colangevin.constraints.radius import rounded_up
from colangevin.errors import ConstraintError, label
from colangevin.optim.folding import fold, pattern
from colangevin.optim.names import named
from colangevin.optim.outputs import transposed_groups
from colangevin.optim.param_groups import refuse_replicas
from colangevin.optim.plain_table import lines_of, wrapped
from colangevin.replicas import Replicas
from colangevin.sharded import refuse_sharded, whole

__all__ = ["Suggestion", "Suggestions", "suggest"]

# Radius in units of the largest entry or row norm, a rule of thumb: docs/choose.md has the measurements.
_MULTIPLE = 1.5
# Rates of torch.optim.SGD that many networks are trained with.
_LR, _MOMENTUM = 0.1, 0.9
_LAYERS = (
    nn.Linear,
    nn.Bilinear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.RNN,
    nn.RNNCell,
)
_GATED = (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell)
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
# Entries that are looked at in one go, in float64.
_BLOCK = 2**20


@dataclass(frozen=True)
class Suggestion:
    """What to choose for one weight matrix. Of replicas, sizes are the largest over all of them."""

    name: str
    #: of one replica where there are several
    shape: tuple[int, ...]
    #: the largest magnitude of an entry, which is the smallest radius of a `Circle` that fits
    largest_entry: float
    #: a radius for `Circle`; None when all entries are 0
    circle: float | None
    #: the largest norm of a row, which is the smallest radius of a `Sphere` that fits
    largest_row: float
    #: a radius for `Sphere`; None when all entries are 0
    sphere: float | None
    #: what the matrix is: a key of the remarks below the table, or "" when `Orthogonal` suits it
    remark: str


# What stands below the table for each remark that occurs in it.
_REMARKS = {
    "last Linear": "if it makes the outputs, leave it free. Orthogonal caps them, and logits need room.",
    "embedding": "leave it free, or hold it by Sphere. Orthogonal makes V rows about sqrt(size / V) long.",
    "stacked": "q, k and v or the gates in one matrix. Orthogonal(blocks=3), or 4 for the gates of an LSTM, "
    "makes each of them orthonormal.",
    "unknown": "the weight of no layer of torch. Leave it free unless you know its role.",
}


@dataclass(frozen=True, repr=False)
class Suggestions:
    """What `suggest` found. Its `repr` is a table with the reasons below it."""

    #: the model's class
    model: str
    rows: tuple[Suggestion, ...]
    #: how many biases, gains and other vectors and scalars there are
    vectors: int
    #: parameters in a dtype that no optimizer here moves
    others: tuple[str, ...]
    #: for `colangevin.ConstrainedSGD`
    lr: float = _LR
    #: for `colangevin.ConstrainedSGD`
    momentum: float = _MOMENTUM

    @property
    def step_size(self) -> float:
        r"""The `lr` of `colangevin.CoLud` for the same step, $h = \sqrt{\mathrm{lr}}$."""
        return math.sqrt(self.lr)

    @property
    def friction(self) -> float:
        r"""The `friction` of `colangevin.CoLud` for it, $\gamma = -\ln(\mu) / h$."""
        return -math.log(self.momentum) / self.step_size

    def __repr__(self) -> str:
        return "\n".join([*self._table(), *(line for note in self._notes() for line in wrapped(note))])

    def _table(self) -> list[str]:
        if not self.rows:
            return []
        header = ["weight", "shape", "entry", "Circle", "row", "Sphere", "Orthogonal"]
        kinds = [(row.shape, row.remark, row.circle is None) for row in self.rows]
        folded = fold([row.name for row in self.rows], kinds)
        lines = [_line([self.rows[i] for i in positions]) for positions in folded]
        return lines_of([header, *lines], right="<<>>>><")

    def _notes(self) -> list[str]:
        if not self.rows:
            return [f"{self.model} has no weight matrix, so there is nothing to hold."]
        remarks = [remark for remark in _REMARKS if any(row.remark == remark for row in self.rows)]
        notes = [
            "entry, row: the largest |entry| and row norm now, which are the smallest radii that fit. "
            "Circle, Sphere: radii to start from, 1.5 times that.",
            *(f"{remark}: {_REMARKS[remark]}" for remark in remarks),
        ]
        if any(row.circle is None for row in self.rows):
            notes.append("-: every entry is 0, so there is no size to go by. Initialise the weight first.")
        if self.vectors:
            notes.append(
                f"vectors and scalars (biases, gains of norms; {self.vectors} here): leave them free."
            )
        if self.others:
            notes.append(f"not of a dtype that is trained: {', '.join(self.others)}.")
        return [
            *notes,
            f"rates: ConstrainedSGD with lr={self.lr:g}, momentum={self.momentum:g} is a rule of thumb; "
            "give groups under Orthogonal up to 10 times the lr of the rest. CoLud takes the same step with "
            f"lr={self.step_size:.3g} (h = sqrt(lr)) and friction={self.friction:.3g} (-ln(momentum) / h).",
            "temperature: 0 to train; 1 / N to sample the posterior with a mean loss over N data.",
        ]


@torch.no_grad()
def suggest(model: nn.Module) -> Suggestions:
    r"""Which radii fit a model's weights, which layers to leave free, and which rates to start from.

    Nothing is changed and nothing is run: this reads every weight matrix once.

    Two kinds of numbers are in the result. *Facts*: the largest $|w_{ij}|$ and the largest row norm are the
    smallest radii that `Circle` and `Sphere` with slack accept. With $h = \sqrt{\mathrm{lr}}$ and
    $\gamma = -\ln(\mu)/h$, `CoLud` takes the step of `ConstrainedSGD` with lr and momentum $\mu$. The
    temperature 1/N makes $e^{-V/\tau}$ the posterior when V is a mean loss over N data
    (`posterior_temperature`).

    *Rules of thumb*: the radii are 1.5 times the largest entry and the largest row norm, rounded to two
    digits. The rates lr = 0.1 and momentum = 0.9 are common for SGD. That the weights which `Orthogonal`
    holds bear up to 10 times the lr of the rest is the experience with one small transformer.

    Which layer makes the outputs cannot be known from a model's modules. The remark "last Linear" means the
    last `nn.Linear` in the order of registration and nothing more.

    Args:
        model: any module, with the weights that training will start from.

    Returns:
        A row a weight matrix, and the rates. It prints as a table, in which layers that are alike share a
        line with the largest of their numbers.

    Raises:
        ConstraintError: naming the parameter, for one that has no values (lazy, or on the device `meta`),
            is a shard, or holds NaN or Inf.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> advice = cl.suggest(model)
        >>> [(row.name, row.circle, row.remark) for row in advice.rows]
        [('0.weight', 0.19, ''), ('2.weight', 0.26, 'last Linear')]
        >>> rules = {row.name: cl.Circle(row.circle) for row in advice.rows}
        >>> groups = cl.constrain(model, rules, init="keep")
    """
    replicas = isinstance(model, Replicas)
    if isinstance(model, Replicas):
        model = model.template
    refuse_replicas(model)
    remarks, turns = _remarks(model), transposed_groups(model)
    rows, vectors, others = [], 0, []
    for parameter, names in named(model).items():
        refuse_sharded(parameter, names[0])
        shape = tuple(parameter.shape[1:] if replicas else parameter.shape)
        if parameter.dtype not in START_TOLERANCE:
            others.append(names[0])
        elif len(shape) < 2:
            vectors += 1
        else:
            remark = remarks.get(parameter, "" if parameter in turns else "unknown")
            rows.append(_suggestion(names[0], shape, whole(parameter), remark, turns.get(parameter, 0)))
    return Suggestions(type(model).__name__, tuple(rows), vectors, tuple(others))


def _remarks(model: nn.Module) -> dict[Tensor, str]:
    """What is to be said about the weights of known layers; "" for those that `Orthogonal` suits."""
    remarks: dict[Tensor, str] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, _LAYERS) or (
                isinstance(module, nn.MultiheadAttention) and "weight" in name
            ):
                remarks.setdefault(parameter, "stacked" if name == "in_proj_weight" else "")
            elif isinstance(module, _GATED):
                remarks.setdefault(parameter, "stacked")
            elif isinstance(module, _EMBEDDINGS):
                remarks[parameter] = "embedding"  # also when it is tied to a Linear
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    last = linears[-1]._parameters.get("weight") if linears else None  # a parametrised one has none
    if last is not None and remarks[last] != "embedding":
        remarks[last] = "last Linear"
    return remarks


def _suggestion(
    name: str, shape: tuple[int, ...], weight: Tensor, remark: str, transposed: int
) -> Suggestion:
    """The row of one weight, or of a stack of them."""
    if weight.is_meta:
        raise ConstraintError(
            f"{label(name, weight.shape)}: is on the device 'meta', so it has no values. Give the model "
            "memory by model.to_empty(device=...), then initialise or load it."
        )
    if not weight.numel():
        return Suggestion(name, shape, 0.0, None, 0.0, None, remark)
    stack = turned(weight.detach().reshape(-1, *shape), transposed)
    entry, row = _sizes(stack.flatten(0, 1).flatten(1))
    if not math.isfinite(entry):
        raise ConstraintError(
            f"{label(name, weight.shape)}: holds NaN or Inf, so no radius fits it. Load weights that are "
            "finite first."
        )
    circle, sphere = _radius(entry, weight.dtype), _radius(row, weight.dtype)
    return Suggestion(name, shape, entry, circle, row, sphere, remark)


def _sizes(matrix: Tensor) -> tuple[float, float]:
    """The largest magnitude of an entry, and the largest norm of a row."""
    blocks = matrix.split(max(1, _BLOCK // matrix.shape[1]))
    entry = float(torch.stack([block.abs().max() for block in blocks]).max())
    if not (entry > 0 and math.isfinite(entry)):
        return entry, 0.0
    wide = torch.float32 if matrix.device.type == "mps" else torch.float64  # which MPS does not have
    # relative to the largest entry no square overflows or underflows
    squares = torch.stack([(block.to(wide) / entry).square().sum(1).max() for block in blocks])
    return entry, entry * math.sqrt(float(squares.max()))


def _radius(largest: float, dtype: torch.dtype) -> float | None:
    """A radius in two digits, in the range of the dtype."""
    if not largest:
        return None
    radius = float(f"{_MULTIPLE * largest:.2g}")
    return min(max(radius, torch.finfo(state_dtype(dtype)).tiny), torch.finfo(dtype).max)


def _line(rows: list[Suggestion]) -> list[str]:
    """A line of the table for rows that are alike."""
    name = pattern([row.name for row in rows])
    return [
        f"{name} x{len(rows)}" if len(rows) > 1 else name,
        str(rows[0].shape),
        rounded_up(max(row.largest_entry for row in rows)),
        _largest([row.circle for row in rows]),
        rounded_up(max(row.largest_row for row in rows)),
        _largest([row.sphere for row in rows]),
        rows[0].remark or "yes",
    ]


def _largest(radii: list[float | None]) -> str:
    """The radius that fits all of the weights in a line."""
    known = [radius for radius in radii if radius is not None]
    return f"{max(known):g}" if known else "-"
