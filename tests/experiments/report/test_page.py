"""The page in a real browser: what a reader would do, on a desktop and on a phone, in light and in dark."""

import pytest
import torch

from colangevin.experiments import report
from colangevin.experiments.report.colours import look
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training import runner
from tests.experiments.browser import PROBE_END, PROBE_START, browse
from tests.experiments.conftest import Nobody
from tests.experiments.tiny import METHODS, networks

# What is cut off or reaches beyond its frame. Plots are drawn anew after the theme or a size has changed.
LAYOUT = """
  const within = (inner, outer) => {
    const [a, b] = [inner, outer].map((node) => node.getBoundingClientRect());
    return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  };
  const all = (what) => [...document.querySelectorAll(what)].filter((node) => node.getClientRects().length);
  const cut = async () => {
    await new Promise((go) => setTimeout(go, 1000));
    return [
      ...(document.scrollingElement.scrollWidth > window.innerWidth ? ["the page scrolls sideways"] : []),
      ...all(".legend button, .card .controls > *, .plot").filter((n) => !within(n, n.closest(".card"))),
      ...all(".plot text").filter((n) => !within(n, n.closest(".plot"))),
    ].map((node) => node.textContent ?? node);
  };
"""
# What a reader would do: wait for the plots, use every kind of control, look at what changed.
PROBE = (
    PROBE_START
    + LAYOUT
    + """
  for (const id of ["four-turn-parts", "four-turn-curves", "four-turn-runs", "four-turn-boundary-0",
                    "four-turn-gradients", "two-turn-curves"]) {
    await wait(id, () => get(id)?.data);
  }
  seen.cut = await cut();
  seen.dark = document.documentElement.dataset.theme === "dark";
  seen.firstPictures = all("[data-best] .plot").map((div) => div.id);
  const curves = get("four-turn-curves"), card = curves.closest(".card");
  const [curve, band, kind] = card.querySelectorAll("select"), log = card.querySelector("input");
  const banded = () => curves.data.filter((trace) => trace.fill === "toself").map((trace) => trace.fillcolor);
  seen.traces = curves.data.length;
  seen.title = curves.layout.yaxis.title.text;
  seen.band = banded();
  seen.bandOf = band.value;
  use(band, (c) => { c.selectedIndex = 0; });
  seen.bandOfAnother = banded();
  const [toggle, second] = card.querySelectorAll(".legend button");
  second.dispatchEvent(new PointerEvent("pointerenter", { pointerType: "mouse" }));
  seen.bandPointedAt = banded();
  curves.emit("plotly_hover", { points: [{ data: { meta: 2 } }] });
  seen.bandHovered = banded();
  seen.bandHoveredIs = band.value;
  const height = Math.max(...curves.data[0].y);
  use(kind, (c) => { c.selectedIndex = 1; });
  seen.kindChanges = Math.max(...curves.data[0].y) !== height;
  use(band, (c) => { c.selectedIndex = c.length - 1; });
  seen.noBand = banded();
  toggle.click();
  seen.tracesWithoutMethod = curves.data.length;
  seen.tracesElsewhere = get("four-turn-runs").data.length;
  toggle.click();
  seen.tracesAgain = curves.data.length;
  use(curve, (c) => { c.selectedIndex = 1; });
  seen.otherTitle = curves.layout.yaxis.title.text;
  use(log, (c) => { c.checked = true; });
  seen.log = curves.layout.yaxis.type;
  const parts = get("four-turn-parts");
  seen.modeOnAScale = [...new Set(parts.data.map((trace) => trace.mode))];
  seen.scale = [parts.layout.xaxis.title.text, ...parts.layout.xaxis.tickvals];
  const left = get("four-turn-boundary-0");
  seen.compared = [...left.closest(".pair").querySelectorAll("select")].map((select) => select.value);
  await wait("picture", () => left.data[0].z.length);
  seen.rows = left.data[0].z.length;
  seen.outlined = left.data.slice(2).every(({ marker }) => marker.size >= 6 && marker.line.width >= 1);
  const first = JSON.stringify(left.data[0].z);
  const slider = left.closest(".card").querySelector("input[type=range]");
  slider.value = 3;
  slider.dispatchEvent(new Event("input"));
  seen.runChanges = JSON.stringify(left.data[0].z) !== first;
  const method = left.parentElement.querySelector("select");
  const third = JSON.stringify(left.data[0].z);
  use(method, (c) => { c.selectedIndex = 4; });
  seen.methodChanges = JSON.stringify(left.data[0].z) !== third;
  const part = document.querySelector("select[aria-label=setting]");
  const before = JSON.stringify(curves.data[0].y);
  use(part, (c) => { c.selectedIndex = 1; });
  seen.partChanges = JSON.stringify(curves.data[0].y) !== before;
  const paper = getComputedStyle(document.body).backgroundColor, ink = curves.layout.font.color;
  get("theme").click();
  seen.themeChanges = getComputedStyle(document.body).backgroundColor !== paper;
  seen.plotThemeChanges = curves.layout.font.color !== ink;
  seen.cutInTheOtherTheme = await cut();
  // Every colour that a method has anywhere.
  seen.colours = {};
  const note = (name, colour) => {
    seen.colours[name] = [...new Set([...(seen.colours[name] ?? []), colour])];
  };
  for (const div of all(".plot")) {
    for (const { name, line, marker, mode } of div.data) {
      if (name) note(name.replace("<br>", " "), mode === "markers" ? marker.color : line.color);
    }
  }
  const probe = document.createElement("canvas").getContext("2d");
  for (const button of all(".legend button")) {
    probe.fillStyle = getComputedStyle(button.querySelector(".swatch")).borderTopColor;
    note(button.textContent, probe.fillStyle);
  }
"""
    + PROBE_END
)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_works_in_a_browser(folder, tmp_path, width, dark):
    names = [method.name for method in METHODS]
    colours = [f"{look(name).colour}30" for name in names]
    assert browse(folder / "report.html", PROBE, tmp_path, width, dark) == {
        "cut": [],
        "dark": dark,
        "firstPictures": ["two-turn-curves", "four-turn-parts"],
        "traces": 9,
        "band": [colours[names.index("o-CoLod τ")]],
        "bandOf": "o-CoLod τ",
        "bandOfAnother": [colours[0]],
        "bandPointedAt": [colours[1]],
        "bandHovered": [colours[2]],
        "bandHoveredIs": names[2],
        "kindChanges": True,
        "noBand": [],
        "tracesWithoutMethod": 7,
        "tracesElsewhere": 7,
        "tracesAgain": 8,
        "title": "test accuracy, %",
        "otherTitle": "test loss",
        "log": "log",
        "modeOnAScale": ["lines+markers"],
        "scale": ["hidden layers", 1, 2, 3],
        "compared": ["SGD", "o-CoLod τ"],
        "rows": 20,
        "outlined": True,
        "runChanges": True,
        "methodChanges": True,
        "partChanges": True,
        "themeChanges": True,
        "plotThemeChanges": True,
        "cutInTheOtherTheme": [],
        "colours": {name: [look(name).colour] for name in names},
    }


