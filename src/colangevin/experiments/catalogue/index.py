"""Every experiment there is, by name."""

from colangevin.experiments.catalogue import (
    bounded_image_readings,
    bounded_images,
    four_turn,
    hmc_distance,
    language,
    language_searches,
    orthogonal_image_variants,
    orthogonal_images,
    source_code,
    source_code_searches,
    two_turn,
    two_turn_searches,
)
from colangevin.experiments.catalogue.experiment import Experiment

__all__ = ["EXPERIMENTS", "find"]

EXPERIMENTS: tuple[Experiment, ...] = (
    two_turn.SPIRAL,
    two_turn_searches.RADIUS,
    two_turn_searches.DECAY,
    two_turn_searches.PROTOCOLS,
    four_turn.DEPTH,
    four_turn.PENALTY,
    bounded_images.FASHION,
    bounded_images.GRID,
    bounded_image_readings.READINGS,
    orthogonal_images.RESNET,
    orthogonal_images.SHORT,
    orthogonal_images.IDENTITIES,
    orthogonal_image_variants.PENALTY,
    orthogonal_image_variants.OVERDAMPED,
    orthogonal_image_variants.TIME,
    language.TRANSFORMER,
    language_searches.SEARCH,
    language_searches.NEAREST,
    language_searches.BEST,
    source_code.DECODER,
    source_code.LONG,
    source_code_searches.SEARCH,
    hmc_distance.DISTANCE,
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
