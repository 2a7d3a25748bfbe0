"""The tables of networks.md, made from small results."""

from dataclasses import replace

import pytest
import torch

from colangevin.experiments.catalogue.index import find
from colangevin.experiments.catalogue.source_code import MUON, ROWS
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training import runner
from docs import networks
from tests.experiments.conftest import Nobody

CPU = torch.device("cpu")
SMALL = {"data": "python", "batch": 2, "length": 16, "steps": 1, "held_out": 64, "layers": 1, "width": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of Muon and one of Muon on spheres, and a search of which AdamW diverges."""
    out = tmp_path_factory.mktemp("results")
    for name, only in (
        ("decoder", ("*: Muon, run *", "*: Muon on row spheres, run 1")),
        ("decoder-search", ("AdamW, 512 wide: *", "Muon, 512 wide: *")),
    ):
        experiment = find(name).resized(2 if name == "decoder" else 1, 2, quick=False)
        parts = [replace(part, problem=replace(part.problem, heads=2, **SMALL)) for part in experiment.parts]
        if name == "decoder-search":
            *tame, last = parts[0].methods
            wild = (*tame, replace(last, lr=1e30))
            parts[0] = replace(parts[0], methods=wild)
        experiment = replace(experiment, parts=tuple(parts))
        stored = Folder(out, name)
        stored.open(experiment, CPU, ["colangevin"], resume=False)
        for glob in only:
            assert runner.run(experiment, stored, CPU, Nobody(), lambda: False, glob)
    return out


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_method_that_has_run_is_in_the_table_the_best_first(folder):
    table, _ = networks.render(folder).split("\n\n")
    head, _, *rows = map(cells, table.splitlines())
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert set(found) == {"Muon", "Muon on row spheres"}
    assert {name: (row["rate"], row["runs"]) for name, row in found.items()} == {
        "Muon": (f"{MUON.lr:g}", "2"),
        "Muon on row spheres": (f"{ROWS.lr:g}", "1"),
    }
    bits = [float(row["validation, bits a byte"]) for row in found.values()]
    assert bits == sorted(bits)
    part = load(folder)[0].parts[0]
    test = part.values["test bits"]
    expected = test[part.methods.index("Muon on row spheres"), 0] - test[part.methods.index("Muon"), 0]
    column = "test minus Muon's, run by run"
    assert found["Muon on row spheres"][column] == f"{expected:+.4f}"
    assert found["Muon"][column] == "–"


def test_the_lowest_of_a_search_is_bold_and_what_diverges_never_is(folder):
    _, table = networks.render(folder).split("\n\n")
    rows = dict(map(cells, table.splitlines()[2:]))
    assert set(rows) == {"AdamW, 512 wide", "Muon, 512 wide"}
    assert rows["AdamW, 512 wide"].endswith("1e+30: diverges")
    for row in rows.values():
        numbers = [each.partition(": ")[2] for each in row.split(", ")]
        finite = [float(each.strip("*")) for each in numbers if each != "diverges"]
        (bold,) = (each for each in numbers if each.startswith("**"))
        assert float(bold.strip("*")) == min(finite)


def test_without_results_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "load", lambda folder: [])
    assert "small form alone" in networks.render(tmp_path)