BUTTONS = (
    PROBE_START
    + """
  await wait("curves", () => get("resnet34-curves")?.data);
  const buttons = [...get("resnet34-curves").closest(".card").querySelectorAll(".legend button")];
  seen.buttons = buttons.filter((button) => button.offsetParent).map((button) => button.textContent);
"""
    + PROBE_END
)


def test_a_method_without_a_run_has_no_verdict_and_no_button(tmp_path, small_data):
    what, cpu = networks(), torch.device("cpu")
    stored = Folder(tmp_path, what.name)
    stored.open(what, cpu, ["colangevin"], resume=False)
    assert runner.run(what, stored, cpu, Nobody(), lambda: False, "*: SGD-m, run 1")
    assert load(tmp_path)[0].findings == []
    report.write(tmp_path)
    assert browse(tmp_path / "report.html", BUTTONS, tmp_path, 1200) == {"buttons": ["SGD-m"]}


NETWORKS = (
    PROBE_START
    + LAYOUT
    + """
  for (const id of ["parts", "curves", "runs", "spectra"]) await wait(id, () => get("resnet34-" + id)?.data);
  seen.cut = await cut();
  const spectra = get("resnet34-spectra"), curves = get("resnet34-curves");
  const names = (div) => [...div.closest(".card").querySelectorAll("select")][0];
  seen.curves = names(curves).length;
  seen.layers = spectra.data[0].x.length;
  seen.joined = [...spectra.data, ...get("resnet34-parts").data].some((trace) => trace.mode !== "markers");
  seen.bars = spectra.data.map((trace) => trace.error_y.visible);
  const { xaxis, yaxis } = spectra.layout;
  seen.axes = [xaxis.title.text, yaxis.title.text, yaxis.type];
  seen.namesApart = xaxis.tickvals.length * 80 <= spectra.clientWidth;
  seen.numbers = yaxis.ticktext.includes("0.5") && yaxis.ticktext.includes("1");
  const median = JSON.stringify(spectra.data[0].y);
  use(names(spectra), (c) => { c.selectedIndex = 2; });
  seen.quantileChanges = JSON.stringify(spectra.data[0].y) !== median;
  use(document.querySelector("select[aria-label=setting]"), (c) => { c.selectedIndex = 1; });
  seen.linesOfWords = curves.data.filter((trace) => trace.fill !== "toself").length;
  seen.wordLayers = spectra.data[0].x.length;
  seen.cutOfWords = await cut();
"""
    + PROBE_END
)


def test_the_page_of_unfinished_networks_works_in_a_browser(unfinished, tmp_path):
    seen = browse(unfinished / "report.html", NETWORKS, tmp_path, 390)
    assert seen == {
        "cut": [],
        "curves": 6,
        "layers": 37,
        "joined": False,
        "bars": [False, True],
        "axes": ["weights, one in 13 named", "singular value, log scale", "log"],
        "namesApart": True,
        "numbers": True,
        "quantileChanges": True,
        "linesOfWords": 2,
        "wordLayers": 10,
        "cutOfWords": [],
    }
