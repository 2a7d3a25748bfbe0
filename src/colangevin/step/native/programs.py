"""The letters of a segment with their numbers, as the native library reads them."""

from collections.abc import Sequence

from torch import Tensor

from colangevin.dynamics import Adam, Dynamics, Overdamped, Underdamped
from colangevin.dynamics.rates import Scalar
from colangevin.native.tables import Program

__all__ = ["programs"]


def programs(dynamics: Dynamics, segment: int, copies: int) -> list[Program]:
    """A program for each copy of a parameter: one for all of them, unless copies have numbers of their own.

    Args:
        dynamics: of the parameter's group.
        segment: of the step.
        copies: how many the parameter has.

    Returns:
        As many programs as there are copies.
    """
    dynamics = dynamics.on_host
    numbers: Sequence[tuple[Scalar, Scalar]]
    if isinstance(dynamics, Adam):
        values = (dynamics.lr, dynamics.weight_decay, *dynamics.betas, dynamics.eps)
        letters, numbers = "", [(value, 0.0) for value in values]  # in the order of adam_number in job.h
    elif isinstance(dynamics, Overdamped):
        letters, numbers = "", [dynamics.numbers]
    else:
        assert isinstance(dynamics, Underdamped)  # eligible.py lets no other through
        moves = dynamics.moves[segment]
        letters, numbers = "".join(move[0] for move in moves), [(move[1], move[2]) for move in moves]
    made = []
    for copy in range(copies if dynamics.varies else 1):
        completes = segment == dynamics.segments - 1
        adam = isinstance(dynamics, Adam)
        program = Program(len(letters), adam, dynamics.noisy, segment, completes, letters.encode())
        for place, (number, scale) in enumerate(numbers):
            program.number[place], program.scale[place] = _of_copy(number, copy), _of_copy(scale, copy)
        made.append(program)
    return made * (copies // len(made))


def _of_copy(value: Scalar, copy: int) -> float:
    return float(value[copy] if isinstance(value, Tensor) and value.dim() else value)
