"""Losses of logits on the GPU that read the logits once forward and once backward.

With a vocabulary of words the logits are most of what a step reads and writes. torch would copy them to
float32, write the logarithms of probabilities, read those again, and copy the gradient back.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["Scores"]

_BLOCK = 4096  # logits that a program holds at a time


@triton.jit
def forward(logits, targets, losses, sums, hits, classes, BLOCK: tl.constexpr):
    """Of a row: -log of the target's probability, log of the sum of exponentials, and whether it is right."""
    row = tl.program_id(0).to(tl.int64)
    begin = logits + row * classes
    i = tl.arange(0, BLOCK)
    largest, total, best = float("-inf"), 0.0, 0
    for start in range(0, classes, BLOCK):
        z = tl.load(begin + start + i, mask=start + i < classes, other=float("-inf")).to(tl.float32)
        here, place = tl.max(z, 0, return_indices=True)
        best = tl.where(here > largest, start + place, best)
        top = tl.maximum(here, largest)
        total = total * tl.exp(largest - top) + tl.sum(tl.exp(z - top), 0)
        largest = top
    target = tl.load(targets + row)
    log_sum = largest + tl.log(total)
    tl.store(losses + row, log_sum - tl.load(begin + target).to(tl.float32))
    tl.store(sums + row, log_sum)
    tl.store(hits + row, (best == target).to(tl.int32))


@triton.jit
def backward(logits, targets, sums, slopes, grads, classes, BLOCK: tl.constexpr):
    """Of a row: its probabilities less 1 at the target, times what its loss counts."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(logits + row * classes + i, mask=i < classes, other=0.0).to(tl.float32)
    probability = tl.exp(z - tl.load(sums + row))
    grad = tl.load(slopes + row) * tl.where(i == tl.load(targets + row), probability - 1.0, probability)
    tl.store(grads + row * classes + i, grad.to(grads.dtype.element_ty), mask=i < classes)


class Scores(torch.autograd.Function):
    """Losses in float32, and 1 where the target has the largest logit, of logits (rows, classes)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and hits, both of shape (rows,)."""
        logits = logits.contiguous()
        rows, classes = logits.shape
        losses, sums = torch.empty(2, rows, device=logits.device)
        hits = torch.empty(rows, dtype=torch.int32, device=logits.device)
        forward[(rows,)](logits, targets, losses, sums, hits, classes, BLOCK=_BLOCK, num_warps=8)
        ctx.save_for_backward(logits, targets, sums)
        ctx.mark_non_differentiable(hits)
        return losses, hits

    @staticmethod
    def backward(ctx: Any, slopes: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """The gradient with respect to the logits, in their dtype."""
        logits, targets, sums = ctx.saved_tensors
        grads = torch.empty_like(logits)
        rows, classes = logits.shape
        blocks = triton.cdiv(classes, _BLOCK)
        backward[(rows, blocks)](
            logits, targets, sums, slopes.contiguous(), grads, classes, BLOCK=_BLOCK, num_warps=8
        )
        return grads, None
