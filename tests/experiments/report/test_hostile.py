"""Folders of results that somebody wrote to do harm: a report writes nothing elsewhere and runs nothing."""

import json
import os
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from colangevin.experiments import report
from colangevin.experiments.catalogue.names import slug
from colangevin.experiments.report.markdown import _plain, markdown
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from tests.experiments.browser import PROBE_END, PROBE_START, browse
from tests.experiments.small_run import run_all
from tests.experiments.tiny import experiment

CPU = torch.device("cpu")
WHAT = experiment(parts=2)

# Every way out of an attribute, a tag, a script, a cell, a link and a formula.
TEXT = (
    """x"'><img src=x onerror="hacked=1"></script><script>hacked=1</script><!-- | `a` **b** ![d](http://e) """
    """[c](javascript:hacked=1) <http://f> www.g.example &lt; $\\frac{$ ``` ]]> \\| d="M 1.2.3 4" {x} %{y}"""
)
NAMES = {
    "part 1": 'part/../../1"><img src=x onerror=hacked=1>',
    "part 2": "part 2</script><script>hacked=1</script>",
    "SGD": 'SGD"><img src=x onerror=hacked=1>',
    "SGD, WD": "SGD, WD <a href='javascript:hacked=1'>link</a>",
    "start": 'start $\\frac{$ %{y} d="M 1.2.3 4"',
    "penalty": "penalty | `code` [a](http://b.example)",
    "o-CoLod τ": "o-CoLod τ</text></svg><script>hacked=1</script>",
    "C-SGLD": "C-SGLD ../../../x",
    "c-CoLud": "c-CoLud &lt;b&gt; <b>bold</b>",
    "SGD-m": "SGD-m ${hacked=1} `",
}
FREE = {"title", "about", "source", "text", "paper", "command", "device", "version", "torch", "commit"}
FREE |= {"platform", "processor", "python", "numpy"}


def poisoned(value, key=None):
    """The same with hostile text in every place that takes any text, and hostile names for good ones."""
    if isinstance(value, dict):
        keys = {name: NAMES[name] if name.startswith("part ") else name for name in value}
        return {keys[name]: poisoned(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, key) for each in value]
    if key in FREE:
        return TEXT
    return NAMES.get(value, value) if isinstance(value, str) else value


def edit(path, change):
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(content) or content), encoding="utf-8")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    out = run_all(tmp_path_factory.mktemp("good"), WHAT)
    report.write(out)
    return out


@pytest.fixture(scope="module")
def hostile(good, tmp_path_factory):
    around = tmp_path_factory.mktemp("around")
    out = around / "a" / "b" / "out"
    shutil.copytree(good / WHAT.name, out / WHAT.name)
    for path in list((out / WHAT.name).iterdir()):
        if path.suffix == ".json":
            edit(path, poisoned)
        for number in (1, 2):
            if path.stem == f"part-{number}":
                path.rename(path.with_stem(slug(NAMES[f"part {number}"])))
    assert report.write(out) == out / "report.html"
    return around


@pytest.fixture
def copy(good, tmp_path):
    shutil.copytree(good / WHAT.name, tmp_path / "out" / WHAT.name)
    return tmp_path / "out"


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_that_is_written_is_in_the_folder(good, hostile):
    out = hostile / "a" / "b" / "out"
    assert all(Path(name).parts[:3] == ("a", "b", "out") for name in files(hostile))
    assert len(files(out)) == len(files(good))
    names = [path.name for path in (out / "figures").iterdir()]
    assert all(re.fullmatch(r"four-turn(\.[a-z0-9-]+)?\.[a-z]+\.svg", name) for name in names)


