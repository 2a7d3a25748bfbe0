import sys

import pytest
import torch
from typer.testing import CliRunner

from colangevin.experiments import cli
from colangevin.experiments.sweeps import cluster
from colangevin.experiments.sweeps.cluster import ClusterError, check_room, connected, is_address, needs

CPU = torch.device("cpu")


def call(*words):
    return CliRunner().invoke(cli.app, list(map(str, words)), env={"COLUMNS": "200"})


@pytest.fixture
def addresses(monkeypatch):
    """The addresses that runs connect to; they get no further."""
    found = []

    def refuse(address, device):
        found.append(address)
        raise ClusterError("no cluster in this test")

    monkeypatch.setattr(cluster, "connected", refuse)
    monkeypatch.setattr(cluster, "ray", lambda: None)
    return found


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (("fig4", "--ray"), "local"),
        (("--ray", "fig4"), "local"),
        (("fig4", "--ray", "--quick"), "local"),
        (("fig4", "--ray", "auto"), "auto"),
        (("--ray", "10.0.0.1:6379", "fig4"), "10.0.0.1:6379"),
        (("--ray=ray://host:10001", "fig4"), "ray://host:10001"),
        (("--ray", "--", "fig4"), "local"),
    ],
)
def test_the_address_may_be_left_out(addresses, tmp_path, words, address):
    answer = call("run", "--out", tmp_path, *words)
    assert answer.exit_code == 1, answer.output
    assert "no cluster in this test" in answer.output
    assert addresses == [address]
    assert not list(tmp_path.iterdir())  # without a cluster nothing is begun


def test_an_address_that_is_none_is_refused(addresses, tmp_path):
    answer = call("run", "fig4", "--out", tmp_path, "--ray=nowhere")
    assert answer.exit_code == 2
    assert "'nowhere': must be auto, HOST:PORT or ray://HOST:PORT, or be left out" in answer.output


def test_the_command_that_goes_on_names_ray():
    words = ("four-turn", None, None, None, "out", False, "*")
    assert cli._command(*words, "local")[-1] == "--ray"
    assert cli._command(*words, "auto")[-2:] == ["--ray", "auto"]
    assert "--ray" not in cli._command(*words, None)


def test_the_missing_extra_is_named_before_anything_is_begun(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)  # what Python takes for "cannot be imported"
    answer = call("run", "fig4", "--out", tmp_path, "--ray")
    assert answer.exit_code == 1
    assert '--ray needs ray, which is not installed. Run: pip install "colangevin[ray]"' in answer.output
    assert not list(tmp_path.iterdir())


def test_where_nobody_answers_is_said_at_once():
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    message = (
        r"--ray 127\.0\.0\.1:1: could not connect to a cluster \(.*refused\)\. Start one with 'ray start"
    )
    with pytest.raises(ClusterError, match=message), connected("127.0.0.1:1", CPU):
        pass


def test_words_that_can_be_addresses():
    assert all(map(is_address, ("local", "auto", "host:6379", "[::1]:6379", "ray://host:10001")))
    assert not any(map(is_address, ("fig4", "--quick", "")))


def test_a_job_needs_a_gpu_or_a_cpu_for_each_thread():
    assert needs(CPU) == {"CPU": torch.get_num_threads()}
    assert needs(torch.device("cuda")) == {"CPU": 1, "GPU": 1}


def node(alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


def test_jobs_that_fit_on_no_machine_are_refused():
    nodes = [node(CPU=64.0), node(CPU=8.0, GPU=1.0, alive=False), node(GPU=2.0)]
    message = (
        r"needs 1 CPU and 1 GPU of one machine, and the machines of the cluster have 64 CPU, 0 GPU; 0 CPU"
    )
    with pytest.raises(ClusterError, match=message):
        check_room(nodes, {"CPU": 1, "GPU": 1})
    with pytest.raises(ClusterError, match="OMP_NUM_THREADS=1 asks for one"):
        check_room(nodes, {"CPU": 65})
    check_room([*nodes, node(CPU=1.0, GPU=1.0)], {"CPU": 1, "GPU": 1})
