import numpy as np

from colangevin.experiments.models.resnet import ResNet34
from colangevin.experiments.training import singular_values as module
from colangevin.experiments.training.singular_values import singular_values


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
