"""The core needs torch alone; what needs more says which extra."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import colangevin as cl
from colangevin.extras import extra

HIDDEN = ("arviz", "matplotlib", "pandas", "rich", "safetensors", "scipy", "torchmetrics", "xarray")

HIDE = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: (
    None if name.partition(".")[0] in {hidden!r} else find(name, path, target)
)
import sys, torch

sys.modules["fcntl"] = None  # as on Windows
import colangevin as cl
"""

SCRIPT = f"""
{HIDE.format(hidden=HIDDEN)}
model = torch.nn.Linear(3, 2)
optimizer = cl.CoLud(cl.constrain(model, {{"weight": cl.Orthogonal()}}), 0.1, friction=1.0, temperature=0.1)
schedule = cl.schedules.Cosine(optimizer, 10, 0.5)
samples, mean, monitor = cl.Samples(model), cl.RunningMean(optimizer), cl.diagnostics.Monitor(optimizer)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(5, 3)).square().mean().backward()
    monitor.record()
    optimizer.step()
    samples.collect()
    mean.update()
    schedule.step()
mean.weights()
print(samples.predict(torch.randn(4, 3)).variance.shape, monitor.report())
try:
    monitor.report().show()
except ModuleNotFoundError as error:
    print(error)
"""


def output(script):
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cl.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sampling_and_diagnosing_need_torch_alone():
    printed = output(SCRIPT)
    assert "torch.Size([4, 2]) group 0 (weight, Orthogonal()): kinetic" in printed
    assert 'needs rich, which is not installed. Run: pip install "colangevin[sampling]"' in printed


HANDING_OVER = """
weight = torch.nn.Parameter(torch.zeros(3))
monitor = cl.diagnostics.Monitor(cl.CoLod([weight], 0.1, temperature=0.1))
for _ in range(5):
    monitor.record(loss=1.0)
chains = {"x": torch.zeros(2, 5)}
for call in (
    lambda: cl.diagnostics.to_arviz(chains),
    lambda: cl.diagnostics.convergence(chains),
    lambda: monitor.to_arviz(),
    lambda: monitor.report().convergence(),
):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("hidden", "missed"), [(("arviz",), "arviz"), (("numpy",), "numpy"), (("numpy", *HIDDEN), "numpy")]
)
def test_what_arviz_is_to_get_says_which_library_is_missing(hidden, missed):
    advice = (
        f"Handing chains to ArviZ needs {missed}, which is not installed. "
        'Run: pip install "colangevin[sampling]"'
    )
    assert output(HIDE.format(hidden=hidden) + HANDING_OVER).splitlines() == [advice] * 4


@pytest.mark.parametrize(
    ("framework", "hidden"),
    [("lightning", ("lightning", "pytorch_lightning")), ("transformers", ("transformers",))],
)
def test_an_integration_says_which_extra_it_needs(framework, hidden):
    script = f"""
{HIDE.format(hidden=hidden)}
try:
    import colangevin.integrations.{framework}
except ModuleNotFoundError as error:
    print(error)
"""
    advice = f'needs {framework}, which is not installed. Run: pip install "colangevin[{framework}]"'
    assert advice in output(script)


def test_what_a_library_itself_misses_is_not_its_absence(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("import something_else_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_else_that_is_missing") as caught:
        extra("broken_library", "This")
    assert "pip install" not in str(caught.value)
