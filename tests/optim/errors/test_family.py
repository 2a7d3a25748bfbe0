"""The errors of the library as Python classes."""

import pytest

import colangevin as cl


@pytest.mark.parametrize("name", ["InfeasibleError", "ConvergenceError", "SplittingError", "NonFiniteError"])
def test_every_error_is_a_constraint_error_and_a_value_error(name: str) -> None:
    assert issubclass(getattr(cl, name), cl.ConstraintError)
    assert issubclass(cl.ConstraintError, ValueError)
