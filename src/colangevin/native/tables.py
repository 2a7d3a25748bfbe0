"""The structures of ``sources/job.h``, field by field."""

from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_double,
    c_int32,
    c_int64,
    c_uint64,
    c_void_p,
)
from typing import ClassVar

import torch

__all__ = [
    "CIRCLE",
    "FRAME",
    "LEVEL",
    "LINE",
    "MOST_LETTERS",
    "SIMPLEX",
    "SPHERE",
    "SQUARE",
    "TYPES",
    "Finding",
    "Job",
    "Program",
    "Weight",
    "Window",
]

MOST_LETTERS = 64
LINE, CIRCLE, SQUARE, SPHERE, SIMPLEX, LEVEL, FRAME = range(7)
#: numbers of the dtypes
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}


class Program(Structure):
    """One segment of a step."""

    _fields_: ClassVar = [
        ("letters", c_int32),
        ("adam", c_int32),
        ("noisy", c_int32),
        ("segment", c_int32),
        ("completes", c_int32),
        ("letter", c_char * MOST_LETTERS),
        ("number", c_double * MOST_LETTERS),
        ("scale", c_double * MOST_LETTERS),
    ]


class Window(Structure):
    """Which elements of a whole a part of it has."""

    _fields_: ClassVar = [(name, c_int64) for name in ("first", "length", "stride")]


class Weight(Structure):
    """One copy of a parameter."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("weight", "gradient", "momentum", "position", "second")),
        *((name, c_void_p) for name in ("step", "radii")),
        ("program", POINTER(Program)),
        *((name, c_int64) for name in ("elements", "rows", "entries", "stride")),
        *((name, c_double) for name in ("radius", "decay", "bound")),
        *((name, c_uint64) for name in ("seed", "word", "copy", "left")),
        ("first_unit", c_int64),
        ("window", Window),
        *((name, c_int32) for name in ("form", "slack", "weight_type", "gradient_type", "state_type")),
        *((name, c_int32) for name in ("maximize", "counts", "doubtful", "edited", "sampled")),
        *((name, c_int32) for name in ("shared", "rounds", "polar", "left_out")),
    ]


class Finding(Structure):
    """What is known of one unit of work."""

    _fields_: ClassVar = [("squares", c_double), ("checksum", c_uint64)]


class Job(Structure):
    """All weights of a call."""

    _fields_: ClassVar = [
        ("weights", POINTER(POINTER(Weight))),
        ("findings", POINTER(Finding)),
        ("room", c_void_p),
        *((name, c_int64) for name in ("room_bytes", "whole_room_bytes", "count", "units", "threads")),
    ]
