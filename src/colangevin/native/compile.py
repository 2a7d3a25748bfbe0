"""Compile the native library. It needs a C compiler and nothing else: neither torch nor this package.

``python src/colangevin/native/compile.py`` compiles it beside this file, as an installation does.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LIBRARY", "CompileError", "compile_library", "find_compiler", "fingerprint"]

SOURCES = Path(__file__).with_name("sources")
#: where the library is looked for
LIBRARY = Path(__file__).with_name("colangevin_native.so")

# No flag here changes what NaN, Inf or a signed zero do: errno and traps are all that is given up.
_ARITHMETIC = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wno-psabi", *_ARITHMETIC)
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512")
_SECONDS = 600  # after which a compiler has hung


class CompileError(Exception):
    """There is no compiler, or it failed; the message says which."""


def fingerprint() -> str:
    """A hash of the sources, which tells a library that was made from others."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compile_library(target: Path = LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Compile the library.

    Args:
        target: the file to write. It appears whole or not at all.
        flags: further flags of the compiler, after ours.

    Returns:
        The target.

    Raises:
        CompileError: naming the compiler and what it said.
    """
    compiler = find_compiler()
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    variants = {"baseline": ()} | ({"avx2": _AVX2, "avx512": _AVX512} if x86 else {})
    library = [f'-DCOLANGEVIN_FINGERPRINT="{fingerprint()}"', *(["-DCOLANGEVIN_X86"] if x86 else [])]
    with tempfile.TemporaryDirectory() as folder:
        units = {"library": ("library.c", library)}
        for name, wanted in variants.items():
            units[name] = ("kernels.c", [f"-DKERNELS=kernels_{name}", *wanted])
        commands = [
            [*compiler, *_FLAGS, *options, *flags, "-c", str(SOURCES / source), "-o", f"{folder}/{name}.o"]
            for name, (source, options) in units.items()
        ]
        _run(commands)
        objects = [f"{folder}/{name}.o" for name in units]
        # beside the target, so that moving it there is one step
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            _run([[*compiler, "-shared", *flags, "-o", str(fresh), *objects, "-lm", "-lpthread"]])
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    return target


def find_compiler() -> list[str]:
    """Look for a C compiler: the environment variable ``CC``, or the first of the usual names.

    Returns:
        Its command.

    Raises:
        CompileError: when there is none.
    """
    if os.name == "nt":
        raise CompileError("on Windows there is no native library yet")
    named = os.environ.get("CC", "").split()
    candidates = [named] if named else [["cc"], ["gcc"], ["clang"]]
    for command in candidates:
        if shutil.which(command[0]):
            return command
    tried = ", ".join(command[0] for command in candidates)
    raise CompileError(f"no C compiler was found (tried {tried})")


def _run(commands: Sequence[Sequence[str]]) -> None:
    """Run commands side by side; raise if one of them fails."""
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands
    ]
    failed = ""
    for process, command in zip(started, commands, strict=True):
        try:
            said, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        if process.returncode and not failed:
            words = said.decode(errors="replace").strip()
            failed = f"{' '.join(command)} ended with {process.returncode}:\n{words}"
    if failed:
        raise CompileError(failed)


if __name__ == "__main__":
    try:
        print(compile_library(flags=sys.argv[1:]))
    except CompileError as error:
        sys.exit(str(error))