class Tags(HTMLParser):
    """The elements of a page with the names of their attributes, and the text besides scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text, self._inside = [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, *(name for name, _ in attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


def test_the_page_has_the_elements_of_any_other_and_shows_the_text(good, hostile):
    ours, theirs = (
        Tags((folder / "report.html").read_text(encoding="utf-8"))
        for folder in (good, hostile / "a" / "b" / "out")
    )
    assert theirs.found == ours.found
    assert theirs.text.count(TEXT) >= 6
    assert all(name in theirs.text for name in NAMES.values())


def test_figures_have_the_elements_of_any_other_and_show_the_names(good, hostile):
    def tags(folder):
        kinds = set()
        for path in (folder / "figures").iterdir():
            kinds |= {element.tag for element in ElementTree.parse(path).iter()}
        return kinds

    out = hostile / "a" / "b" / "out"
    assert tags(out) == tags(good)
    curves = ElementTree.parse(out / "figures" / f"four-turn.{slug(NAMES['part 1'])}.curves.svg")
    shown = {element.text for element in curves.iter("{http://www.w3.org/2000/svg}text")}
    assert {NAMES[method.name] for method in WHAT.parts[0].methods} <= shown


def test_markdown_has_the_lines_of_any_other_and_no_tag_or_link(good, hostile):
    ours, theirs = (
        (folder / "report.md").read_text(encoding="utf-8") for folder in (good, hostile / "a" / "b" / "out")
    )

    def kinds(text):
        return [re.match(r"#* |- |\| |!\[|\|?", line)[0] for line in text.splitlines()]

    assert kinds(theirs.replace("````", "```")) == kinds(ours)
    outside = re.sub(r"(?ms)^````console$.*?^````$", "", theirs)
    images = re.sub(r"(?m)^!\[[a-z0-9.-]+\]\(figures/[a-z0-9.-]+\)$", "", outside)
    assert "<" not in images
    for mark in (r"\[", r"\]", "`", r"\$", r"\*", r"(?<=www)\.", ":(?=//)"):
        found = re.findall(rf"(?<!\\){mark}", images)
        assert not found, mark

    def cells(text):
        return [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| ")]

    assert cells(theirs) == cells(ours)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("<b> & c", "&lt;b&gt; &amp; c"),
        ("[a](b)", r"\[a\](b)"),
        ("http://a, WWW.b, user@c", r"http\://a, WWW\.b, user\@c"),
        (r"\| `x`", r"\\\| \`x\`"),
        ("o-CoLod τ=5e-5, 50 ± 1 %", "o-CoLod τ=5e-5, 50 ± 1 %"),
    ],
)
def test_markdown_shows_text_as_it_is(text, expected):
    assert _plain(text) == expected


LOOK = """
  await wait("the last plot", () => get("four-turn-gradients")?.data);
  seen.hacked = typeof hacked !== "undefined";
  seen.images = document.querySelectorAll("img").length;
  seen.links = [...document.querySelectorAll("a")].filter((a) => a.closest(".plot")).length;
  seen.bold = document.querySelectorAll("b, .plot tspan[style*=bold]").length;
  const labels = [...get("four-turn-runs").querySelectorAll(".ytick text")];
  seen.labels = labels.map((label) => label.textContent.replace(/\\s/g, "")).sort(); // long ones are broken
  seen.buttons = [...document.querySelectorAll(".legend")[0].children].map((b) => b.textContent).sort();
