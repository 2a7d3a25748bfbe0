"""Ranks of the tests: they meet, their errors come back, and one that dies or waits for ever is noticed."""

import os

import pytest
import torch
import torch.distributed as dist

from tests.ranks import errors_of_ranks, run_ranks


def total(rank, factor):
    mine = torch.tensor([rank * factor])
    dist.all_reduce(mine)
    return rank, mine


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_meet_and_answer_in_order(world_size):
    answers = run_ranks(total, world_size, 10)
    assert [rank for rank, _ in answers] == list(range(world_size))
    assert all(int(found) == 10 * sum(range(world_size)) for _, found in answers)


def fails(rank, who):
    if rank in who:
        raise ValueError(f"rank {rank} fails")
    return rank


def test_an_error_of_a_rank_is_raised_with_its_place():
    with pytest.raises(ValueError, match="rank 1 fails") as caught:
        run_ranks(fails, 2, [1])
    assert "in fails" in caught.value.__notes__[0]


def test_every_rank_has_to_raise():
    assert [str(error) for error in errors_of_ranks(fails, 2, [0, 1])] == ["rank 0 fails", "rank 1 fails"]
    with pytest.raises(AssertionError, match=r"ranks \[0\] raised nothing"):
        errors_of_ranks(fails, 2, [1])


def dies(rank):
    if rank == 1:
        os._exit(3)
    dist.barrier()


def test_a_rank_that_dies_is_noticed_and_ends_the_wait_of_others():
    waiting, dead = errors_of_ranks(dies, 2)
    assert isinstance(waiting, RuntimeError)
    assert "rank 1 ended with exit code 3" in str(dead)
