import base64
import gzip
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from colangevin.experiments import report
from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.judging.verdicts import judge
from colangevin.experiments.report import tables
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.disk import StoreError


def test_every_claim_has_numbers_interval_and_verdict(folder):
    table = tables.claims(load(folder)[1])
    assert [row[0] for row in table.rows] == ["Figure 4", "Table 1"]
    for row in table.rows:
        assert row[-1].split(" (")[0] in ("holds", "does not hold", "undecided")
        assert re.search(r"\[.+, .+\]", row[4])
    accuracy, curvature = table.rows
    assert accuracy[2] == "9 %"
    assert accuracy[5] == "6"
    assert curvature[1] == "Less curved. [3 hidden layers]"
    assert curvature[4].startswith("× ")


def test_few_runs_are_undecided_in_words(folder):
    assert tables.claims(load(folder)[0]).rows[0][-1] == "undecided (2 runs)"


def test_a_single_run_has_a_difference_or_ratio_but_no_interval():
    for measure, expected in (("test accuracy", "+2.00 [–, –]"), ("time per step", "× 2 [–, –]")):
        claim = Claim("Figure 1", "More.", measure, "a", ("b",), "higher")
        finding = judge(claim, ["a", "b"], {measure: np.array([[4.0], [2.0]])})
        assert tables.difference(finding) == expected


def test_the_papers_numbers_stand_beside_ours(folder):
    result = load(folder)[1]
    table = tables.numbers(result, result.parts[0])
    place = table.head.index("test accuracy, %")
    assert table.head[place + 1] == "paper"
    assert table.rows[0][place + 1] == "50 ± 1"
    assert table.rows[1][place + 1] == "–"
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", table.rows[0][place])


def test_markdown_has_tables_commands_and_figures(folder):
    text = (folder / "report.md").read_text()
    assert "## tiny &lt;spiral&gt;" in text
    assert "colangevin run four-turn --out 'a & b'" in text
    assert "## Not in the paper" in text
    for name in re.findall(r"\(figures/(.+?)\)", text):
        assert (folder / "figures" / name).is_file()
    assert len(re.findall(r"^\| o-CoLod τ \|", text, re.MULTILINE)) == 4


def test_figures_are_svg_and_the_same_every_time(folder):
    before = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    kinds = {name.split(".")[-2] for name in before}
    assert kinds == {"parts", "curves", "boundaries", "curvature", "gradients"}
    assert all(content.startswith(b"<?xml") for content in before.values())
    report.write(folder)
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == before


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.outside = []
        self.packed = {}
        self._id = None

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        address = given.get("src") or (given.get("href") if tag == "link" else None)
        if address and not address.startswith("data:"):
            self.outside.append(address)
        self._id = given.get("id") if tag == "script" else None

    def handle_data(self, data):
        if self._id:
            self.packed[self._id], self._id = gzip.decompress(base64.b64decode(data)).decode(), None

    @property
    def data(self):
        return json.loads(self.packed["data"])


def test_the_page_needs_nothing_else(folder):
    reader = Reader()
    text = (folder / "report.html").read_text()
    reader.feed(text)
    assert reader.outside == []
    assert reader.packed["plotly"].count("plotly.js v") == 1
    assert "tiny &lt;spiral&gt;" in text
    assert "a &amp; b" in text
    assert [each["name"] for each in reader.data["experiments"]] == ["two-turn", "four-turn"]


def test_parts_that_are_missing_are_said_to_be(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "four-turn" / "3-hidden-layers.json").unlink()
    assert load(tmp_path / "copy")[1].missing == ["3 hidden layers"]
    report.write(tmp_path / "copy")
    assert "not complete: 3 hidden layers" in (tmp_path / "copy" / "report.md").read_text()


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"no complete results to report on. Make some with 'colangevin run"):
        report.write(tmp_path)


def test_results_of_another_format_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "four-turn" / "run.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 7'))
    with pytest.raises(StoreError, match="has format 7"):
        report.write(tmp_path / "copy")


def test_runs_that_are_missing_are_left_out_and_counted(unfinished):
    (result,) = load(unfinished)
    assert result.missing == ["words: SGD-m, run 1", "words: c-CoLud, run 1", "pictures: o-CoLud, run 2"]
    pictures, words = result.parts
    assert pictures.done.tolist() == [[True, True], [True, False]]
    table = tables.numbers(result, pictures)
    assert [row[table.head.index("runs")] for row in table.rows] == ["2", "1"]
    accuracy = table.head.index("test accuracy, %")
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d", table.rows[0][accuracy])
    assert re.fullmatch(r"\d+\.\d\d", table.rows[1][accuracy])
    assert "time per step, ms" in table.head
    paper = tables.numbers(result, words)
    assert paper.rows[1][paper.head.index("lowest validation loss") + 1] == "4.81"
    assert [finding.runs for finding in result.findings] == [1, 1]
    assert "not complete: words: SGD-m, run 1; " in (unfinished / "report.md").read_text()


def test_networks_have_curves_and_singular_values_on_the_page(unfinished):
    reader = Reader()
    reader.feed((unfinished / "report.html").read_text())
    pictures, words = reader.data["experiments"][0]["parts"]
    assert set(pictures["curves"]) >= {"test_accuracy", "violation", "fallbacks"}
    assert set(words["curves"]) >= {"validation_loss", "norm_gain_change"}
    assert set(words["curves"]) <= {name for name, *_ in reader.data["curves"]}
    assert len(pictures["spectra"]["layers"]) == 37
    smallest, _, largest = pictures["spectra"]["lines"]
    assert smallest[1][1] == pytest.approx(1, abs=1e-3)  # of o-CoLud; the first layer is free
    assert largest[0][1] > smallest[0][1]
    smallest, _, largest = pictures["norms"]["lines"]
    assert (smallest[1][1], largest[1][1]) == pytest.approx((1, 1), abs=1e-3)  # its rows are orthonormal too
    assert largest[0][1] > smallest[0][1]
    drawn = {path.name for path in (unfinished / "figures").iterdir()}
    assert {"resnet34.pictures.curves.svg", "resnet34.words.spectra.svg", "resnet34.parts.svg"} <= drawn
