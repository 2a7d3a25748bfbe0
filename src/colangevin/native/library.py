"""The native library: found, checked and loaded once, or the reason why it is not used."""

import ctypes
import functools
import os
import threading
import warnings
from pathlib import Path

import torch

from colangevin.native import tables
from colangevin.native.compile import LIBRARY, fingerprint

__all__ = ["ENVIRONMENT", "Library", "UnusableError", "library", "load", "why_not"]

#: the environment variable that turns the library off, or caps the instructions that it uses
ENVIRONMENT = "COLANGEVIN_NATIVE"
_VARIANTS = ("baseline", "avx2", "avx512")
# in the order of colangevin_sizes
_STRUCTURES = (tables.Program, tables.Weight, tables.Finding, tables.Job)
_AGAIN = f"Compile it with: python {LIBRARY.with_name('compile.py')}"
_PLAIN = "Steps on the CPU are taken in plain torch: the same numbers to rounding, but slower."
_loading = threading.Lock()


class UnusableError(Exception):
    """A library that is not used.

    Args:
        reason: why.
        broken: whether something is wrong, of which a user should hear unasked, and not just absent.
    """

    def __init__(self, reason: str, *, broken: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.broken = broken


class Library:
    """The functions of the library, with their types.

    Args:
        path: its file.
        most: the variant that it may use at most.

    Raises:
        UnusableError: when it cannot be loaded, or was made from other sources.
    """

    def __init__(self, path: Path, most: str = _VARIANTS[-1]) -> None:
        handle = _checked(path)
        self.path = path
        #: the address of torch's ``GOMP_parallel``, which runs a function on many threads; 0 without one
        self.pool = _of_torch("GOMP_parallel")
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
        self.remember = handle.colangevin_remember
        for function in (self.plan, self.look, self.move, self.remember):
            function.argtypes = [job]
        self.plan.restype = self.look.restype = ctypes.c_int64
        self.move.restype = self.remember.restype = None
        self.normals = handle.colangevin_normals
        word, address = ctypes.c_int64, ctypes.c_void_p
        self.normals.argtypes = [address, *[word] * 5, ctypes.c_int, address, word]
        self.normals.restype = None


def _checked(path: Path) -> ctypes.CDLL:
    """A library that was made from the sources beside this file; an error says why it was not."""
    try:
        handle = ctypes.CDLL(str(path))
        handle.colangevin_fingerprint.restype = ctypes.c_char_p
        handle.colangevin_sizes.argtypes = [ctypes.c_int]
        handle.colangevin_sizes.restype = ctypes.c_int64
    except (OSError, AttributeError) as error:
        raise UnusableError(f"{path} cannot be loaded ({error}). {_AGAIN}") from None
    found, expected = handle.colangevin_fingerprint().decode(errors="replace"), fingerprint()
    if found != expected:
        raise UnusableError(
            f"{path} was compiled from other sources ({found}) than those beside it ({expected}). {_AGAIN}"
        )
    for number, structure in enumerate(_STRUCTURES):
        there, here = handle.colangevin_sizes(number), ctypes.sizeof(structure)
        if there != here:
            raise UnusableError(
                f"{path} has {there} bytes in a {structure.__name__}, and tables.py has {here}: tables.py "
                "and sources/job.h differ"
            )
    return handle


def load(path: Path = LIBRARY) -> Library:
    """Load a library, as the environment asks for it.

    Args:
        path: its file.

    Returns:
        The library.

    Raises:
        UnusableError: with the reason.
    """
    wish = os.environ.get(ENVIRONMENT, "")
    if wish == "0":
        raise UnusableError(f"{ENVIRONMENT}=0 turns it off", broken=False)
    if wish not in ("", "1", *_VARIANTS):
        raise UnusableError(
            f"{ENVIRONMENT}={wish!r} is not known. Set it to 0 to turn the library off, to 1 to use it, or "
            f"to {', '.join(_VARIANTS)} to cap its instructions"
        )
    if not path.exists():
        raise UnusableError(
            f"{path} does not exist: colangevin was installed without a C compiler. Install one. {_AGAIN}",
            broken=False,
        )
    return Library(path, wish if wish in _VARIANTS else _VARIANTS[-1])


@functools.cache
def _found() -> Library | UnusableError:
    try:
        return load()
    except UnusableError as error:
        return error


@functools.cache
def library() -> Library | None:
    """The library, or None where it is not used; a broken one is warned of once."""
    with _loading:  # a second thread must not choose the instructions anew while the first one computes
        found = _found()
    if isinstance(found, Library):
        return found
    if found.broken:
        warnings.warn(f"The native library is not used: {found.reason}. {_PLAIN}", stacklevel=2)
    return None


def why_not() -> str:
    """Why the library is not used; empty if it is. Nothing is warned of."""
    with _loading:
        found = _found()
    return found.reason if isinstance(found, UnusableError) else ""


def _of_torch(name: str) -> int:
    """The address of a function that torch is linked with, or 0.

    It is looked up in torch and in what torch is linked with: another package may have loaded an OpenMP of
    its own, whose threads would fight with torch's for the cores.

    Args:
        name: of the function.

    Returns:
        The address.
    """
    try:
        function = getattr(ctypes.CDLL(torch._C.__file__), name)
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):
        return 0
