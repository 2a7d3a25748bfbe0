"""`Samples`: collect weights in an ordinary training loop, and predict with them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.errors import SamplesError
from colangevin.replicas import Replicas
from colangevin.sampling.layout import layout_of
from colangevin.sampling.memory import Memory, Weights
from colangevin.sampling.prediction import Prediction, predict
from colangevin.sampling.shards import Shards
from colangevin.sampling.state import check
from colangevin.sharded import is_sharded
from colangevin.turns import Turns

__all__ = ["Samples"]


class Samples:
    """Collect samples of a model's weights while an optimizer runs, and predict with all of them.

    Choose it for predictions with uncertainty, or to look at weights over a run. Where the mean of the
    weights is enough, `RunningMean` stores that alone. Call `collect` after every step of the optimizer. The
    first `burn_in` calls store nothing. After them every k-th call stores the parameters and buffers, in
    memory on the CPU or, with a `folder`, on disk. On disk a sample is a safetensors file, which is written
    atomically: a kill loses at most the sample being written. The replicas of `Replicas` are parallel chains.

    One process at a time collects into a folder. It holds a lock, which the operating system releases when
    the process ends. Other processes may `load` and read the samples meanwhile.

    Collecting does not stop at the `limit`. When another sample would exceed the limit, every second stored
    sample is deleted and `every` doubles. So the samples always span the whole run, evenly.

    Args:
        model: a module or replicas.
        every: k; one of k calls stores.
        burn_in: how many calls at the beginning store nothing.
        folder: where the samples go; None keeps them in memory.
        limit: the most bytes that all samples may take; None for no limit.

    Raises:
        SamplesError: when `folder` has samples already, when another process collects into it, or when
            `limit` has no room for two samples.
        ValueError: for a number out of range.

    Examples:
        >>> model = nn.Linear(2, 1)
        >>> samples = cl.Samples(model, every=2)
        >>> [samples.collect() for _ in range(4)]  # each after a step of the optimizer
        [False, True, False, True]
        >>> samples.predict(torch.zeros(5, 2)).mean.shape
        torch.Size([5, 1])
        >>> samples.draws("weight").shape  # chains, samples, and the weight's shape
        torch.Size([1, 2, 1, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 1,
        burn_in: int = 0,
        folder: str | Path | None = None,
        limit: int | None = None,
    ) -> None:
        self.model = _plain(model)
        self.limit = limit
        self._turns = Turns(every, burn_in)
        if limit is not None and limit < 2 * self._sample_bytes:
            raise SamplesError(
                f"limit={limit} bytes: a sample of this model takes {self._sample_bytes}, and there must be "
                "room for two."
            )
        self._store: Memory | Shards = (
            Memory() if folder is None else Shards(Path(folder), layout_of(self._weights()), self._settings())
        )

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module) -> "Samples":
        """The samples of a folder, to predict with or to go on collecting.

        Loading reads the header of every file and changes nothing in the folder, so another process may be
        collecting into it. The samples are those that are there at this moment. If the other process thins
        them out later, reading a deleted sample raises an error; load anew then.

        The first `collect` or `load_state_dict` takes the folder's lock and removes the files that a kill has
        left. Calls are counted from the last sample, or from where `load_state_dict` says.

        Args:
            folder: the one that the constructor was given.
            model: of the same architecture.

        Returns:
            The samples.

        Raises:
            SamplesError: naming the file that is truncated, foreign or not of this model.
        """
        samples = cls.__new__(cls)
        samples.model = _plain(model)
        shards, settings = Shards.open(Path(folder), layout_of(samples._weights()))
        samples._store = shards
        samples.limit = settings["limit"]
        samples._turns = Turns(settings["every"], settings["burn_in"])
        if settings["replicas"] != samples._replicas:
            raise SamplesError(
                f"{folder}: the samples are of a model with replicas={settings['replicas']}, this one has "
                f"replicas={samples._replicas}."
            )
        # Samples that are not due belong to a thinning that was killed or that another process is at. They
        # are not used here. Their files are left to the process that collects.
        shards.calls = [call for call in shards.calls if samples._turns.due(call)]
        samples._turns.calls = shards.calls[-1] if shards.calls else 0
        return samples

    # ---- collecting ------------------------------------------------------------------------------

    def collect(self) -> bool:
        """Store the weights as they are, if it is their turn.

        Returns:
            Whether they were stored.

        Raises:
            SamplesError: when the disk does not take them, when another process collects into the folder, or
                when one has done so since it was loaded. The call does not count then and may be repeated.
        """
        self._store.claim()
        call = self.calls + 1
        stored = self._turns.due(call)
        if stored and self.limit is not None and (len(self) + 1) * self._sample_bytes > self.limit:
            self._go_on_with(2 * self.every)
            stored = self._turns.due(call)
        if stored:
            self._store.add(call, self._weights())
        self._turns.calls = call
        return stored

    def _go_on_with(self, every: int) -> None:
        """Set `every`, and delete the samples that are not due under it."""
        # Write the new value before deleting: a kill in between then leaves too many samples, not too few.
        self._store.remember({**self._settings(), "every": every})
        self._turns.every = every
        for call in [call for call in self._store.calls if not self._turns.due(call)]:
            self._store.remove(call)

    def _weights(self) -> Weights:
        """Parameters and buffers by name."""
        tensors = [*self.model.named_parameters(), *self.model.named_buffers()]
        return {name: tensor.detach() for name, tensor in tensors}

    @property
    def _sample_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self._weights().values())

    def _settings(self) -> dict[str, Any]:
        return {"every": self.every, "burn_in": self.burn_in, "limit": self.limit, "replicas": self._replicas}

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on collecting. Samples in memory are part of it."""
        return {"calls": self.calls, "every": self.every, **self._store.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go back to where `state_dict` was called. Samples taken since are deleted.

        If a folder was thinned out since, `every` stays as the folder has it: the deleted samples cannot come
        back. An uninterrupted run thins them out too.

        Args:
            state_dict: what `state_dict` returned.

        Raises:
            SamplesError: when the state dict is not of these samples, or another process collects into the
                folder. Nothing has changed then.
        """
        in_memory = isinstance(self._store, Memory)
        check(state_dict, self._weights(), in_memory=in_memory)
        self._store.claim()
        # samples that were deleted from a folder cannot come back
        every = state_dict["every"] if in_memory else max(state_dict["every"], self.every)
        self._go_on_with(every)
        self._store.load_state_dict(state_dict)
        self._turns.calls = state_dict["calls"]

    # ---- reading ---------------------------------------------------------------------------------

    @property
    def calls(self) -> int:
        """How often `collect` was called."""
        return self._turns.calls

    @property
    def every(self) -> int:
        """k; one of k calls stores. It doubles at the limit."""
        return self._turns.every

    @property
    def burn_in(self) -> int:
        """How many calls at the beginning store nothing."""
        return self._turns.burn_in

    @property
    def _replicas(self) -> int:
        """How many replicas the tensors stack, 0 for a plain model."""
        return len(self.model) if isinstance(self.model, Replicas) else 0

    @property
    def chains(self) -> int:
        """How many chains there are: one for each replica, or one."""
        return max(1, self._replicas)

    def __len__(self) -> int:
        """How many samples each chain has."""
        return len(self._store.calls)

    def __getitem__(self, i: int) -> Weights:
        """The tensors of sample i. For replicas, dimension 0 of each counts the chains."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"samples[{i}]: there are {len(self)} samples.")
        return self._store.read(self._store.calls[i])

    def __iter__(self) -> Iterator[Weights]:
        return (self._store.read(call) for call in self._store.calls)

    def __repr__(self) -> str:
        size = len(self) * self._sample_bytes / 1e6
        where = f" in {self._store.folder}" if isinstance(self._store, Shards) else ""
        return (
            f"Samples({len(self)} of {self.chains} chains, every={self.every}, burn_in={self.burn_in}, "
            f"{size:.1f} MB{where})"
        )

    def map(self, function: Callable[[Weights], Tensor]) -> Tensor:
        """A quantity of the weights for every sample, one sample in memory at a time.

        Args:
            function: of one chain's weights by name. For replicas it runs under `torch.func.vmap`.

        Returns:
            Its values, of shape (chains, samples, ...).

        Raises:
            SamplesError: when there is no sample yet.
        """
        self._need_one()
        each = torch.func.vmap(function) if self._replicas else function
        values = torch.stack([each(weights) for weights in self])
        return values.transpose(0, 1) if self._replicas else values.unsqueeze(0)

    def draws(self, name: str) -> Tensor:
        """All samples of one parameter or buffer.

        Args:
            name: of the tensor.

        Returns:
            Shape (chains, samples, ...).

        Raises:
            KeyError: listing the names there are.
        """
        if name not in self._weights():
            raise KeyError(f"'{name}': the samples have {', '.join(self._weights())}.")
        return self.map(lambda weights: weights[name])

    def predict(
        self,
        *inputs: Tensor,
        transform: Callable[[Tensor], Tensor] | None = None,
        chunk: int | None = None,
    ) -> Prediction:
        """The model's outputs for a batch, sample by sample and on average.

        The model runs in evaluation mode. `torch.func.vmap` runs several samples at once, without a copy of
        the model. The outputs of all samples are held in memory, so split a long batch.

        Args:
            inputs: a batch.
            transform: applied to the model's output before averaging: `torch.nn.Softmax(-1)` for the mean of
                probabilities.
            chunk: how many samples of each chain run at once; None chooses. With 1, a plain model runs
                without `torch.func.vmap`, which cannot run every model.

        Returns:
            The predictions, on the device of the inputs.

        Raises:
            SamplesError: when there is no sample yet.
            ValueError: for a chunk below 1.
        """
        self._need_one()
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"chunk={chunk!r}: must be a whole number of samples, at least 1.")
        template = self.model.template if isinstance(self.model, Replicas) else self.model
        return predict(
            template,
            self,
            inputs,
            transform,
            chunk=chunk or max(1, min(_CHUNK, _CHUNK_BYTES // max(1, self._sample_bytes))),
            stacked=bool(self._replicas),
        )

    def _need_one(self) -> None:
        if not len(self):
            raise SamplesError(f"samples: there is none yet; collect() was {self._turns}.")


# Most samples that run at once, enough to fill a device with small models, and most bytes of their weights.
_CHUNK = 64
_CHUNK_BYTES = 1 << 28


def _plain(model: nn.Module) -> nn.Module:
    """The model itself; raises for one that is spread over processes, of which this one has a part."""
    for name, parameter in model.named_parameters():
        if is_sharded(parameter):
            raise SamplesError(
                f"model: its parameter '{name}' {tuple(parameter.shape)} is a DTensor, of which a sample "
                "would hold a part. Build a model that is not sharded, and load into it what "
                "torch.distributed.checkpoint.state_dict.get_model_state_dict gives with "
                "full_state_dict=True before each collect()."
            )
    return model
