"""Experiments that run in this process, on a coarse grid of the plane."""

import pytest
import torch

from colangevin.experiments.judging import plane
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training import runner
from tests.experiments.conftest import Nobody


def run_all(out, *experiments, picture=12, command=("colangevin",)):
    """Run experiments to their end; their results are then in a folder."""
    device = torch.device("cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plane, "GRID", 60)
        patch.setattr(plane, "PICTURE", picture)
        for experiment in experiments:
            folder = Folder(out, experiment.name)
            folder.open(experiment, device, list(command), resume=False)
            assert runner.run(experiment, folder, device, Nobody(), lambda: False)
    return out
