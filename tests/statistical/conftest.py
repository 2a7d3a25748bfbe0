"""Deliberately broken steps. A statistical test that passes them sees nothing."""

import pytest
import torch
from torch import Tensor

from colangevin.constraints import Manifold
from colangevin.constraints.circle import Angles
from colangevin.native.tables import MOST_LETTERS, Program
from colangevin.noise import normal
from colangevin.step.native.programs import programs


@pytest.fixture
def noise_10_percent_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def louder(*args: object, **kwargs: object) -> Tensor:
        return 1.1 * normal(*args, **kwargs)

    def with_louder_noise(*args: object) -> list[Program]:
        made = programs(*args)
        for program in {id(each): each for each in made}.values():
            for place in range(MOST_LETTERS):
                program.scale[place] *= 1.1
        return made

    monkeypatch.setattr("colangevin.step.plain.normal", louder)
    monkeypatch.setattr("colangevin.step.native.native.programs", with_louder_noise)


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps in plain torch, whose formulas a test can break."""
    monkeypatch.setattr("colangevin.step.plan.native", lambda entry, dynamics: False)


@pytest.fixture
def no_projection_after_noise(plainly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def unprojected(
        manifold: Manifold, q: Tensor, p: Tensor, decay: float, scale: float, noise: Tensor
    ) -> Tensor:
        return torch.add(decay * p, manifold.white(q, noise), alpha=scale)

    monkeypatch.setattr("colangevin.dynamics.underdamped.ornstein_uhlenbeck", unprojected)


@pytest.fixture
def arctan_for_atan2(plainly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's formula taken literally, alpha = arctan(xi / theta): every weight folds to theta >= 0."""

    def folded(self: Angles, q: Tensor, q_bar: Tensor) -> Tensor:
        alpha = torch.atan(q_bar[..., 1] / q_bar[..., 0])
        return torch.atan2(alpha.cos(), alpha.sin())

    monkeypatch.setattr(Angles, "project", folded)
