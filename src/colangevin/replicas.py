"""`Replicas`: copies of a model that train together as one batched module, for many runs at once."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin.constraints.start import Init
from colangevin.errors import ConstraintError
from colangevin.independence import independent
from colangevin.noise import stream
from colangevin.optim.groups import Groups
from colangevin.optim.param_groups import Rules, begin, choose, units_of
from colangevin.optim.seeds import drawn_seed
from colangevin.optim.stacked_module import StackedModule
from colangevin.stacked_layers import layers_in_a_row, through

__all__ = ["Replicas"]


class Replicas(StackedModule):
    """Many runs at once: independently initialised copies of a model that train as one batched module.

    Choose it for small models, of which one alone does not fill a device: for error bars over seeds, sweeps
    over rates, parallel chains of a sampler. Every parameter and buffer keeps its name and gains a dimension
    in front that counts the replicas. So `named_parameters`, `state_dict`, `to` and `deepcopy` work as for
    the model. A module whose `forward` branches on the values of tensors cannot be batched;
    `docs/replicas.md` lists what is not supported.

    Args:
        build: makes one model. It is called n times, each time with torch's generators newly seeded. It must
            draw from these only; CUDA's are seeded only if CUDA was used before, so build on the CPU.
        n: the number of replicas.
        seed: of the initialisation; None draws one from torch's generator, in a distributed job the same on
            all ranks. Replica i depends on the seed and on i, not on n. Torch's generators are left as they
            were.

    Raises:
        ConstraintError: when n is not a positive whole number, or `build` makes models of different shapes.
        TypeError: when `build` does not return a new module.

    Examples:
        >>> replicas = cl.Replicas(lambda: nn.Linear(2, 1), 3, seed=0)
        >>> replicas(torch.zeros(5, 2)).shape
        torch.Size([3, 5, 1])
        >>> groups = replicas.constrain({"weight": cl.Circle(2.0)})
        >>> optimizer = cl.CoLod(groups, lr=torch.tensor([0.01, 0.1, 1.0]))  # a rate for each
        >>> replicas[0]
        Linear(in_features=2, out_features=1, bias=True)
    """

    def __init__(self, build: Callable[[], nn.Module], n: int, *, seed: int | None = None) -> None:
        super().__init__()
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConstraintError(f"n={n!r}: must be a whole number, at least 1.")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ConstraintError(f"seed={seed!r}: must be a whole number or None.")
        self._n = n
        self._seed = drawn_seed(independent=independent()) if seed is None else seed
        # consecutive seeds: torch's generator uses 32 bits of a seed, in which mixed seeds could coincide
        first = stream(self._seed) >> 1
        models = [_built(build, first + i) for i in range(n)]
        if len({id(model) for model in models}) < n:
            raise TypeError("build: returned one module twice; it must make a new one at every call.")
        model = models[0]
        stacks = _stacked(models)
        # functional_call runs _model, a copy of the first model whose tensors are the stacks. Both modules
        # share their tables of parameters, buffers and submodules, so that both see every change. _model is
        # not a submodule of this one: then the names would have a prefix.
        object.__setattr__(self, "_model", copy.deepcopy(model, stacks))
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            object.__setattr__(self, table, getattr(self._model, table))

    _model: nn.Module

    @property
    def seed(self) -> int:
        """The seed of the initialisation."""
        return self._seed

    @property
    def template(self) -> nn.Module:
        """The module that `torch.func.functional_call` runs with the tensors of one replica."""
        return self._model

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> nn.Module:
        """Replica i as a plain module, with copies of its weights and buffers."""
        if not -self._n <= i < self._n:
            raise IndexError(f"replicas[{i}]: there are {self._n} replicas.")
        return copy.deepcopy(self._model, {id(stack): _copy(stack, i) for stack in self._tensors()})

    def extra_repr(self) -> str:
        return f"n={self._n}, seed={self._seed}"

    def train(self, mode: bool = True) -> "Replicas":
        """Set training mode, as in torch."""
        super().train(mode)
        self._model.training = mode
        return self

    def forward(self, *inputs: Tensor, per_replica: bool = False) -> Any:
        """The model's outputs, with the dimension that counts replicas in front.

        Args:
            inputs: one batch for all replicas, (batch, ...), or one for each, (n, batch, ...).
            per_replica: whether the inputs are one batch for each replica.

        Returns:
            What the model returns, every tensor of shape (n, batch, ...).

        Raises:
            ConstraintError: with `per_replica`, for an input without a batch for each replica; for a model
                with an operation that `torch.func.vmap` cannot batch, naming the operation.
            RuntimeError: raised by the model.
        """
        for x in inputs if per_replica else ():
            if x.dim() == 0 or x.shape[0] != self._n:
                raise ConstraintError(
                    f"input of shape {tuple(x.shape)} with per_replica=True: dimension 0 must be "
                    f"{self._n}, one batch for each replica. Leave per_replica out for a shared batch."
                )
        layers = layers_in_a_row(self._model)
        if layers is not None and len(inputs) == 1:
            x = inputs[0] if per_replica else inputs[0].expand(self._n, *inputs[0].shape)
            return functools.reduce(lambda x, layer: through(layer, x), layers, x)
        parameters, buffers = dict(self.named_parameters()), dict(self.named_buffers())
        run = vmap(self._one, in_dims=(0, 0, 0 if per_replica else None), randomness="different")
        try:
            outputs, rebound = run(parameters, buffers, inputs)
        except RuntimeError as error:
            reason = str(error).split(". ")[0]
            if not reason.startswith(("vmap:", "Batching rule not implemented")):
                raise
            raise ConstraintError(
                f"{type(self._model).__name__} cannot run as replicas: {reason}. Replace the layer by one "
                "that torch.func.vmap supports, or train the copies apart, replicas[i] one by one."
            ) from error
        with torch.no_grad():
            for name, value in rebound.items():
                buffers[name].copy_(value)
        return outputs

    def _one(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: tuple[Tensor, ...]
    ) -> tuple[Any, dict[str, Tensor]]:
        """One replica's outputs, and buffers that it replaced. Changes in place are in the stacks already."""
        state = {**parameters, **buffers}
        outputs = functional_call(self._model, state, inputs)
        return outputs, {name: state[name] for name in buffers if state[name] is not buffers[name]}

    def constrain(self, rules: Rules, *, init: Init = "auto") -> Groups:
        """Parameter groups in which each replica is constrained by itself, as `colangevin.constrain`.

        Args:
            rules: maps a glob on parameter names, a module class or a tuple of names to a constraint, or to
                None for "leave free". A radius that differs between replicas is a tensor whose dimension 0
                counts them: `(n, 1, 1)` for the circles of a matrix, `(n, 1)` for its spheres.
            init: how the weights start, as in `colangevin.constrain`. Random numbers follow from `seed`;
                those of replica i do not depend on n.

        Returns:
            A list of groups with named parameters and `replicas=n`. It prints as a table whose shapes and
            numbers of weights are those of one replica.

        Raises:
            ConstraintError: for a rule that fits no parameter; InfeasibleError for a weight that violates its
                constraint. No weight has been changed then.
            TypeError: for a rule that is neither a glob, a class nor a tuple of names, or one that maps to
                something else than a constraint or None.
        """
        groups = choose(self._model, rules, replicas=self._n)
        # Seeded for each parameter. A stack is then filled replica by replica, so n does not matter.
        begin(units_of(groups), init, around=lambda number: _seeded(stream(self._seed, number)))
        return groups

    def _tensors(self) -> list[Tensor]:
        return [*self._model.parameters(), *self._model.buffers()]


