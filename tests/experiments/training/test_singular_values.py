import math

import numpy as np
import torch

from colangevin.experiments.models.resnet import ResNet34
from colangevin.experiments.training import singular_values as module
from colangevin.experiments.training.singular_values import row_norms, singular_values


def test_of_many_singular_values_some_are_kept_the_largest_and_the_smallest_among_them(monkeypatch):
    model = ResNet34(width=2)
    names, whole = singular_values(model)
    monkeypatch.setattr(module, "_MOST", 5)
    _, thin = singular_values(model)
    assert thin.shape == (1, 1, len(names), 5)
    for values, kept in zip(whole[0, 0], thin[0, 0], strict=True):
        values, kept = values[~np.isnan(values)], kept[~np.isnan(kept)]
        assert len(kept) == min(5, len(values))
        assert set(kept) <= set(values)
        assert (kept[0], kept[-1]) == (values[0], values[-1])


def test_norms_of_rows_are_ranked_and_thinned_alike(monkeypatch):
    model = ResNet34(width=2)
    names, _ = singular_values(model)
    monkeypatch.setattr(module, "_MOST", 5)
    weights = dict(model.named_parameters())
    for name, kept in zip(names, row_norms(model)[0, 0], strict=True):
        norms = np.sort(weights[name].detach().flatten(1).norm(dim=1).numpy())[::-1]
        kept = kept[~np.isnan(kept)]
        assert len(kept) == min(5, len(norms))
        np.testing.assert_allclose((kept[0], kept[-1]), (norms[0], norms[-1]), rtol=2**-10)


def test_numbers_are_kept_to_a_part_in_a_thousand():
    model = ResNet34(width=2)
    names, spectra = singular_values(model)
    weights = dict(model.named_parameters())
    for name, kept in zip(names, spectra[0, 0], strict=True):
        whole = torch.linalg.svdvals(weights[name].detach().flatten(1))[0].item()
        assert abs(kept[0] / whole - 1) <= 2**-10
        assert float(kept[0]) * 2 ** (10 - math.frexp(kept[0])[1]) % 1 == 0


def test_weights_that_are_not_finite_have_no_numbers_and_change_no_shape():
    model = ResNet34(width=2)
    shapes = singular_values(model)[1].shape, row_norms(model).shape
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(math.nan)
    lost = singular_values(model)[1], row_norms(model)
    assert tuple(each.shape for each in lost) == shapes
    assert all(np.isnan(each).all() for each in lost)
