"""The table of infos itself: it is whole, and every reason in it is somebody's."""

from pathlib import Path

import pytest
import torch

import colangevin as cl
from tests.core_only import Columns
from tests.torch_contract.infos import INFOS, REASONS, Reason


def exported(base: type) -> set[type]:
    """The classes of the library that derive from one."""
    classes = {each for each in map(cl.__dict__.get, cl.__all__) if isinstance(each, type)}
    return {each for each in classes if issubclass(each, base)} - {base}


def test_every_optimizer_and_every_constraint_are_tried() -> None:
    pairs = [(info.optim_cls, type(info.constraint.constraint)) for info in INFOS]
    assert {optimizer for optimizer, _ in pairs} == exported(torch.optim.Optimizer)
    constraints = {*exported(cl.Constraint), Columns}
    assert {constraint for optimizer, constraint in pairs if optimizer is cl.CoLud} == constraints
    assert len({info.name for info in INFOS}) == len(INFOS)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.test)
def test_every_reason_is_of_one_test(reason: Reason) -> None:
    files = Path(__file__).parent.glob("test_*.py")
    sources = [text for file in files if f"def {reason.test}(" in (text := file.read_text(encoding="utf-8"))]
    assert len(sources) == 1
    assert sources[0].count(f"def {reason.test}(") == 1


class _Case:
    """As much of a test case as a reason needs."""

    @staticmethod
    def skipTest(why: str) -> None:
        pytest.skip(why)


def test_a_reason_skips_what_ends_in_its_error() -> None:
    @Reason("test", "because", TypeError, "no").decorate
    def fails(case: _Case) -> None:
        raise TypeError("no")

    with pytest.raises(pytest.skip.Exception, match="because"):
        fails(_Case())


def test_a_reason_does_not_hide_another_error() -> None:
    @Reason("test", "because", TypeError, "no").decorate
    def fails_otherwise(case: _Case) -> None:
        raise TypeError("something else")

    with pytest.raises(AssertionError, match="something else"):
        fails_otherwise(_Case())


def test_a_reason_that_is_gone_is_a_failure() -> None:
    @Reason("test", "because", TypeError, "no").decorate
    def passes(case: _Case) -> None:
        pass

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        passes(_Case())
