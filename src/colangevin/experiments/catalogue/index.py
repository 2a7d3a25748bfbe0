"""Every experiment there is, by name."""

from colangevin.experiments.catalogue import bounded_images, four_turn, language, orthogonal_images, two_turn
from colangevin.experiments.catalogue.experiment import Experiment

__all__ = ["EXPERIMENTS", "find"]

EXPERIMENTS: tuple[Experiment, ...] = (
    two_turn.SPIRAL,
    two_turn.RADIUS,
    two_turn.DECAY,
    two_turn.PROTOCOLS,
    four_turn.DEPTH,
    four_turn.PENALTY,
    bounded_images.FASHION,
    bounded_images.GRID,
    bounded_images.READINGS,
    orthogonal_images.RESNET,
    orthogonal_images.SHORT,
    orthogonal_images.IDENTITIES,
    orthogonal_images.PENALTY,
    orthogonal_images.OVERDAMPED,
    orthogonal_images.TIME,
    language.TRANSFORMER,
    language.SEARCH,
    language.NEAREST,
    language.BEST,
)


def find(name: str) -> Experiment:
    """The experiment of that name, or the one a figure or table of that name comes from.

    Args:
        name: such as ``four-turn``, ``fig4`` or ``tabD2``; capitals do not matter.

    Returns:
        The experiment.

    Raises:
        KeyError: with what names there are.
    """
    for experiment in EXPERIMENTS:
        if name.lower() in (experiment.name, *(each.lower() for each in experiment.covers)):
            return experiment
    known = ", ".join(experiment.name for experiment in EXPERIMENTS)
    figures = ", ".join(each for experiment in EXPERIMENTS for each in experiment.covers)
    raise KeyError(f"no experiment '{name}'. Experiments: {known}. Figures and tables: {figures}.")
