"""Scratch memory: kept where it is small, never shared between slots, dtypes or threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from colangevin.scratch import _LARGEST, _Kept, scratch
from colangevin.step.angles import _number, write_sine

CPU = torch.device("cpu")
MODES = [torch.inference_mode, lambda: torch.device("meta")]


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


@pytest.mark.parametrize("mode", MODES, ids=["inference mode", "meta as the default device"])
def test_what_is_kept_serves_every_mode(monkeypatch, mode):
    monkeypatch.setattr("colangevin.scratch._kept", _Kept())
    _number.cache_clear()
    angle = torch.linspace(-1, 1, 100)
    with mode():
        scratch("mode", (100,), torch.float32, CPU)
        write_sine(angle, 1.0, 1.0, torch.empty(100, device="cpu"))
    kept = scratch("mode", (100,), torch.float32, CPU)
    kept.fill_(2.0)
    assert kept.device.type == "cpu"
    sine = torch.empty(100)
    write_sine(angle, 1.0, 1.0, sine)
    torch.testing.assert_close(sine, angle.sin())
