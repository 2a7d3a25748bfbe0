"""Constraints in the `Trainer` of transformers: an optimizer from rules, and a callback that logs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import nn

from colangevin.constraints.start import Init
from colangevin.diagnostics import Monitor
from colangevin.errors import ConstraintError
from colangevin.extras import extra
from colangevin.optim import constrain
from colangevin.optim.base import ConstrainedOptimizer
from colangevin.optim.param_groups import Rules
from colangevin.optim.ranks import check_ranks
from colangevin.optim.unwrap import unwrap

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
else:
    Trainer, TrainerCallback = (
        getattr(extra("transformers", "The callback for transformers", "transformers"), name)
        for name in ("Trainer", "TrainerCallback")
    )

__all__ = ["ConstraintCallback", "constrained_optimizer"]


def constrained_optimizer(
    rules: Rules, optimizer: Callable[..., ConstrainedOptimizer], *, init: Init = "auto", **options: Any
) -> tuple[type, dict[str, Any]]:
    """Give a transformers `Trainer` an optimizer under constraints: its argument `optimizer_cls_and_kwargs`.

    The trainer builds the optimizer itself, after it has loaded the weights of a checkpoint. So
    `train(resume_from_checkpoint=...)` finds weights that satisfy their constraints, keeps them bit for bit
    and loads the optimizer's state. `model_init` and `hyperparameter_search` work too. As in the trainer's
    own optimizers, `weight_decay` leaves biases and norms alone, and with them what a constraint holds
    together with one. Options of the optimizer are given here;
    `learning_rate`, `weight_decay` and `optim` of `TrainingArguments` are not used.

    Args:
        rules: as in `colangevin.constrain`.
        optimizer: `colangevin.CoLud` or another optimizer of this library.
        init: how the weights start, as in `colangevin.constrain`, but for `"draw"`.
        options: of the optimizer: `lr`, `friction`, `temperature` and so on.

    Returns:
        What `Trainer(..., optimizer_cls_and_kwargs=...)` takes.

    Raises:
        ConstraintError: for `init="draw"`, which would replace the weights of a checkpoint too.

    Examples:
        >>> from transformers import Trainer, TrainingArguments
        >>> from colangevin.integrations.transformers import constrained_optimizer
        >>> trainer = Trainer(
        ...     nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)),
        ...     TrainingArguments("out", report_to="none", use_cpu=True),
        ...     optimizer_cls_and_kwargs=constrained_optimizer(
        ...         {nn.Linear: cl.Circle(1.0)}, cl.CoLud, lr=0.1, friction=1.0, weight_decay=0.01
        ...     ),
        ... )
        >>> optimizer = trainer.create_optimizer()
        >>> [(group["param_names"], group["weight_decay"]) for group in optimizer.param_groups]
        [(['0.weight'], 0.01), (['0.bias', '1.weight', '1.bias'], 0.0)]
    """
    if init == "draw":
        raise ConstraintError(
            "init='draw': the trainer would draw weights also when it resumes, after it has loaded the "
            "checkpoint. Call colangevin.constrain(model, rules, init='draw') before the Trainer is made, "
            "and use init='auto' here."
        )
    return _Build, {"rules": rules, "optimizer": optimizer, "init": init, "options": options}


class _Build:
    """Builds the optimizer. The trainer makes one without arguments, and calls it with the model."""

    def __call__(
        self,
        model: nn.Module,
        *,
        rules: Rules,
        optimizer: Callable[..., ConstrainedOptimizer],
        init: Init,
        options: dict[str, Any],
    ) -> ConstrainedOptimizer:
        """The optimizer of a model.

        Args:
            model: the one to train.
            rules: which parameters are held by what.
            optimizer: its class.
            init: how the weights start.
            options: of the optimizer.

        Returns:
            The optimizer.
        """
        groups: list[dict[str, Any]] = constrain(model, rules, init=init)
        if "weight_decay" in options:
            # it reads nothing of the trainer
            groups = _split(groups, set(Trainer.get_decay_parameter_names(None, model)))
        return optimizer(groups, **options)


def _split(groups: list[dict[str, Any]], decaying: set[str]) -> list[dict[str, Any]]:
    """Every group in two, with weight decay and without; one whose parameters belong together stays whole."""
    found = []
    for group in groups:
        if group["constraint"].shapes is not None:
            decays = all(name in decaying for name, _ in group["params"])
            found.append(group if decays else {**group, "weight_decay": 0.0})
            continue
        kept = [member for member in group["params"] if member[0] in decaying]
        others = [member for member in group["params"] if member[0] not in decaying]
        if kept:
            found.append({**group, "params": kept})
        if others:
            found.append({**group, "params": others, "weight_decay": 0.0})
    return found


class ConstraintCallback(TrainerCallback):
    """Log violations, temperatures and solver counts into the logs of a transformers `Trainer`.

    The numbers are those of `colangevin.diagnostics.Monitor.latest`. They go through `trainer.log`, so
    `trainer.state.log_history` and every integration that the trainer reports to get them. Before the first
    step of a distributed training, all ranks must have the same weights and seeds. A trainer does not tell
    its callbacks which trainer it is, so it is an argument.

    Args:
        trainer: the one that the callback is added to.
        every: log every so many steps of the optimizer; None for the trainer's `logging_steps`.

    Attributes:
        monitor: of the optimizer, from the start of the training on. Its `report()` says whether the
            temperatures are right.

    Raises:
        ValueError: for a number out of range.
        TypeError: at the start of the training, when the optimizer is another library's.
        ConstraintError: at the start of the training, when ranks differ.

    Examples:
        >>> from transformers import Trainer, TrainingArguments
        >>> from colangevin.integrations.transformers import ConstraintCallback
        >>> trainer = Trainer(nn.Linear(3, 2), TrainingArguments("out", report_to="none", use_cpu=True))
        >>> trainer.add_callback(ConstraintCallback(trainer, every=10))
    """

    def __init__(self, trainer: "Trainer", *, every: int | None = None) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ValueError(f"every={every!r}: must be a whole number of steps, at least 1, or None.")
        self.trainer = trainer
        self.every = every
        self.monitor: Monitor | None = None

    def on_train_begin(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        optimizer = unwrap(kwargs["optimizer"])
        check_ranks(optimizer)
        self.monitor = Monitor(optimizer)

    def on_pre_optimizer_step(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        if self.monitor is not None and self._due(state, state.global_step + 1):
            self.monitor.record()

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        if self.monitor is not None and self._due(state, state.global_step):
            logging = control.should_log
            self.trainer.log(self.monitor.latest())
            # The trainer takes every log for its own. Without this the loss of this step would not be logged.
            control.should_log = logging

    def _due(self, state: "TrainerState", step: int) -> bool:
        every = self.every or max(1, int(state.logging_steps))
        return bool(state.is_world_process_zero and step % every == 0)
