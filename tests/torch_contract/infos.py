"""The rows of ``optim_db`` as torch's own ``OptimizerInfo``.

The tests beside this file ask of each what torch's tests ask of torch's optimizers. Torch ships the machinery
(``torch.testing._internal``), not the tests, so they are written anew, one file a subject.

:data:`REASONS` is the one list of what is not to be had. Nothing in it is left out: the test runs, has to end
in the error that the row names, and is then reported as skipped for the reason given. A row whose test would
pass is a failure.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.optim import Optimizer, lr_scheduler
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_methods_invocations import DecorateInfo
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    get_error_inputs_for_all_optims,
    optims,
)
from torch.testing._internal.common_utils import TestCase

import colangevin as cl
from tests.optim_db import OPTIMIZERS, ConstraintCase, OptimizerCase, Problem, by_id

__all__ = ["INFOS", "REASONS", "ConstrainedInfo", "TestCase", "each_info", "on_the_cpu"]

CLASSES = (cl.CoLod, cl.CoLud, cl.ConstrainedSGD, cl.ConstrainedAdam, cl.ConstrainedMuon)
#: kinds of constraints that every class is tried with, and those that one class is enough for
KINDS = ("free", "circle", "sphere-slack", "orthogonal-tall", "implicit", "core-columns")
MORE_KINDS = ("orthogonal-blocks", "implicit-rows", "affine", "symmetric", "nonnegative", "simplex")
PAIRS = [
    *((cls, kind) for cls in CLASSES[:3] for kind in KINDS),
    *((cls, kind) for cls in CLASSES[3:] for kind in KINDS[:4]),
    *((cl.CoLud, kind) for kind in MORE_KINDS),
]


# ---- what is not to be had -------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """A test that some optimizers fail on purpose: why, and the error in which it ends."""

    test: str
    why: str
    error: type[Exception]
    message: str
    classes: tuple[type[Optimizer], ...] = CLASSES

    def decorate(self, test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(case: TestCase, *args: Any, **kwargs: Any) -> None:
            with pytest.raises(self.error, match=self.message):
                test(case, *args, **kwargs)
            case.skipTest(self.why)

        return run


REASONS = (
    Reason(
        "test_complex_parameters",
        "Complex parameters are refused by name: no constraint here says what it means for them.",
        cl.ConstraintError,
        r"parameter 'weight' .*: complex parameters are not supported",
    ),
    Reason(
        "test_sparse_gradients",
        "Sparse gradients are refused by name: a step moves every weight, also where the gradient is zero.",
        cl.ConstraintError,
        r"parameter 'weight' .*: .*sparse",
    ),
    Reason(
        "test_implementation_flags",
        "A step can always be captured in a CUDA graph, and none can be differentiated: there is no flag.",
        TypeError,
        "unexpected keyword argument",
    ),
    Reason(
        "test_default_options",
        "lr has no default, and CoLud's friction has none: what is usual depends on the constraint.",
        TypeError,
        "missing 1 required",
    ),
    Reason(
        "test_cycled_momentum",
        "There is no momentum to cycle: CoLud has friction instead. OneCycleLR and CyclicLR take "
        "cycle_momentum=False.",
        ValueError,
        "optimizer must support momentum",
        (cl.CoLod, cl.CoLud),
    ),
    Reason(
        "test_step_count_that_is_no_tensor",
        "A step count that is no tensor is refused by name: every version of this library wrote tensors.",
        cl.ConstraintError,
        r"parameter 'weight' .*: .*step",
    ),
)


# ---- the infos -------------------------------------------------------------------------------------


class ConstrainedInfo(OptimizerInfo):
    """An optimizer with one constraint; it knows a problem for them."""

    def __init__(self, cls: type[Optimizer], constraint: ConstraintCase) -> None:
        self.constraint = constraint
        rows = [reason for reason in REASONS if cls in reason.classes]
        super().__init__(
            cls,
            optim_inputs_func=self._inputs,
            optim_error_inputs_func=self._error_inputs,
            scheduler_inputs=SCHEDULERS,
            supported_impls=(),
            # torch writes these into groups that it loads or copies; a dict may have them or not
            not_og_supported_flags=("foreach", "fused", "capturable", "differentiable"),
            supports_complex=False,
            skips=[DecorateInfo(reason.decorate, test_name=reason.test) for reason in rows],
        )

    @property
    def name(self) -> str:
        return f"{self.optim_cls.__name__}_{self.constraint.id.replace('-', '_')}"

    def option_sets(self, *, noisy: bool = True) -> Iterator[dict[str, Any]]:
        """The options of each input, with noise or without."""
        for given in self._inputs("cpu"):
            if noisy or not given.kwargs.get("temperature"):
                print("options:", given.desc)  # the last one is shown when a test fails
                yield given.kwargs

    def starts(
        self, device: str, dtype: torch.dtype, **overrides: Any
    ) -> Iterator[tuple[Problem, Optimizer]]:
        """A fresh problem and its optimizer for each set of options."""
        for options in self.option_sets():
            yield self.start(device, dtype, **{**options, **overrides})

    def start(self, device: str, dtype: torch.dtype, **options: Any) -> tuple[Problem, Optimizer]:
        """A fresh problem and its optimizer; options that are not given are those of the first set."""
        problem = self.problem(device, dtype)
        return problem, self.build(problem.groups(), **options)

    def problem(self, device: str, dtype: torch.dtype, seed: int = 0) -> Problem:
        """A fresh problem; another seed gives another one."""
        return Problem(self.constraint, dtype, seed).to(device)

    def noisy_start(self, device: str, dtype: torch.dtype) -> tuple[Problem, Optimizer]:
        """A fresh problem and an optimizer that has all there is to remember."""
        return self.start(device, dtype, **self.noisy_options)

    def build(self, groups: Any, **options: Any) -> Optimizer:
        return self.optim_cls(groups, **{**self.options, **options})

    @property
    def options(self) -> dict[str, Any]:
        """The first row of the table: no noise, no momentum where there is a choice."""
        return dict(self._rows()[0].options)

    @property
    def noisy_options(self) -> dict[str, Any]:
        """The last row: noise, and all the state there is."""
        return dict(self._rows()[-1].options)

    def _rows(self) -> list[OptimizerCase]:
        return [case for case in OPTIMIZERS if case.cls is self.optim_cls]

    def _inputs(self, device: str, dtype: torch.dtype | None = None) -> list[OptimizerInput]:
        up = {**self.noisy_options, "weight_decay": 0.1, "maximize": True}
        rate = {**self.options, "lr": torch.tensor(self.options["lr"], dtype=torch.float64)}
        every = {"quiet": self.options, "noisy": self.noisy_options, "maximize": up, "tensor lr": rate}
        return [OptimizerInput(params=None, kwargs=options, desc=words) for words, options in every.items()]

    def _error_inputs(self, device: str, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
        return [
            *(self._as_ours(each) for each in get_error_inputs_for_all_optims(device, dtype)),
            *self._bad_options(),
            *self._bad_gradients(device, dtype),
        ]

    def _as_ours(self, given: ErrorOptimizerInput) -> ErrorOptimizerInput:
        """One of torch's inputs with feasible weights under our constraint, and the options that we need."""
        wanted = given.optimizer_error_input
        if wanted.params is None:
            return self._bad("lr", wanted.kwargs["lr"], "lr: a tensor of shape .*: must be one number")
        params = OptimizerInput(self._held(wanted.params), {**self.options, **wanted.kwargs}, wanted.desc)
        return ErrorOptimizerInput(params, error_type=given.error_type, error_regex=given.error_regex)

    def _held(self, params: Any) -> Any:
        """What torch passes as ``params``, in groups under our constraint."""
        if not isinstance(params, list):
            return params
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        for group in groups:
            members = group["params"] if isinstance(group["params"], list) else [group["params"]]
            for member in members:
                parameter = member[1] if isinstance(member, tuple) else member
                parameter.data = self.constraint.weight(parameter.dtype).to(parameter.device)
        return [{**group, "constraint": self.constraint.constraint} for group in groups]

    def _bad_options(self) -> list[ErrorOptimizerInput]:
        every = ("lr", "friction", "momentum", "eps", "temperature")
        options = [name for name in every if name in inspect.signature(self.optim_cls).parameters]
        return [self._bad(name, -1.0, f"{name}=-1.0 in param_groups") for name in (*options, "weight_decay")]

    def _bad(self, option: str, value: Any, message: str) -> ErrorOptimizerInput:
        groups = Problem(self.constraint).groups()
        given = OptimizerInput(groups, {**self.options, option: value}, f"bad {option}")
        return ErrorOptimizerInput(given, error_type=cl.ConstraintError, error_regex=message)

    def _bad_gradients(self, device: str, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
        problem = Problem(self.constraint, dtype).to(device)
        problem.backward()
        problem.weight.grad.view(-1)[0] = torch.nan
        return [
            ErrorOptimizerInput(
                OptimizerInput(problem.groups(), self.options, "NaN gradient"),
                error_on=OptimizerErrorEnum.STEP_ERROR,
                error_type=cl.NonFiniteError,
                error_regex="parameter 'weight' .*: its gradient holds NaN or Inf",
            )
        ]


# Tuples of schedulers that run together, as in torch's own table.
SCHEDULERS = (
    (lambda opt: lr_scheduler.StepLR(opt, gamma=0.9, step_size=2),),
    (lambda opt: lr_scheduler.StepLR(opt, gamma=0.9, step_size=2), lr_scheduler.ReduceLROnPlateau),
    (lambda opt: lr_scheduler.ExponentialLR(opt, gamma=0.9), lr_scheduler.LinearLR),
)

INFOS = tuple(ConstrainedInfo(cls, by_id(kind)) for cls, kind in PAIRS)

# Decorates a test with the arguments (self, device, dtype, optim_info).
each_info = optims(INFOS, dtypes=[torch.float32])


def on_the_cpu(generic: type[TestCase], scope: dict[str, Any]) -> None:
    """Make the tests of a class, which is taken out of its module."""
    instantiate_device_type_tests(generic, scope, only_for="cpu")
