"""Train a decoder under DistributedDataParallel, and go on with another number of ranks.

Every rank holds the whole model and takes the whole step. Rank 0 saves, all ranks load::

    torchrun --standalone --nproc-per-node 4 -m examples.decoder_ddp --steps 100
    torchrun --standalone --nproc-per-node 2 -m examples.decoder_ddp --steps 200   # goes on at step 100
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import colangevin as cl
from examples.decoder import Decoder, begin, end, loss_of, make_optimizer, parser, report


def save(path: Path, step: int, model: DistributedDataParallel, optimizer: cl.ConstrainedSGD) -> None:
    """Replace the checkpoint by a new one. Until that is whole, the old one stays."""
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        torch.save(
            {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, half
        )
        half.replace(path)
    dist.barrier()


def load(path: Path, model: DistributedDataParallel, optimizer: cl.ConstrainedSGD) -> int:
    """Load a checkpoint on every rank, if there is one.

    Args:
        path: of the checkpoint.
        model: gets the weights.
        optimizer: gets momenta and the numbers of its steps.

    Returns:
        The number of steps that were taken.
    """
    if not path.exists():
        return 0
    saved = torch.load(path, map_location="cpu", weights_only=True)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if dist.get_rank() == 0:
        print(f"goes on at step {saved['step']} with {dist.get_world_size()} ranks", flush=True)
    return int(saved["step"])


def train(steps: int, every: int, folder: Path, device: torch.device) -> None:
    """Train up to a step, from the last checkpoint on.

    Args:
        steps: where to stop.
        every: how many steps there are between two saves.
        folder: of the checkpoint.
        device: of this rank.
    """
    torch.manual_seed(0)
    model = DistributedDataParallel(Decoder().to(device))
    optimizer = make_optimizer(model)
    path = folder / "checkpoint.pt"
    for step in range(load(path, model, optimizer), steps):
        optimizer.zero_grad()
        loss = loss_of(model, step, device)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % every == 0 or step + 1 == steps:
            save(path, step + 1, model, optimizer)
            report(step + 1, loss)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train as one rank of several.

    Args:
        arguments: of the command line; those of the process when None.
    """
    options = parser("examples.decoder_ddp").parse_args(arguments)
    train(options.steps, options.every, options.folder, begin())
    end()


if __name__ == "__main__":
    main()
