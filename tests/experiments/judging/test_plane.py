import numpy as np
import pytest
import torch

import colangevin as cl
from colangevin.experiments.judging import plane
from colangevin.experiments.models.mlp import MLP


@pytest.mark.parametrize("radius", [0.1, 2.0])
def test_curvature_of_a_circle_is_one_over_its_radius(radius):
    angle = np.linspace(0, 2 * np.pi, 400)
    points = radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    kappa = plane.curvature(points)
    # the ends have one-sided differences
    np.testing.assert_allclose(kappa[2:-2], 1 / radius, rtol=1e-3)


def test_curvature_of_the_formula_at_one_point():
    # x = t, y = t² at t = 0: curvature 2
    t = np.linspace(-1, 1, 2001)
    kappa = plane.curvature(np.stack((t, t**2), axis=1))
    assert kappa[1000] == pytest.approx(2, rel=1e-4)


def test_a_line_is_straight_and_too_few_points_say_nothing():
    line = np.stack((np.arange(9.0), 2 * np.arange(9.0)), axis=1)
    np.testing.assert_allclose(plane.curvature(line), 0, atol=1e-12)
    assert len(plane.curvature(line[:2])) == 0


def test_a_line_that_turns_back_gives_no_infinite_curvature():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    assert np.isfinite(plane.curvature(points)).all()


def test_boundary_of_a_disc():
    places = np.linspace(-1, 1, 301)
    x, y = np.meshgrid(places, places)
    probability = 1 / (1 + np.exp(-(0.5 - np.hypot(x, y))))
    # points along a contour are unevenly spaced, which makes the estimate rough, as the paper says
    assert np.median(plane._boundary_curvature(places, probability)) == pytest.approx(2, rel=0.2)


def test_no_boundary_or_no_numbers_mean_no_curvature():
    places = np.linspace(-1, 1, 11)
    assert len(plane._boundary_curvature(places, np.full((11, 11), 0.2))) == 0
    assert len(plane._boundary_curvature(places, np.full((11, 11), np.nan))) == 0
    assert all(np.isnan(plane._moments(np.empty(0))))


@pytest.fixture
def lines():
    """Two perceptrons that predict sigmoid(k x), k = 8."""
    models = cl.Replicas(lambda: MLP(depth=1, width=8), 2)
    weights = dict(models.named_parameters())
    with torch.no_grad():
        for weight in weights.values():
            weight.zero_()
        weights["hidden.0.weight"][:, 0, 0] = 1.0
        weights["hidden.0.weight"][:, 1, 0] = -1.0
        weights["output.weight"][:, 0, 0] = 8.0
        weights["output.weight"][:, 0, 1] = -8.0
    return models


def test_gradients_along_the_axes(lines, monkeypatch):
    monkeypatch.setattr(plane, "GRID", 201)
    numbers, curves = plane.measure(lines, 1, 1.2, lambda done, total: None)
    assert numbers["sharpest transition"].shape == (1, 2)
    # the slope of a sigmoid is largest in the middle, k / 4
    assert numbers["sharpest transition"][0, 0] == pytest.approx(2, rel=1e-2)
    assert curves["gradient_mean"].shape == (1, 2, 201)
    np.testing.assert_allclose(curves["gradient_mean"][0, 1], 0, atol=1e-6)
    # a straight boundary, x = 0, from below to above
    assert numbers["curvature"][0, 1] == pytest.approx(0, abs=1e-9)
    assert numbers["curvature points"][0, 0] >= 200


def test_pictures_show_the_plane_from_below(lines, monkeypatch):
    monkeypatch.setattr(plane, "PICTURE", 21)
    picture = plane.look(lines, 1, 1.2)["picture"]
    assert picture.shape == (1, 2, 21, 21)
    assert picture.dtype == np.uint8
    assert (picture[0, 0, :, 0] == 0).all()
    assert (picture[0, 0, :, -1] == plane.LEVELS - 1).all()
