import json

from benchmarks import plot, table
from benchmarks.sheet import Row, Sheet, load

WORK = "ResNet-34 kernels, gradients 0.02"
MACHINE = {"device": "A chip", "copy_gb_per_s": 1234.5, "torch": "2.0", "threads": 2, "commit": "abc"}


def rows():
    timed = {"median_ms": 1.5, "q20_ms": 1.25, "q80_ms": 12.5, "repeats": 7, "ratio_to_sgd": 1.25}

    return [
        Row(WORK, "SGD-m, foreach", "torch", "2.0", "eager", 1.2, 1.0, 1.5, 9, 1.0, 0.5),
        Row(
            WORK, "orthogonal", "colangevin", "1", "eager", **timed, error=1.5e-6, note="error over 300 steps"
        ),
        Row(WORK, "orthogonal", "colangevin", "1", "other", **timed),
        Row(WORK, "POGO", "pogo-torch", variant="eager", note="not installed"),
        Row("growth, weights: 100", "circle", "colangevin", "1", "eager", **timed),
        Row("growth, weights: 1000", "circle", "colangevin", "1", "eager", **timed),
    ]


def stored(folder):
    Sheet(folder, "cpu", MACHINE).add(rows())
    return folder


def test_rows_come_back_as_they_were(tmp_path):
    assert load(stored(tmp_path) / "cpu.csv") == rows()
    assert json.loads((tmp_path / "cpu.json").read_text()) == MACHINE


def test_rows_are_on_disk_as_they_come(tmp_path):
    sheet = Sheet(tmp_path, "cpu", MACHINE)
    assert load(tmp_path / "cpu.csv") == []
    for number, row in enumerate(rows(), 1):
        sheet.add([row])
        assert len(load(tmp_path / "cpu.csv")) == number


def test_ratios_of_the_front_page(tmp_path):
    assert table.ratios(stored(tmp_path)).splitlines() == [
        "| one step | A chip |",
        "|---|---:|",
        "| no constraint, × SGD with momentum |  |",
        "| `Circle`, × SGD with momentum |  |",
        "| `Circle`, with noise, × SGD with momentum |  |",
        "| `Sphere`, × SGD with momentum |  |",
        "| `Sphere`, fixed norm, × SGD with momentum |  |",
        "| `Orthogonal`, ResNet-34's kernels: times as fast as geoopt's RiemannianSGD |  |",
        "| `Orthogonal`, ResNet-34's kernels: times as fast as POGO |  |",
        "| `Orthogonal`, ResNet-34's kernels: times as fast as torch's Muon, which holds no constraint |  |",
    ]


def test_ratios_are_taken_from_the_rows(tmp_path):
    more = [
        Row("12 tensors, 2.9 M", "circle", "colangevin", "1", "eager", 2.0, 2.0, 2.0, 5, 1.25),
        Row(WORK, "Muon", "torch", "2.0", "eager", 6.0, 6.0, 6.0, 5, 4.0),
    ]
    Sheet(tmp_path, "cpu", MACHINE).add([*rows(), *more])
    text = table.ratios(tmp_path)
    assert "| `Circle`, × SGD with momentum | 1.25 |" in text
    assert "torch's Muon, which holds no constraint | 4.0 |" in text


def test_full_table_has_the_other_variants(tmp_path):
    text = table.render(stored(tmp_path))
    assert "| ms, eager (20 %, 80 %) | ms, other |" in text
    assert "|  | colangevin: orthogonal | 1.500 (1.250, 12.5) | 1.500 |" in text
    assert "growth" not in text


def test_without_results_the_table_says_so(tmp_path):
    assert table.render(tmp_path) == table.ratios(tmp_path) == "No results are stored."


def test_readmes_show_the_stored_results():
    for path, text in table.pages().items():
        assert table.BEGIN in path.read_text()
        assert path.read_text() == text, f"{path} is not what the CSVs give; run python -m benchmarks.table"


def test_plot_has_a_panel_for_each_workload_and_growth(tmp_path):
    path = plot.draw(stored(tmp_path), "cpu")
    text = path.read_text()
    assert path == tmp_path / "cpu.svg"
    for words in (
        "ResNet-34 kernels, gradients 0.02",
        "weights on circles",
        "colangevin: orthogonal",
        "A chip",
    ):
        assert words in text
    assert "POGO" not in text
    assert plot.draw(tmp_path, "cpu").read_text() == text


def test_nothing_is_drawn_without_results(tmp_path):
    assert plot.draw(tmp_path, "cuda") is None
