"""What compiles is skipped where there is no C compiler; CI has one, so there it fails."""

import os

import pytest

from colangevin.native import compile as compiling
from colangevin.native.library import Library, UnusableError, load


@pytest.fixture(scope="session")
def compiler() -> list[str]:
    """The command of the C compiler."""
    try:
        return compiling.find_compiler()
    except compiling.CompileError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"needs a C compiler: {error}")


@pytest.fixture(scope="session")
def native(compiler: list[str]) -> Library:
    """The library as it is installed; it is compiled where it is missing or of other sources."""
    try:
        return load()
    except UnusableError:
        compiling.compile_library()
        return load()
