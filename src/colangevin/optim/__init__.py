"""Optimizers, and the choice of parameters they act on."""

from colangevin.optim.adam import ConstrainedAdam
from colangevin.optim.colod import CoLod
from colangevin.optim.colud import CoLud
from colangevin.optim.muon import ConstrainedMuon
from colangevin.optim.param_groups import constrain
from colangevin.optim.projection import project_
from colangevin.optim.sgd import ConstrainedSGD

__all__ = ["CoLod", "CoLud", "ConstrainedAdam", "ConstrainedMuon", "ConstrainedSGD", "constrain", "project_"]
