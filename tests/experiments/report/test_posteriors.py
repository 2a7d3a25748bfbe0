import re
import shutil

import numpy as np
import pytest
import torch

from colangevin.experiments import report
from colangevin.experiments.judging.agreement import agreement, total_variation
from colangevin.experiments.judging.probabilities import unpack
from colangevin.experiments.report import figures
from colangevin.experiments.report.posteriors import over_gradients, posterior_tables, together
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.disk import StoreError


@pytest.fixture
def part(chains):
    return load(chains)[0].parts[0]


@pytest.fixture
def copy(chains, tmp_path):
    shutil.copytree(chains, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_runs_come_to_together_is_their_mean_judged_directly(part):
    reference = unpack(part.arrays["reference"])
    labels = torch.from_numpy(part.arrays["labels"]).long()
    for number in range(2):
        squares = part.arrays["predictions"][number].astype(float) ** 2
        mean = torch.from_numpy((squares / squares.sum(-1, keepdims=True)).mean(0))
        found = together(part, number)
        assert found.total_variation == pytest.approx(total_variation(mean, reference))
        assert found.agreement == agreement(mean, reference)
        assert found.accuracy == pytest.approx(float((mean.argmax(1) == labels).double().mean()))
        assert found.loss == pytest.approx(float(-mean[torch.arange(6), labels].log().mean()))


def test_single_runs_are_the_numbers_that_were_measured(part):
    for number in range(2):
        for run in range(3):
            alone = unpack(part.arrays["predictions"][number, run])
            again = total_variation(alone, unpack(part.arrays["reference"]))
            # predictions are rounded to bytes
            assert again == pytest.approx(part.values["total variation"][number, run], abs=2e-3)


def test_the_table_has_every_method_alone_and_together_and_hmc_itself(part):
    distances, _ = posterior_tables(part)
    names = [row[0] for row in distances.table.rows]
    assert names == ["SGD, one run", "SGD, 3 together", "CoLud, one run", "CoLud, 3 together", "HMC"]
    place = distances.table.head.index("total variation")
    assert re.fullmatch(r"0\.\d{4} ± 0\.\d{4}", distances.table.rows[0][place])
    assert distances.table.rows[1][place] == f"{together(part, 0).total_variation:.4f}"
    *_, last = distances.table.rows
    assert last[1:3] == ["–", "–"]
    assert last[3] == "100.00"  # what the small data have for HMC favours the right class


def test_r_hat_is_of_chains_alone(part):
    pytest.importorskip("arviz", reason="needs the extra 'sampling'")
    _, agreements = posterior_tables(part)
    (row,) = agreements.table.rows
    assert (row[0], row[-1]) == ("CoLud", "3")
    assert all(re.fullmatch(r"\d+\.\d\d \(\d+\.\d\d\)", cell) for cell in row[1:4])


def test_the_kinetic_temperature_is_a_mean_past_the_burn_in(part):
    (row,) = posterior_tables(part)[1].table.rows
    curve = part.arrays["first_temperature"][2:, 1]  # 30 % of 8 epochs are 2.4
    assert row[-2] == f"{curve.astype(float).mean():.2f}"
    part.arrays["first_temperature"][:] = np.nan
    (row,) = posterior_tables(part)[1].table.rows
    assert row[-2] == "–"


def test_without_arviz_the_table_says_what_to_install(part, monkeypatch):
    def missing(_):
        raise ModuleNotFoundError('needs arviz. Run: pip install "colangevin[sampling]"')

    monkeypatch.setattr("colangevin.experiments.report.posteriors.r_hat", missing)
    (row,) = posterior_tables(part)[1].table.rows
    assert row[1] == 'not known: needs arviz. Run: pip install "colangevin[sampling]"'


def test_a_run_that_diverged_or_is_missing_is_left_out(part):
    whole = together(part, 1)
    part.arrays["predictions"][1, 0] = 0
    assert together(part, 1) != whole
    assert posterior_tables(part)[0].table.rows[3][0] == "CoLud, 2 together"
    part.done[1, 1] = False
    expected = total_variation(unpack(part.arrays["predictions"][1, 2]), unpack(part.arrays["reference"]))
    assert together(part, 1).total_variation == pytest.approx(expected)
    part.done[1] = False
    assert together(part, 1) is None


def test_the_plot_is_over_gradients_and_ends_with_all_runs_together(part):
    axes = over_gradients(part).axes[0]
    for number in range(2):
        curve, end = axes.lines[2 * number], axes.lines[2 * number + 1]
        assert curve.get_xdata()[-1] == end.get_xdata()[0] == 8 * 24
        assert curve.get_ydata()[-1] == pytest.approx(part.values["total variation"][number].mean(), rel=1e-5)
        assert end.get_ydata()[0] == together(part, number).total_variation


def test_page_markdown_and_figures_have_it(chains):
    for name in ("report.html", "report.md"):
        text = (chains / name).read_text(encoding="utf-8")
        assert "CoLud, 3 together" in text
        assert "above 1.01 chains disagree" in text
    drawn = figures.draw(load(chains))
    assert set(drawn) == {"hmc-distance.images.curves.svg", "hmc-distance.images.distance.svg"}


def test_what_chains_are_judged_by_is_asked_for(copy):
    path = copy / "hmc-distance" / "images.shared.npz"
    path.unlink()
    with pytest.raises(StoreError, match=r"images.shared.npz .*no such file.*: that job writes it again"):
        report.write(copy)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"labels": np.full(6, 10, np.uint8)}, "classes beyond the 10"),
        ({"labels": np.zeros(5, np.uint8)}, "'labels' are of shape"),
        ({"reference": np.zeros((6, 10), np.uint16)}, "images without probabilities"),
        ({"reference": None}, "no array 'reference'"),
    ],
)
def test_what_does_not_fit_the_predictions_is_refused(copy, change, reason):
    path = copy / "hmc-distance" / "images.shared.npz"
    with np.load(path) as file:
        arrays = {**file, **change}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(StoreError, match=f"images.shared.npz is whole but cannot be reported on: .*{reason}"):
        report.write(copy)