"""


def test_nothing_runs_in_a_browser(hostile, tmp_path):
    page = hostile / "a" / "b" / "out" / "report.html"
    seen = browse(page, PROBE_START + LOOK + PROBE_END, tmp_path, 1200)
    methods = sorted(NAMES[method.name] for method in WHAT.parts[0].methods)
    assert seen == {
        "hacked": False,
        "images": 0,
        "links": 0,
        "bold": 0,
        "labels": sorted(name.replace(" ", "") for name in methods),
        "buttons": methods,
    }


@pytest.mark.parametrize(
    "name",
    [
        "../../../x",
        'x"><img src=x onerror=alert(1)>',
        "two-turn",
        "",
        ".",
        "four-turn/../two-turn",
        "Four-turn",
    ],
)
def test_an_experiment_of_another_name_than_its_folders_is_refused(copy, name):
    edit(copy / WHAT.name / "run.json", lambda run: run["experiment"].update(name=name))
    before = files(copy.parent)
    with pytest.raises(StoreError, match=r"four-turn/run.json cannot be read as results: .*name"):
        report.write(copy)
    assert files(copy.parent) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covers": ["fig4<b>"]}, r"name 'fig4<b>' must be letters and digits with single hyphens"),
        ({"title": "a\x1b]0;b"}, r"experiment.title is 'a\\x1b\]0;b'; it must be text without control"),
        ({"about": "a\n```\n# b"}, r"experiment.about is .*; it must be text without control characters"),
        ({"title": "\ud800"}, r"experiment.title is '\\ud800'; it must be text without"),
        ({"title": "\u202egnp.exe"}, r"experiment.title is '\\u202egnp.exe'; it must be text without"),
        ({"more": 1}, r"experiment has a field 'more', which this version does not know"),
        ({"plane": "curvature" * 9}, r"experiment.plane is .*; it must be one of 'nothing', 'pictures'"),
        ({"parts": []}, r"there is no part"),
        ({"claims": [{"source": "a"}]}, r"experiment.claims\[0\] has no text"),
    ],
)
def test_descriptions_that_are_none_are_refused(copy, change, message):
    edit(copy / WHAT.name / "run.json", lambda run: run["experiment"].update(change))
    with pytest.raises(StoreError, match=message):
        load(copy)


@pytest.mark.parametrize("name", ["../x", "_hidden", "", "x" * 300, "τ" * 30])
@pytest.mark.parametrize("place", ["part", "method"])
def test_names_that_are_no_file_names_are_refused(copy, place, name):
    def change(run):
        part = run["experiment"]["parts"][0]
        (part if place == "part" else part["methods"][0])["name"] = name

    edit(copy / WHAT.name / "run.json", change)
    with pytest.raises(StoreError, match=rf"{place} .* must begin with a letter or digit and have"):
        load(copy)


def test_two_parts_of_one_file_name_are_refused(copy):
    edit(
        copy / WHAT.name / "run.json",
        lambda run: run["experiment"]["parts"][1].update(name="part/1"),
    )
    with pytest.raises(StoreError, match="two parts have the same file name, among part 1, part/1"):
        load(copy)


def test_a_link_for_figures_is_not_followed(copy, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (copy / "figures").symlink_to(elsewhere)
    with pytest.raises(StoreError, match=r"figures is a link, and figures are written into the folder"):
        report.write(copy)
    assert os.listdir(elsewhere) == []


def test_a_link_for_a_lock_is_not_followed(copy, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("text", encoding="utf-8")
    (copy / WHAT.name / ".part-1.lock").symlink_to(precious)
    claim = Folder(copy, WHAT.name).claim(WHAT.parts[0])
    with pytest.raises(StoreError, match=r"Could not lock .*part-1.lock .*move away"), claim:
        pass
    assert precious.read_text(encoding="utf-8") == "text"


def test_a_pipe_for_a_file_is_not_waited_for(copy):
    path = copy / WHAT.name / "part-1.npz"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match=r"part-1.npz is damaged: there is no such file"):
        load(copy)


# Values of another type, size or sign, in every place of every JSON file.
WRONG = [None, True, -1, 10**400, 1.5, "text", [], {}, [[1]], {"a": 1}, ["text"], "__proto__"]


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, each in pairs:
            yield from places(each, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize("name", ["run.json", "part-1.json"])
def test_whatever_a_value_is_replaced_by_it_is_reported_on_or_refused_by_the_name_of_its_file(copy, name):
    path = copy / WHAT.name / name
    content = json.loads(path.read_text(encoding="utf-8"))
    messages = []
    for number, place in enumerate(places(content)):
        new = WRONG[number % len(WRONG)]
        path.write_text(json.dumps(replaced(content, place, new)), encoding="utf-8")
        try:
            results = load(copy)
            markdown(results, [])
            report.page.html(results, copy)
        except StoreError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all("four-turn" in text or "no complete results" in text for text in messages)
