"""A small decoder of text, byte by byte, for the scripts on several devices: model, constraints and data."""

import argparse
import gc
import os
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

import colangevin as cl

__all__ = ["Decoder", "begin", "end", "loss_of", "make_optimizer", "parser", "report"]

WIDTH, HEADS, BLOCKS, CONTEXT = 64, 4, 2, 64
BATCH = 16  # sequences of a step, over all ranks

RULES = {
    "*.attend_in.weight": cl.Orthogonal(),
    "*.attend_out.weight": cl.Orthogonal(),
    "*.up.weight": cl.Sphere(3.0, slack=False),
    "embedding.weight": cl.Sphere(3.0, slack=False),
}

# the texts behind help("topics"), which every Python has
TEXT = torch.frombuffer(bytearray("\n".join(topics.values()), encoding="utf-8"), dtype=torch.uint8)


class Block(nn.Module):
    """Attention to earlier bytes, then a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_perceptron = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attend_in = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attend_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        heads = self.attend_in(self.before_attention(x)).unflatten(-1, (3, HEADS, -1))
        q, k, v = (each.transpose(1, 2) for each in heads.unbind(2))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attend_out(attended.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.before_perceptron(x))))


class Decoder(nn.Module):
    """Predicts the next byte from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, text: Tensor) -> Tensor:
        """Logits of the byte after each, a row for every byte of the batch."""
        places = self.places(torch.arange(text.shape[1], device=text.device))
        return self.head(self.norm(self.blocks(self.embedding(text) + places)).flatten(0, 1))


def make_optimizer(model: nn.Module) -> cl.ConstrainedSGD:
    """Constrain a model and build its optimizer. A little noise shows that it goes on as it was."""
    groups = cl.constrain(model, RULES)
    return cl.ConstrainedSGD(groups, lr=0.3, momentum=0.9, temperature=1e-8, seed=0)


def loss_of(model: nn.Module, step: int, device: torch.device) -> Tensor:
    """The loss of this rank's share of a step's batch.

    The batch follows from the step alone, so that it stays the same when the number of ranks changes.

    Args:
        model: the decoder, wrapped or sharded.
        step: the number of the step.
        device: of the model.

    Returns:
        The mean over the share.
    """
    draw = torch.Generator().manual_seed(step)
    starts = torch.randint(len(TEXT) - CONTEXT, (BATCH,), generator=draw)
    mine = starts[dist.get_rank() :: dist.get_world_size()]
    text = TEXT[mine.unsqueeze(1) + torch.arange(CONTEXT + 1)].long().to(device)
    return cross_entropy(model(text[:, :-1]), text[:, 1:].flatten())


def report(step: int, loss: Tensor) -> None:
    """Print the loss of all ranks' shares. Every rank has to call it."""
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"step {step}: loss {mean.item() / dist.get_world_size():.6f}", flush=True)


def begin() -> torch.device:
    """Join the other ranks: over NCCL if each has a GPU of its own, else on the CPU over gloo.

    Returns:
        This rank's device.
    """
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    return device


def end() -> None:
    """Leave the other ranks, so that no thread of gloo frees a tensor while Python ends: that aborts it."""
    dist.barrier()  # which has no tensors; those of earlier calls are freed meanwhile
    gc.collect()  # models that hold process groups in cycles
    dist.destroy_process_group()


def parser(module: str) -> argparse.ArgumentParser:
    """A parser of the options that both scripts have.

    Args:
        module: the script.

    Returns:
        The parser.
    """
    made = argparse.ArgumentParser(prog=f"torchrun --nproc-per-node N -m {module}")
    made.add_argument("--steps", type=int, default=200, help="where to stop, counted from the very beginning")
    made.add_argument("--every", type=int, default=50, help="how many steps there are between two saves")
    made.add_argument("--folder", type=Path, default=Path("out") / module.rpartition(".")[2])
    return made
