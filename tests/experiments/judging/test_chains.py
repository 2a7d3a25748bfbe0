import pytest
import torch

import colangevin as cl
from colangevin.experiments.judging import chains
from colangevin.experiments.judging.chains import distance, r_hat


def test_a_distance_compares_with_the_reference_and_with_the_classes():
    p = torch.tensor([[0.8, 0.2], [0.3, 0.7]])
    reference = torch.tensor([[0.6, 0.4], [0.6, 0.4]])
    found = distance(p, reference, torch.tensor([0, 0]))
    assert found.agreement == found.accuracy == 0.5
    assert found.total_variation == pytest.approx((0.2 + 0.3) / 2)
    assert found.loss == pytest.approx(float(-torch.tensor([0.8, 0.3]).log().mean()))


@pytest.fixture
def numbers():
    """Chains of 5 numbers: two agree, two do not, one never changes but for rounding."""
    pytest.importorskip("arviz", reason="needs the extra 'sampling'")
    source = torch.Generator().manual_seed(0)
    made = torch.randn(4, 50, 5, generator=source)
    made[..., 2:4] += 5 * torch.arange(4).view(4, 1, 1)
    made[..., 4] = 7 + 1e-3 * made[..., 4]
    return made


def test_r_hat_is_that_of_the_library_over_the_numbers_that_vary(numbers):
    found = r_hat(numbers)
    each = [cl.diagnostics.convergence({"x": numbers[..., k]})["x"].rhat for k in range(4)]
    assert found.largest == max(each) > 1.5
    assert found.median == pytest.approx(sum(sorted(each)[1:3]) / 2)


def test_what_never_varies_has_no_r_hat(numbers):
    assert r_hat(numbers[..., 4:]) is None


def test_three_draws_are_too_few(numbers):
    assert r_hat(numbers[:, :3]) is None
    assert r_hat(numbers[:, :4]) is not None


def test_a_single_chain_is_compared_with_itself(numbers):
    assert r_hat(numbers[:1, :, :2]).largest < 1.2


def test_every_trace_has_a_title():
    assert list(chains.TRACES) == ["kernel_norms", "kernel_entries", "log_probabilities"]
