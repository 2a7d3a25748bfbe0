"""The examples of the integrations run as they stand."""

import doctest
from importlib import import_module

import pytest
import torch
from torch import nn

import colangevin as cl
from tests.integrations.small_training import LIGHTNING_WARNINGS

pytestmark = LIGHTNING_WARNINGS


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        ("lightning", "ConstraintCallback"),
        ("transformers", "ConstraintCallback"),
        ("transformers", "constrained_optimizer"),
    ],
)
def test_an_example_runs(framework, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(import_module(f"colangevin.integrations.{framework}"), name)
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(thing, name, module=False, globs={"cl": cl, "nn": nn, "torch": torch})
    assert example.examples
    printed = []
    outcome = doctest.DocTestRunner().run(example, out=printed.append)
    assert outcome.failed == 0, "".join(printed)
