"""Scratch memory: kept where it is small, never shared between slots, dtypes or threads."""

from concurrent.futures import ThreadPoolExecutor

import torch

from colangevin.scratch import _LARGEST, scratch

CPU = torch.device("cpu")


def address(slot: str, count: int, dtype: torch.dtype = torch.float32) -> int:
    return scratch(slot, (count,), dtype, CPU).data_ptr()


def test_a_slot_keeps_its_memory_for_whatever_fits() -> None:
    first = scratch("here", (4, 6), torch.float32, CPU)
    assert first.shape == (4, 6)
    assert scratch("here", (23,), torch.float32, CPU).data_ptr() == first.data_ptr()
    assert scratch("here", (7, 11), torch.float32, CPU).shape == (7, 11)


def test_slots_dtypes_and_threads_have_memory_of_their_own() -> None:
    with ThreadPoolExecutor(1) as elsewhere:
        other = elsewhere.submit(address, "here", 8).result()
    addresses = [address("here", 8), address("there", 8), address("here", 8, torch.float64), other]
    assert len(set(addresses)) == 4


def test_large_tensors_are_not_kept() -> None:
    one = scratch("large", (_LARGEST + 1,), torch.float32, CPU)
    other = scratch("large", (_LARGEST + 1,), torch.float32, CPU)
    assert one.data_ptr() != other.data_ptr()
