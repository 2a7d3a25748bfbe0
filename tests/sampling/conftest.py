"""A folder of samples to damage."""

import pytest

import colangevin as cl
from tests.sampling.small_model import model_of


@pytest.fixture
def stored(tmp_path):
    """A folder with five samples."""
    samples = cl.Samples(model_of(), folder=tmp_path / "run", every=2)
    for _ in range(10):
        samples.collect()
    return tmp_path / "run"
