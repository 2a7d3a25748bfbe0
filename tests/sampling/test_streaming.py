"""Samples are stored at the speed of the disk, in memory that does not grow."""

import os
import resource
import shutil
import time

import pytest
from torch import nn

import colangevin as cl


def fashion_mnist_perceptron():
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def sync(path, content):
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def stream(folder, count):
    """Store samples and plain files of the same size.

    Returns:
        Seconds for each of the two, bytes by which peak memory rose after the third sample, MB written.
    """
    model = fashion_mnist_perceptron()
    samples = cl.Samples(model, folder=folder / "run")
    content = os.urandom(sum(4 * parameter.numel() for parameter in model.parameters()))
    seconds = {"samples": 0.0, "plain": 0.0}
    before = 0
    for i in range(count):
        for name in seconds:  # alternate, so that other load on the disk slows both alike
            start = time.perf_counter()
            if name == "samples":
                samples.collect()
            else:
                sync(folder / f"plain-{i}", content)
            seconds[name] += time.perf_counter() - start
        if i == 2:
            before = peak_memory()
    assert len(samples) == count
    return seconds, peak_memory() - before, count * len(content) / 1e6


def test_the_memory_of_streaming_does_not_grow(tmp_path):
    _, growth, _ = stream(tmp_path, 40)  # 127 MB
    assert growth < 16e6


@pytest.mark.slow
def test_a_thousand_samples_stream_at_the_speed_of_the_disk(tmp_path, capsys):
    """Samples take at most 1.5 times as long as the same bytes written and synced as plain files."""
    seconds, growth, size = stream(tmp_path, 1000)
    shutil.rmtree(tmp_path)  # 6 GB
    rates = {name: size / each for name, each in seconds.items()}
    with capsys.disabled():
        print(f"\n1,000 samples: {rates['samples']:.0f} MB/s; plain files: {rates['plain']:.0f} MB/s")
    assert growth < 16e6
    assert seconds["samples"] < 1.5 * seconds["plain"]
