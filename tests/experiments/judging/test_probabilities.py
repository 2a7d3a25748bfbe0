import numpy as np
import pytest
import torch

from colangevin.experiments.judging.agreement import total_variation
from colangevin.experiments.judging.probabilities import pack, unpack


def drawn(images=2000, sharpness=0.2):
    random = np.random.default_rng(0)
    return torch.from_numpy(random.dirichlet(np.full(10, sharpness), images))


@pytest.mark.parametrize(("kind", "most"), [(np.uint8, 255), (np.uint16, 65535)])
def test_rounding_is_no_larger_than_the_docstring_says(kind, most):
    p = drawn()
    packed = pack(p, kind)
    assert packed.dtype == kind
    before_the_sum = torch.from_numpy(packed.astype(float) / most).square()
    assert bool(((before_the_sum - p).abs() <= p.sqrt() / most + 1 / (4 * most**2) + 1e-12).all())


def test_what_bytes_come_back_to_is_near_and_sums_to_1():
    p = drawn()
    again = unpack(pack(p))
    assert torch.allclose(again.sum(1), torch.ones(len(p), dtype=torch.double))
    assert total_variation(again, p) < 2e-3


def test_certainty_comes_back_exactly():
    sure = torch.eye(10, dtype=torch.double)
    assert torch.equal(unpack(pack(sure)), sure)


def test_a_training_that_diverged_comes_back_as_nan():
    packed = pack(torch.full((3, 10), torch.nan))
    assert not packed.any()
    assert bool(unpack(packed).isnan().all())
