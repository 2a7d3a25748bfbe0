"""The native library: found, checked and loaded once, or the reason why it is not used."""

import ctypes
import functools
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from colangevin.native import tables
from colangevin.native.compile import LIBRARY, fingerprint

__all__ = ["ENVIRONMENT", "Library", "Unusable", "library", "load", "why_not"]

#: the environment variable that turns the library off, or caps the instructions that it uses
ENVIRONMENT = "COLANGEVIN_NATIVE"
_VARIANTS = ("baseline", "avx2", "avx512")
_PLAIN = "Steps on the CPU are taken in plain torch: the same numbers to rounding, but slower."


@dataclass(frozen=True)
class Unusable(Exception):
    """Why a library is not used."""

    reason: str
    #: whether a user should hear of it unasked: something is broken, not just absent
    broken: bool = True


class Library:
    """The functions of the library, with their types.

    Args:
        path: its file.
        most: the variant that it may use at most.
        expected: the fingerprint that it has to have.

    Raises:
        Unusable: when it cannot be loaded, or was made from other sources.
    """

    def __init__(self, path: Path, most: str = _VARIANTS[-1], expected: str | None = None) -> None:
        try:
            self._handle = ctypes.CDLL(str(path))
            self._handle.colangevin_fingerprint.restype = ctypes.c_char_p
            found = self._handle.colangevin_fingerprint().decode(errors="replace")
        except (OSError, AttributeError) as error:
            raise Unusable(f"{path} cannot be loaded: {error}") from None
        expected = fingerprint() if expected is None else expected
        if found != expected:
            raise Unusable(
                f"{path} was compiled from other sources ({found}) than those beside it ({expected}). Install "
                "colangevin again (in a checkout: pip install -e .)"
            )
        self.path = path
        #: of torch's OpenMP; 0 when the process has none that we know, and one thread has to do
        self.pool = _address_of("GOMP_parallel")
        handle = self._handle
        handle.colangevin_begin.argtypes = [ctypes.c_void_p, ctypes.c_int]
        handle.colangevin_begin.restype = None
        handle.colangevin_begin(self.pool, _VARIANTS.index(most))
        handle.colangevin_variant.restype = ctypes.c_char_p
        #: which instructions it uses
        self.variant: str = handle.colangevin_variant().decode()
        job = ctypes.POINTER(tables.Job)
        self.plan = handle.colangevin_plan
        self.look = handle.colangevin_look
        self.move = handle.colangevin_move
        for function, result in ((self.plan, ctypes.c_int64), (self.look, ctypes.c_int64), (self.move, None)):
            function.argtypes, function.restype = [job], result
        self.normals = handle.colangevin_normals
        word, address = ctypes.c_int64, ctypes.c_void_p
        self.normals.argtypes = [address, word, word, ctypes.c_int, address, word]
        self.normals.restype = None


def load(path: Path = LIBRARY) -> Library:
    """Load a library, as the environment asks for it.

    Args:
        path: its file.

    Returns:
        The library.

    Raises:
        Unusable: with the reason.
    """
    wish = os.environ.get(ENVIRONMENT, "")
    if wish == "0":
        raise Unusable(f"{ENVIRONMENT}=0 turns it off", broken=False)
    if wish not in ("", "1", *_VARIANTS):
        raise Unusable(
            f"{ENVIRONMENT}={wish!r} is not known; use 0 to turn the library off, 1 to use it, or cap its "
            f"instructions with one of {', '.join(_VARIANTS)}"
        )
    if not path.exists():
        raise Unusable(
            f"{path} does not exist: colangevin was installed where there is no C compiler. Install one and "
            "then colangevin again",
            broken=False,
        )
    return Library(path, wish if wish in _VARIANTS else _VARIANTS[-1])


@functools.cache
def _loaded() -> Library | Unusable:
    try:
        return load()
    except Unusable as error:
        if error.broken:
            warnings.warn(f"The native library is not used: {error.reason}. {_PLAIN}", stacklevel=2)
        return error


def library() -> Library | None:
    """The library, or None where it is not used; a broken one is warned of once."""
    loaded = _loaded()
    return loaded if isinstance(loaded, Library) else None


def why_not() -> str:
    """Why the library is not used; empty if it is."""
    loaded = _loaded()
    return loaded.reason if isinstance(loaded, Unusable) else ""


def _address_of(name: str) -> int:
    """The address of a function that the process has loaded, or 0."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):
        return 0
