import numpy as np
import pytest
import torch

import colangevin as cl
from colangevin.experiments.judging.calibration import judge_predictions


def drawn(images, seed):
    random = np.random.default_rng(seed)
    p = torch.from_numpy(random.dirichlet(np.full(10, 0.3), images))
    return p, torch.from_numpy(random.integers(10, size=images))


@pytest.mark.parametrize("seed", range(3))
def test_the_three_numbers_are_those_of_the_library(seed):
    pytest.importorskip("torchmetrics", reason="needs the extra 'sampling'")
    found, expected = judge_predictions(*drawn(500, seed)), cl.quality(*drawn(500, seed))
    assert found == pytest.approx((expected.accuracy, expected.nll, expected.ece), rel=1e-5)


def test_confidences_at_the_edge_of_a_bin_belong_to_the_lower_one():
    p = torch.tensor([[0.6, 0.4], [0.6 + 1e-9, 0.4 - 1e-9]], dtype=torch.double)
    assert judge_predictions(p, torch.tensor([0, 1])).calibration_error == pytest.approx((0.4 + 0.6) / 2)


def test_an_impossible_class_has_a_finite_loss():
    p = torch.tensor([[1.0, 0.0]])
    assert 700 < judge_predictions(p, torch.tensor([1])).loss < 710
