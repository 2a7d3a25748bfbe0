"""Accuracy, likelihood and calibration of predictions whose own are known."""

import math

import pytest
import torch

import colangevin as cl


def test_by_hand():
    p = torch.tensor([[0.95, 0.05, 0.0], [0.2, 0.55, 0.25], [0.25, 0.3, 0.45], [0.65, 0.3, 0.05]])
    labels = torch.tensor([0, 1, 2, 1])
    found = cl.quality(p, labels, bins=10)
    assert found.accuracy == 0.75
    assert found.nll == pytest.approx(-(math.log(0.95) + math.log(0.55) + math.log(0.45) + math.log(0.3)) / 4)
    assert found.ece == pytest.approx((0.05 + 0.45 + 0.55 + 0.65) / 4)
    assert str(found) == "accuracy 75.00%, NLL 0.6629, ECE 0.4250"


def test_two_classes_may_be_one_number():
    p = torch.tensor([0.875, 0.25, 0.625])
    labels = torch.tensor([1, 0, 0])
    assert cl.quality(p, labels) == cl.quality(torch.stack((1 - p, p), 1), labels)


def test_calibrated_predictions_have_a_small_error_and_overconfident_ones_do_not():
    """Labels drawn from the probabilities: 20,000 in 15 bins leave 0.02; sharpened ones are far off."""
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(20_000, 5, generator=generator, dtype=torch.float64).softmax(1)
    labels = torch.multinomial(p, 1, generator=generator).squeeze(1)
    sharp = p.pow(3) / p.pow(3).sum(1, keepdim=True)
    assert cl.quality(p, labels).ece < 0.02
    assert cl.quality(sharp, labels).ece > 0.1
    assert cl.quality(sharp, labels).accuracy == cl.quality(p, labels).accuracy
    assert cl.quality(sharp, labels).nll > cl.quality(p, labels).nll


def test_a_class_nobody_believes_in_costs_a_finite_amount():
    assert math.isfinite(cl.quality(torch.tensor([[1.0, 0.0]]), torch.tensor([1])).nll)


def test_the_reliability_plot():
    p = torch.tensor([[0.93, 0.07], [0.95, 0.05], [0.65, 0.35]])
    figure = cl.plot_reliability(p, torch.tensor([0, 1, 0]), bins=10)
    axis = figure.axes[0]
    assert [bar.get_height() for bar in axis.patches] == [1.0, 0.5]
    assert axis.get_title().startswith("accuracy 66.67%")


@pytest.mark.parametrize(
    ("p", "labels", "message"),
    [
        (
            torch.zeros(2, 3),
            torch.zeros(3),
            r"probabilities of shape \(2, 3\) and labels of shape \(3,\)",
        ),
        (torch.randn(4, 3), torch.zeros(4), r"probabilities: some are outside of \[0, 1\] .* need a softmax"),
        (torch.full((4, 3), 0.5), torch.zeros(4), r"or do not sum to 1"),
    ],
)
def test_errors(p, labels, message):
    with pytest.raises(ValueError, match=message):
        cl.quality(p, labels)
