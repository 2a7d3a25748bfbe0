"""Spheres on a CPU are moved some rows at a time, which changes nothing."""

import pytest
import torch

import colangevin as cl
from colangevin.constraints import rows

RADII = {
    "one": 2.0,
    "of each row": torch.linspace(1, 2, 37, dtype=torch.float64),
    "of each copy": torch.tensor([[1.0], [1.5], [2.0]], dtype=torch.float64),
}


@pytest.mark.parametrize("entries", [1, 100, 10_000])
@pytest.mark.parametrize("slack", [True, False])
@pytest.mark.parametrize("radius", RADII.values(), ids=RADII.keys())
def test_rows_are_moved_alike_whatever_their_blocks(monkeypatch, radius, slack, entries):
    constraint = cl.Sphere(radius, slack=slack).on((37, 11))
    q = constraint.lift(torch.randn(3, 37, 11, dtype=torch.float64) * 0.1)
    force = torch.randn_like(q)
    p = constraint.tangent(q, force)
    whole = (*constraint.drift(q, p, 0.3), p, constraint.project(q, q + p))
    monkeypatch.setattr(rows, "_BLOCK", entries)
    parts = (*constraint.drift(q, p, 0.3), constraint.tangent(q, force), constraint.project(q, q + p))
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one, other)
