"""Frameworks are imported by fixtures: their imports take seconds, which collecting tests should not."""

import importlib
from importlib.util import find_spec

import pytest

for library in ("lightning", "transformers", "accelerate"):
    if find_spec(library) is None:
        pytest.skip(f"needs {library}, of the extras 'lightning' and 'transformers'", allow_module_level=True)


@pytest.fixture(scope="session")
def lit():
    """Lightning modules and trainers."""
    return importlib.import_module("tests.integrations.lit")


@pytest.fixture(scope="session")
def hugging():
    """A model and trainers of transformers."""
    return importlib.import_module("tests.integrations.hugging")
