"""Train a decoder under FSDP2 (``fully_shard``), and go on with another number of ranks.

Every rank holds a part of each weight, of its momentum and of the checkpoint. A checkpoint is a folder. It is
written under another name and renamed when all ranks have written, so that a rank that dies in the middle of
a save loses nothing that was saved before::

    torchrun --standalone --nproc-per-node 4 -m examples.decoder_fsdp --steps 100
    torchrun --standalone --nproc-per-node 2 -m examples.decoder_fsdp --steps 200   # goes on at step 100
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import colangevin as cl
from examples.decoder import Decoder, begin, end, loss_of, make_optimizer, parser, report

KEPT = 2  # checkpoints, the newest among them


def sharded(device: torch.device) -> nn.Module:
    """A decoder of which every rank holds a part: block by block, then what is left."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = Decoder().to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def save(folder: Path, step: int, model: nn.Module, optimizer: cl.ConstrainedSGD) -> None:
    """Save a new checkpoint, and remove the oldest when it is whole. Every rank has to call it."""
    path = folder / f"step-{step:08d}"
    half = path.with_suffix(".part")
    if dist.get_rank() == 0:
        shutil.rmtree(half, ignore_errors=True)  # left by a rank that died
        half.mkdir(parents=True)
    dist.barrier()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=half)
    dist.barrier()  # every rank has written
    if dist.get_rank() == 0:
        half.rename(path)
        for old in checkpoints(folder)[:-KEPT]:
            shutil.rmtree(old)
    dist.barrier()  # the name is there for every rank


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a folder, the newest last."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != ".part")


def load(folder: Path, model: nn.Module, optimizer: cl.ConstrainedSGD) -> int:
    """Load the newest whole checkpoint, whatever number of ranks has saved it. Every rank has to call it.

    Args:
        folder: of the checkpoints.
        model: gets the weights.
        optimizer: gets momenta and the numbers of its steps.

    Returns:
        The number of steps that were taken; 0 if there is no checkpoint.
    """
    newest = [max(checkpoints(folder), default=None)]
    dist.broadcast_object_list(newest)  # all load the one that rank 0 sees
    if newest[0] is None:
        return 0
    weights, state = get_state_dict(model, optimizer)
    saved = {"model": weights, "optimizer": state}
    dcp.load(saved, checkpoint_id=newest[0])  # each rank reads its new parts
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    step = int(newest[0].name.removeprefix("step-"))
    if dist.get_rank() == 0:
        print(f"goes on at step {step} with {dist.get_world_size()} ranks", flush=True)
    return step


def train(steps: int, every: int, folder: Path, device: torch.device) -> None:
    """Train up to a step, from the last checkpoint on.

    Args:
        steps: where to stop.
        every: how many steps there are between two saves.
        folder: of the checkpoints.
        device: of this rank.
    """
    torch.manual_seed(0)
    model = sharded(device)
    optimizer = make_optimizer(model)  # after the model was sharded
    for step in range(load(folder, model, optimizer), steps):
        optimizer.zero_grad()
        loss = loss_of(model, step, device)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % every == 0 or step + 1 == steps:
            save(folder, step + 1, model, optimizer)
            report(step + 1, loss)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train as one rank of several.

    Args:
        arguments: of the command line; those of the process when None.
    """
    options = parser("examples.decoder_fsdp").parse_args(arguments)
    train(options.steps, options.every, options.folder, begin())
    end()


if __name__ == "__main__":
    main()
