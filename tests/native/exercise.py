"""All kernels of a native library on ugly sizes, between guards: ``python exercise.py LIBRARY RESULTS``.

It calls the library with addresses, as the optimizers do, and stores all numbers that come out. Tests run it
in a process of its own: on a build that looks for errors of memory, and under each set of instructions.
"""

import ctypes
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from colangevin.native import tables
from colangevin.native.library import Library, load
from colangevin.native.tables import CIRCLE, LEVEL, LINE, SIMPLEX, SPHERE, SQUARE, TYPES

__all__ = ["Weight", "exercise", "programs", "run", "weights"]

GUARD = 77.0
FRONT = 3  # elements before a buffer: it starts at no multiple of a vector
RADIUS = 1.5
#: dtypes of weight, gradient and state
DTYPES = (
    (torch.float32, torch.float32, torch.float32),
    (torch.float64, torch.float64, torch.float64),
    (torch.bfloat16, torch.bfloat16, torch.float32),
    (torch.float16, torch.float32, torch.float32),
    (torch.float32, torch.bfloat16, torch.float32),
    (torch.float64, torch.float32, torch.float64),
)
#: sizes of weights that move by elements, and rows and entries of those that move by rows. The last of each
#: is several units of work.
ELEMENTS = (1, 2, 63, 257, 16384 + 5)
ROWS = ((1, 1), (1, 700), (5, 3), (130, 257))
#: of underdamped segments; the empty word is the overdamped step
SPLITTINGS = ("", "BAOAB", "OBABO", "ABOBA")


class Guarded:
    """A buffer between guards. Its last element is the last of its memory, or is followed by a guard."""

    def __init__(self, values: Tensor, tail: int) -> None:
        self._memory = torch.full((FRONT + values.numel() + tail,), GUARD, dtype=values.dtype)
        self._stop = FRONT + values.numel()
        self.values = self._memory[FRONT : self._stop]
        self.values.copy_(values.reshape(-1))
        self.address = self.values.data_ptr()

    def check(self) -> None:
        """Fail if a guard was overwritten."""
        assert (self._memory[:FRONT] == GUARD).all()
        assert (self._memory[self._stop :] == GUARD).all()


@dataclass
class Weight:
    """One weight with its buffers, and its row of the table."""

    name: str
    row: tables.Weight
    buffers: dict[str, Guarded] = field(default_factory=dict)


def programs(noisy: bool) -> dict[str, tables.Program]:
    """A segment of a step for every splitting."""
    found = {}
    for word in SPLITTINGS:
        program = tables.Program(letters=len(word), noisy=noisy, segment=1, completes=1, letter=word.encode())
        for k, letter in enumerate(word or "E"):
            program.number[k] = {"A": 0.1, "B": 0.2, "O": 0.9, "E": 0.05}[letter]
            program.scale[k] = 0.3
        found[word or "overdamped"] = program
    if not noisy:
        found["Adam"] = tables.Program(adam=1, completes=1)
        # in the order of adam_number in job.h: rate, decay, both betas, eps
        found["Adam"].number[:5] = [0.05, 0.01, 0.8, 0.9, 1e-8]
    return found


def weights(program: tables.Program, step: Tensor, tail: int) -> list[Weight]:
    """Weights of every form, size and dtype, each with its options."""
    shapes = [(form, 1, n, False) for form in (LINE, CIRCLE, SQUARE) for n in ELEMENTS]
    shapes += [(SPHERE, *shape, slack) for shape in ROWS for slack in (False, True)]
    by_rows = (SIMPLEX,) if program.adam else (SIMPLEX, LEVEL)
    shapes += [(form, *shape, False) for form in by_rows for shape in ROWS]
    generator = torch.Generator().manual_seed(1)
    return [
        _weight(index, *shape, dtypes, program, step, tail, generator)
        for index, (dtypes, shape) in enumerate(itertools.product(DTYPES, shapes))
    ]


def _weight(
    index: int,
    form: int,
    rows: int,
    entries: int,
    slack: bool,
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype],
    program: tables.Program,
    step: Tensor,
    tail: int,
    generator: torch.Generator,
) -> Weight:
    weight_dtype, gradient_dtype, state_dtype = dtypes
    many_radii = index % 3 == 1 and form in (CIRCLE, SPHERE)
    state = torch.randn(rows, entries + slack, dtype=torch.float64, generator=generator)
    radii = torch.full((rows, entries) if form == CIRCLE else (rows, 1), RADIUS, dtype=torch.float64)
    if many_radii:
        radii *= 1 + torch.arange(radii.numel()).view_as(radii) / radii.numel()
    values = state
    if form == CIRCLE:
        values = radii * state.sin()
    elif form == SPHERE:
        state = radii * state / state.norm(dim=1, keepdim=True)
        values = state[:, :entries]
    elif form == SIMPLEX:
        state = state / state.norm(dim=1, keepdim=True)
    elif form == LEVEL:
        values = state = state - state.mean(1, keepdim=True) + RADIUS
    if form in (SQUARE, SIMPLEX):
        values = state.square()
    row = tables.Weight(
        elements=rows * entries,
        rows=rows,
        entries=entries,
        stride=entries + slack,
        radius=1.0 if form == SIMPLEX else RADIUS,
        decay=0.0 if program.adam else 0.01 * (index % 2),
        bound=float("inf"),
        seed=5,
        word=index,
        window=tables.Window(0, rows * entries, 0),
        copy=index % 2,
        form=form,
        slack=slack,
        weight_type=TYPES[weight_dtype],
        gradient_type=TYPES[gradient_dtype],
        state_type=TYPES[state_dtype],
        maximize=index % 5 == 0,
        counts=index == 0,
        program=ctypes.pointer(program),
        step=step.data_ptr(),
    )
    kinds = {
        LINE: "line",
        CIRCLE: "circle",
        SQUARE: "square",
        SPHERE: "sphere",
        SIMPLEX: "simplex",
        LEVEL: "level",
    }
    made = Weight(f"{index} {kinds[form]} {rows}x{entries} slack={slack} {weight_dtype}", row)
    contents = {
        "weight": values.to(weight_dtype),
        "gradient": torch.randn(values.shape, generator=generator).to(gradient_dtype),
    }
    if program.adam:
        contents["second"] = torch.rand(state.shape, generator=generator).to(state_dtype)
    if program.letters or program.adam:
        contents["momentum"] = 0.1 * torch.randn(state.shape, generator=generator).to(state_dtype)
    hidden = form in (CIRCLE, SQUARE, SIMPLEX) or slack
    if hidden or (form in (SPHERE, LEVEL) and weight_dtype != state_dtype):
        contents["position"] = state.to(state_dtype)
    if many_radii:
        contents["radii"] = radii.to(state_dtype)
    for name, tensor in contents.items():
        made.buffers[name] = Guarded(tensor, tail)
        setattr(row, name, made.buffers[name].address)
    return made


