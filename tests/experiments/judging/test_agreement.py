import pytest
import torch

from colangevin.experiments.judging.agreement import agreement, total_variation

ONE = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
OTHER = torch.tensor([[0.5, 0.4, 0.1], [0.5, 0.2, 0.3], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])


def test_agreement_is_the_share_of_equal_classes():
    assert agreement(ONE, OTHER) == 0.5
    assert agreement(ONE, ONE) == 1.0


def test_total_variation_is_the_mean_over_data():
    assert total_variation(ONE, OTHER) == pytest.approx((0.2 + 0.4 + 0.0 + 1.0) / 4)
    assert total_variation(OTHER, ONE) == total_variation(ONE, OTHER)
    assert total_variation(ONE, ONE) == 0.0


@pytest.mark.parametrize("distance", [agreement, total_variation])
def test_what_cannot_be_compared_is_refused(distance):
    with pytest.raises(ValueError, match=r"shapes \(4, 3\) and \(3, 3\): must both be .* in the same order"):
        distance(ONE, OTHER[:3])
    for wrong in (ONE.log_softmax(1), 2 * ONE, ONE * float("nan")):
        with pytest.raises(ValueError, match=r"some are below 0 or do not sum to 1. Take a softmax"):
            distance(ONE, wrong)
