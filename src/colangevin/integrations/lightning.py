"""Constraints in a `lightning.pytorch` training: numbers in its logs, schedules, samples, averages, ranks."""

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from colangevin.diagnostics import Monitor
from colangevin.errors import ConstraintError
from colangevin.extras import extra
from colangevin.integrations.averages import Averages
from colangevin.integrations.watched import Watched
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.ranks import check_ranks
from colangevin.optim.unwrap import unwrap
from colangevin.sampling import Samples
from colangevin.schedules import Schedule

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    # Both packages are the same code, each with classes of its own. Either trainer takes either callback.
    _old_name = not find_spec("lightning") and find_spec("pytorch_lightning")
    _package = "pytorch_lightning" if _old_name else "lightning.pytorch"
    Callback = extra(_package, "The callback for Lightning", "lightning").Callback

__all__ = ["ConstraintCallback"]


class ConstraintCallback(Callback):
    """Watch, schedule and sample this library's optimizers in a Lightning training.

    - The numbers of `colangevin.diagnostics.Monitor.latest` go to the trainer's loggers and into
      `trainer.callback_metrics`, under the monitor's names. If several optimizers are of this library, the
      names begin with the optimizer's place: `"optimizer1/violation[0]"`.
    - Schedules take a step after every step of their optimizer. Samples are collected.
    - What `WeightAveraging` and `StochasticWeightAveraging` put into the model is projected onto the
      constraints. Put this callback after them.
    - Before the first step of a distributed training, all ranks must have the same weights and seeds.

    A step is a step of the optimizer: batches whose gradients are accumulated do not count, nor do steps that
    a gradient scaler skips. Optimization may be automatic or manual, and the module may have other optimizers
    besides. The trainer's checkpoints hold the schedules, the samples and the counts; a resumed training goes
    on from them.

    Args:
        every: log every so many steps; None for the trainer's `log_every_n_steps`.
        schedules: called with every optimizer of this library, returns its schedules.
        samples: called with the module, returns the samples to collect into after every step. If several
            optimizers move weights of their model, the steps of the last one count. While a `Cyclical`
            schedule explores, nothing is collected. In a distributed training rank 0 collects, and it alone
            calls this.

    Attributes:
        samples: what `samples` returned, from the start of the training on.
        monitors: one for each optimizer of this library, from the start of the training on. Their `report()`
            says whether the temperatures are right.

    Raises:
        ValueError: for a number out of range.
        ConstraintError: at the start of the training, when no optimizer is of this library, when samples are
            of another model, when a callback that averages comes later, or when ranks differ.

    Examples:
        >>> import lightning.pytorch as pl
        >>> from colangevin.integrations.lightning import ConstraintCallback
        >>> class Module(pl.LightningModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.net = nn.Linear(3, 2)
        ...
        ...     def training_step(self, batch):
        ...         return self.net(batch).square().mean()
        ...
        ...     def configure_optimizers(self):
        ...         groups = cl.constrain(self.net, {"weight": cl.Circle(1.0)})
        ...         return cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-3)
        >>> callback = ConstraintCallback(every=1, samples=lambda module: cl.Samples(module.net, burn_in=2))
        >>> quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        >>> trainer = pl.Trainer(
        ...     accelerator="cpu", max_epochs=1, callbacks=callback, enable_model_summary=False, **quiet
        ... )
        >>> trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(20, 3), batch_size=4))
        >>> len(callback.samples), bool(trainer.callback_metrics["violation[0]"] < 1e-6)
        (3, True)
    """

    def __init__(
        self,
        *,
        every: int | None = None,
        schedules: Callable[[ConstrainedOptimizer], Sequence[Schedule]] | None = None,
        samples: Callable[["LightningModule"], Samples] | None = None,
    ) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ValueError(f"every={every!r}: must be a whole number of steps, at least 1, or None.")
        self.every = every
        self.samples: Samples | None = None
        self.monitors: list[Monitor] = []
        self._make_samples = samples
        self._make_schedules = schedules
        self._watched: list[Watched] = []
        self._averages: Averages | None = None
        #: what a checkpoint held, until the optimizers have their state
        self._loaded: dict[str, Any] | None = None

    # ---- the training ----------------------------------------------------------------------------

    def setup(self, trainer: "Trainer", pl_module: "LightningModule", stage: str) -> None:
        self._loaded = None

    def on_fit_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        found = {place: _ours(each) for place, each in enumerate(trainer.optimizers)}
        ours = {place: optimizer for place, optimizer in found.items() if optimizer is not None}
        if not ours:
            names = ", ".join(type(each).__name__ for each in trainer.optimizers) or "none"
            raise ConstraintError(
                f"optimizers: the module has {names}, none of this library. Return colangevin.CoLud or "
                "another from configure_optimizers, or leave the ConstraintCallback out."
            )
        self._averages = Averages(pl_module, ours.values(), trainer.callbacks, self)
        make = self._make_samples
        self.samples = make(pl_module) if make is not None and trainer.is_global_zero else None
        collecting = None if self.samples is None else _moving(self.samples, ours.values())
        self._watched = []
        for place, optimizer in ours.items():
            schedules = self._make_schedules(optimizer) if self._make_schedules else []
            samples = self.samples if optimizer is collecting else None
            prefix = f"optimizer{place}/" if len(ours) > 1 else ""
            self._watched.append(Watched(optimizer, list(schedules), samples, prefix))
        self.monitors = [watched.monitor for watched in self._watched]

    def on_train_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        if self._loaded is not None:
            self._restore(self._loaded)
            self._loaded = None
        for watched in self._watched:
            check_ranks(watched.optimizer)

    def on_before_optimizer_step(
        self, trainer: "Trainer", pl_module: "LightningModule", optimizer: Optimizer
    ) -> None:
        # here gradients and weights belong together; a hook of the optimizer's step would precede the closure
        every = trainer.log_every_n_steps if self.every is None else self.every
        stepping = _ours(optimizer)
        for watched in self._watched:
            if every and trainer.is_global_zero and watched.optimizer is stepping:
                watched.record(every)

    def on_train_batch_end(
        self, trainer: "Trainer", pl_module: "LightningModule", outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        numbers = {name: value for watched in self._watched for name, value in watched.news().items()}
        if not numbers:
            return
        # as for the numbers of pl_module.log, so that all have the same axis
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=step)
        trainer.callback_metrics.update({name: torch.tensor(value) for name, value in numbers.items()})

    def teardown(self, trainer: "Trainer", pl_module: "LightningModule", stage: str) -> None:
        self._release()

    def on_exception(
        self, trainer: "Trainer", pl_module: "LightningModule", exception: BaseException
    ) -> None:
        self._release()

    def _release(self) -> None:
        for watched in self._watched:
            watched.release()

    # ---- averages --------------------------------------------------------------------------------

    def on_train_epoch_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        if self._averages is not None and self._averages.project_last(trainer.current_epoch, end=False):
            self._release()  # this epoch trains nothing

    def on_train_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        if self._averages is not None:
            self._averages.project_last(trainer.current_epoch, end=True)

    def on_validation_epoch_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        if self._averages is not None:
            self._averages.project()

    def on_validation_epoch_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        if self._averages is not None:
            self._averages.put_back()

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Steps and schedules of every optimizer, and the samples."""
        return {
            "optimizers": [watched.state_dict() for watched in self._watched],
            "samples": None if self.samples is None else self.samples.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until the training starts: schedules load theirs after their optimizer."""
        self._loaded = state_dict

    def _restore(self, state: dict[str, Any]) -> None:
        saved = state["optimizers"]
        if len(saved) != len(self._watched):
            raise ConstraintError(
                f"checkpoint: it has {len(saved)} optimizers of this library, the module has "
                f"{len(self._watched)}. Build the optimizers as in the saved training."
            )
        for watched, each in zip(self._watched, saved, strict=True):
            watched.load_state_dict(each)
        if self.samples is not None and state["samples"] is not None:
            self.samples.load_state_dict(state["samples"])


def _ours(optimizer: object) -> ConstrainedOptimizer | None:
    """The optimizer of this library that an object is or wraps, if it is one."""
    try:
        return unwrap(optimizer)
    except TypeError:
        return None


def _moving(samples: Samples, optimizers: Iterable[ConstrainedOptimizer]) -> ConstrainedOptimizer:
    """The last optimizer that moves weights of the samples' model."""
    weights = set(samples.model.parameters())
    moving = [each for each in optimizers if not weights.isdisjoint(each._parameters())]
    if not moving:
        raise ConstraintError(
            "samples: no optimizer of this library moves a weight of their model. Make them of the module "
            "that is trained, or of a part of it."
        )
    return moving[-1]