def _built(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """One model, with torch's generator seeded for it."""
    with _seeded(seed):
        model = build()
    if not isinstance(model, nn.Module):
        raise TypeError(f"build: returned {type(model).__name__}; it must return a torch.nn.Module.")
    return model


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's generators, and put them back afterwards."""
    cuda = torch.cuda.is_initialized()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if cuda else ()):
        # not torch.manual_seed: it would also seed a CUDA that starts later
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed_all(seed)
        yield


def _stacked(models: list[nn.Module]) -> dict[int, Tensor]:
    """For each tensor of the first model, by its id: the stack of this tensor over all models."""
    tables = [dict([*model.named_parameters(), *model.named_buffers()]) for model in models]
    if not tables[0]:
        raise ConstraintError("build: the model has no parameter or buffer, so its replicas would be one.")
    for name, tensor in tables[0].items():
        if nn.parameter.is_lazy(tensor):
            raise ConstraintError(
                f"build: parameter '{name}' has no shape yet. Run the model on one batch inside build()."
            )
    shapes = [{name: tuple(tensor.shape) for name, tensor in table.items()} for table in tables]
    for i, each in enumerate(shapes):
        if each != shapes[0]:
            name = next(name for name in {**each, **shapes[0]} if each.get(name) != shapes[0].get(name))
            raise ConstraintError(
                f"build: tensor '{name}' has shape {each.get(name)} in replica {i} and "
                f"{shapes[0].get(name)} in replica 0; every call must build the same architecture."
            )
    stacks = {}
    for name, tensor in tables[0].items():
        stack = torch.stack([table[name].detach() for table in tables])
        stacks[id(tensor)] = _like(tensor, stack)
    return stacks


def _copy(stack: Tensor, i: int) -> Tensor:
    """Entry i of a stack as a tensor of its own."""
    return _like(stack, stack.detach()[i].clone())


def _like(tensor: Tensor, values: Tensor) -> Tensor:
    """Values as a parameter if the tensor is a parameter."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(values, requires_grad=tensor.requires_grad)
    return values