class Call:
    """A job over weights, whose memory it keeps."""

    def __init__(self, library: Library, members: list[Weight], threads: int) -> None:
        self._library = library
        self._members = members
        pointers = [ctypes.pointer(member.row) for member in members]
        self._rows = (ctypes.POINTER(tables.Weight) * len(members))(*pointers)
        widest = max(8 * (member.row.entries + 1) for member in members)
        room_bytes = -(-widest // 64) * 64
        self._room = torch.empty(room_bytes * threads, dtype=torch.uint8)
        self.job = tables.Job(
            weights=self._rows,
            room=self._room.data_ptr(),
            room_bytes=room_bytes,
            count=len(members),
            threads=threads,
        )
        units = library.plan(self.job)
        # as torch's memory, which has no neighbour of ours behind its end
        self._findings = torch.empty(units * ctypes.sizeof(tables.Finding), dtype=torch.uint8)
        self.job.findings = ctypes.cast(self._findings.data_ptr(), ctypes.POINTER(tables.Finding))

    def look(self) -> int:
        return self._library.look(self.job)

    def move(self) -> None:
        self._library.move(self.job)

    def check_guards(self) -> None:
        for member in self._members:
            for buffer in member.buffers.values():
                buffer.check()


def run(library: Library, program: tables.Program, threads: int, tail: int = 9) -> dict[str, Tensor]:
    """Two steps of every weight, with what has to be true of each; returns all numbers."""
    step = torch.zeros(1, dtype=torch.int64)
    members = weights(program, step, tail)
    call = Call(library, members, threads)
    call.move()
    assert call.look() == 0  # nobody wrote a weight, and gradients are finite
    call.move()
    assert step.item() == 2
    call.check_guards()
    found = {
        f"{member.name} {name}": buffer.values.clone()
        for member in members
        for name, buffer in member.buffers.items()
        if name in ("weight", "momentum", "position", "second")
    }
    assert all(values.isfinite().all() for values in found.values())
    bounded = [member for member in members if member.row.form != LINE]
    bounded[0].buffers["weight"].values[-1] += 1
    bounded[1].buffers["gradient"].values[-1] = float("nan")
    assert call.look() == 2
    flags = {member.name: (member.row.edited, member.row.doubtful) for member in members}
    assert flags.pop(bounded[0].name) == (1, 0)
    assert flags.pop(bounded[1].name) == (0, 1)
    assert set(flags.values()) == {(0, 0)}
    return found


def normals(library: Library, threads: int, tail: int) -> dict[str, Tensor]:
    """Normals of few and many keys, of wholes and of parts."""
    found = {}
    for dtype, count, numbers, run in itertools.product(
        (torch.float32, torch.float64), (1, 3), (1, 2, 511, 3 * 16384 + 7), (0, 1, 300)
    ):
        window = (5, run, run + 4) if run else (0, numbers, 0)
        keys = (ctypes.c_uint64 * count)(*(0x9E3779B97F4A7C15 + 77 * k for k in range(count)))
        out = Guarded(torch.zeros(count * numbers, dtype=dtype), tail)
        library.normals(keys, count, numbers, *window, dtype == torch.float64, out.address, threads)
        out.check()
        assert out.values.isfinite().all()
        found[f"normals {dtype} {count}x{numbers} by {run}"] = out.values.clone()
    return found


def exercise(library: Library, threads: int = 2, tail: int = 9) -> dict[str, Tensor]:
    """Everything, by name."""
    found = normals(library, threads, tail)
    for noisy in (False, True):
        for word, program in programs(noisy).items():
            for name, values in run(library, program, threads, tail).items():
                found[f"{word} {'noisy' if noisy else 'quiet'} {name}"] = values
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)  # of torch itself, whose threads would wait for a core that others use
    native = load(Path(sys.argv[1]))
    results = exercise(native)
    # Without a guard behind it, the end of a buffer is the end of its memory, which the sanitizer watches.
    exercise(native, threads=1, tail=0)
    torch.save({"variant": native.variant, "results": results}, sys.argv[2])
