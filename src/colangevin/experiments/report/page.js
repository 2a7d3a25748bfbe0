"use strict";
(async () => {
  const unpack = (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const library = document.createElement("script");
  library.textContent = await unpack("plotly");
  document.head.append(library);
  const data = JSON.parse(await unpack("data"));
  const root = document.documentElement;
  const plots = new Map(); // div -> function that makes its figure

  // ---- small helpers ---------------------------------------------------------------------------

  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };
  const choice = (label, options, onchange, chosen = 0) => {
    const select = make("select", { "aria-label": label, onchange: () => onchange(select.selectedIndex) });
    options.forEach((text, i) => {
      const option = make("option", {}, text);
      option.selected = i === chosen;
      select.append(option);
    });
    return select;
  };
  const tick = (label, onchange, checked) => {
    const box = make("input", { type: "checkbox", onchange: () => onchange(box.checked) });
    box.checked = checked;
    return make("label", {}, box, label);
  };
  const card = (title, ...controls) => {
    const node = make("div", { class: "card" });
    node.append(make("div", { class: "head" }, make("h3", {}, title), make("div", { class: "controls" }, ...controls)));
    return node;
  };
  // Plotly reads tags, entities, %{...} and $formulas$ in what it shows.
  const plain = (text) => text.replace(/[&<>%$]/g, (c) => `&#${c.charCodeAt(0)};`);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const deviation = (values) => {
    if (values.length < 2) return 0;
    const m = mean(values);
    return Math.sqrt(values.reduce((a, b) => a + (b - m) ** 2, 0) / (values.length - 1));
  };
  const colour = (i) => data.colours[i % data.colours.length];
  const dash = (i) => ["solid", "dash", "dot"][Math.floor(i / data.colours.length) % 3];
  const faint = (hex) => hex + "26";

  // ---- plots -----------------------------------------------------------------------------------

  const layout = (extra) => {
    const axis = { ticks: "", gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
    const { xaxis = {}, yaxis = {}, ...rest } = extra;
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: css("--ink"), size: 12, family: "system-ui, sans-serif" },
      margin: { l: 56, r: 12, t: 12, b: 44 }, hovermode: "closest",
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") }, namelength: -1 },
      showlegend: false,
      xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...rest,
    };
  };
  const draw = (div) => {
    const figure = plots.get(div)();
    return Plotly.react(div, figure.traces, layout(figure.layout), { displayModeBar: false });
  };
  // a plot keeps the size it was drawn in; its card may have changed since
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.dataset.drawn && target.data) Plotly.Plots.resize(target);
  });
  const plot = (id, figure) => {
    const div = make("div", { class: "plot", id });
    plots.set(div, figure);
    sized.observe(div);
    return div;
  };
  const redraw = (...divs) => divs.filter((div) => div.dataset.drawn).forEach(draw);

  // Buttons for the methods under a plot; a method that is switched off is gone from all plots of the experiment.
  // A method that has no finished run keeps its colour and has no button.
  const legend = (experiment, state) => {
    const node = make("div", { class: "legend" });
    const ran = (i) => experiment.parts.some((part) => Object.values(part.values).some((v) => finite(v[i] ?? []).length));
    experiment.parts[0].methods.forEach((name, i) => {
      const style = { solid: "solid", dash: "dashed", dot: "dotted" }[dash(i)];
      const swatch = make("span", { class: "swatch", style: `border-top: 3px ${style} ${colour(i)}` });
      const onclick = () => {
        if (!state.hidden.delete(i)) state.hidden.add(i);
        state.legends.forEach((other) => other.children[i].setAttribute("aria-pressed", String(!state.hidden.has(i))));
        redraw(...state.divs);
      };
      const button = make("button", { type: "button", "aria-pressed": "true", onclick }, swatch, name);
      button.hidden = !ran(i);
      node.append(button);
    });
    state.legends.push(node);
    return node;
  };
  const shown = (state, traces) => traces.filter((_, i) => !state.hidden.has(i));

  const BANDS = ["± standard deviation", "± standard error", "no band"];

  const curvesCard = (experiment, state) => {
    const shownCurves = data.curves.filter(([key]) => key in experiment.parts[0].curves);
    let which = 0, band = 0, log = false;
    const div = plot(`${experiment.name}-curves`, () => {
      const part = experiment.parts[state.part];
      const [key, title, scale] = shownCurves[which];
      const curve = part.curves[key];
      const lines = [], bands = [];
      part.methods.map(plain).forEach((name, i) => {
        if (state.hidden.has(i) || !finite(curve.mean[i]).length) return;
        const times = (v, factor) => (v === null ? null : v * factor);
        const y = curve.mean[i].map((v) => times(v, scale));
        const half = curve.std[i].map((v) => times(v, scale / (band === 1 ? Math.sqrt(part.runs) : 1)));
        lines.push({
          type: "scatter", mode: "lines", name, x: part.epochs, y,
          line: { color: colour(i), dash: dash(i), width: 2 }, customdata: half,
          hovertemplate: "epoch %{x}: %{y:.4g} ± %{customdata:.2g}<extra>" + name + "</extra>",
        });
        if (band < 2 && part.runs > 1) {
          const up = y.map((v, k) => v + half[k]), down = y.map((v, k) => v - half[k]);
          const floor = Math.min(...finite(y).filter((v) => v > 0)) / 10;
          bands.push({
            type: "scatter", mode: "lines", hoverinfo: "skip", fill: "toself",
            x: [...part.epochs, ...[...part.epochs].reverse()],
            y: [...up, ...(log ? down.map((v) => Math.max(v, floor)) : down).reverse()],
            line: { width: 0 }, fillcolor: faint(colour(i)),
          });
        }
      });
      const yaxis = { title: { text: title }, type: log ? "log" : "linear" };
      if (!log && curve.shown) yaxis.range = curve.shown;
      return { traces: [...bands, ...lines], layout: { xaxis: { title: { text: "epochs" } }, yaxis } };
    });
    const node = card(
      "Over training",
      choice("curve", shownCurves.map((c) => c[1]), (i) => { which = i; redraw(div); }),
      choice("band", BANDS, (i) => { band = i; redraw(div); }),
      tick("log scale", (on) => { log = on; redraw(div); }, false),
    );
    node.append(div, legend(experiment, state));
    state.divs.push(div);
    return node;
  };

  const axisTitle = (name) => name + (data.measures[name].unit ? `, ${data.measures[name].unit}` : "");

  const runsCard = (experiment, state) => {
    const names = Object.keys(data.measures).filter((name) => experiment.parts.every((part) => name in part.values));
    let which = 0;
    const div = plot(`${experiment.name}-runs`, () => {
      const part = experiment.parts[state.part];
      const name = names[which];
      const traces = part.methods.map(plain).map((method, i) => ({
        type: "box", name: method, y: part.values[name][i], boxpoints: "all", jitter: 0.5, pointpos: 0,
        marker: { color: colour(i), size: 4, opacity: 0.7 }, line: { color: colour(i), width: 1 },
        fillcolor: faint(colour(i)), text: part.values[name][i].map((_, run) => `run ${run + 1}`),
        hovertemplate: "%{text}: %{y:.4g}<extra>" + method + "</extra>", hoveron: "points",
      }));
      const type = data.measures[name].decades ? "log" : "linear";
      return {
        traces: shown(state, traces),
        layout: { yaxis: { title: { text: axisTitle(name) }, type }, xaxis: { tickangle: "auto" } },
      };
    });
    const node = card("In the end, every run", choice("measure", names, (i) => { which = i; redraw(div); }));
    node.append(div);
    state.divs.push(div);
    return node;
  };

  const partsCard = (experiment, state) => {
    const names = Object.keys(data.measures).filter((name) => experiment.parts.every((part) => name in part.values));
    let which = 0;
    const div = plot(`${experiment.name}-parts`, () => {
      const name = names[which];
      const parts = experiment.parts;
      const traces = parts[0].methods.map(plain).map((method, i) => {
        const runs = parts.map((part) => finite(part.values[name][i]));
        return {
          type: "scatter", mode: "lines+markers", name: method, x: parts.map((part) => plain(part.name)),
          y: runs.map((values) => (values.length ? mean(values) : null)),
          error_y: { type: "data", array: runs.map(deviation), thickness: 1, width: 3 },
          line: { color: colour(i), dash: dash(i) },
          hovertemplate: "%{x}: %{y:.4g} ± %{error_y.array:.2g}<extra>" + method + "</extra>",
        };
      });
      const type = data.measures[name].decades ? "log" : "linear";
      const axes = { yaxis: { title: { text: axisTitle(name) }, type }, xaxis: { tickangle: "auto" } };
      return { traces: shown(state, traces), layout: axes };
    });
    const node = card("Across the settings, mean and standard deviation over runs",
      choice("measure", names, (i) => { which = i; redraw(div); }));
    node.append(div, legend(experiment, state));
    state.divs.push(div);
    return node;
  };

  const boundaryCard = (experiment, state) => {
    let run = 0, points = true;
    const last = experiment.parts[0].methods.length - 1;
    const chosen = [0, last];
    const number = make("output", {}, "1");
    const slider = make("input", {
      type: "range", min: 1, max: experiment.parts[0].runs, value: 1, "aria-label": "run",
      oninput: () => { run = slider.value - 1; number.textContent = slider.value; redraw(...divs); },
    });
    const figure = (side) => () => {
      const part = experiment.parts[state.part];
      const { size, edge, x, y, pixels } = part.pictures;
      const method = chosen[side];
      const rows = [];
      for (let row = 0; row < size; row += 1) {
        const start = ((method * part.runs + run) * size + row) * size;
        rows.push(Array.from(pixels.slice(start, start + size), (v) => parseInt(v, data.levels) / (data.levels - 1)));
      }
      const axis = Array.from({ length: size }, (_, i) => -edge + (2 * edge * i) / (size - 1));
      const traces = [{
        type: "heatmap", z: rows, x: axis, y: axis, zmin: 0, zmax: 1, showscale: false,
        colorscale: [[0, css("--low")], [0.5, css("--middle")], [1, css("--high")]], zsmooth: "best",
        hovertemplate: "(%{x:.2f}, %{y:.2f}): probability %{z:.2f}<extra></extra>",
      }];
      if (points) {
        const set = Math.min(run, x.length - 1);
        traces.push({
          type: "scatter", mode: "markers", x: x[set].map((p) => p[0]), y: x[set].map((p) => p[1]), hoverinfo: "skip",
          marker: {
            color: y[set].map((label) => css(label ? "--high" : "--low")), size: 5, line: { color: css("--ink"), width: 0.6 },
          },
        });
      }
      const accuracy = part.values["test accuracy"][method][run];
      const bare = { showgrid: false, zeroline: false, showticklabels: false, range: [-edge, edge] };
      return {
        traces,
        layout: {
          margin: { l: 4, r: 4, t: 28, b: 4 }, xaxis: bare, yaxis: { ...bare, scaleanchor: "x" },
          title: { text: `${accuracy.toFixed(1)} % of test points right`, font: { size: 13 }, y: 0.985, yanchor: "top" },
        },
      };
    };
    const divs = [0, 1].map((side) => plot(`${experiment.name}-boundary-${side}`, figure(side)));
    const node = card(
      "Decision boundaries",
      make("label", {}, "run", slider, number),
      tick("training points", (on) => { points = on; redraw(...divs); }, true),
    );
    const pair = make("div", { class: "pair" });
    divs.forEach((div, side) => {
      const methods = experiment.parts[0].methods;
      const select = choice("method", methods, (i) => { chosen[side] = i; redraw(div); }, chosen[side]);
      pair.append(make("div", {}, make("div", { class: "controls" }, select), div));
    });
    node.append(pair);
    state.divs.push(...divs);
    return node;
  };

  const gradientCard = (experiment, state) => {
    let line = 0;
    const div = plot(`${experiment.name}-gradients`, () => {
      const part = experiment.parts[state.part];
      const { edge, mean: values } = part.gradients;
      const points = values[0][0].length;
      const x = Array.from({ length: points }, (_, i) => -edge + (2 * edge * i) / (points - 1));
      const traces = part.methods.map(plain).map((name, i) => ({
        type: "scatter", mode: "lines", name, x, y: values[i][line], line: { color: colour(i), dash: dash(i), width: 1.5 },
        hovertemplate: "%{x:.2f}: %{y:.3g}<extra>" + name + "</extra>",
      }));
      const titles = ["x, at y = 0", "y, at x = 0"];
      return {
        traces: shown(state, traces),
        layout: { xaxis: { title: { text: titles[line] } }, yaxis: { title: { text: "|gradient of the prediction|" } } },
      };
    });
    const node = card("How sharp transitions are, mean over runs",
      choice("line", ["along y = 0", "along x = 0"], (i) => { line = i; redraw(div); }));
    node.append(div, legend(experiment, state));
    state.divs.push(div);
    return node;
  };

  const spectraCard = (experiment, state) => {
    let which = 0;
    const div = plot(`${experiment.name}-spectra`, () => {
      const part = experiment.parts[state.part];
      const { layers, lines } = part.spectra;
      const traces = part.methods.map(plain).map((name, i) => ({
        type: "scatter", mode: "lines", name, x: layers.map(plain), y: lines[which][i],
        line: { color: colour(i), dash: dash(i), width: 1.5 },
        hovertemplate: "%{x}: %{y:.3g}<extra>" + name + "</extra>",
      }));
      const axes = { xaxis: { tickangle: 90, tickfont: { size: 9 } }, yaxis: { type: "log" } };
      return { traces: shown(state, traces), layout: axes };
    });
    const node = card("Singular values of every weight in the end, mean over runs",
      choice("which", data.quantiles, (i) => { which = i; redraw(div); }));
    node.append(div, legend(experiment, state));
    state.divs.push(div);
    return node;
  };

  // ---- the page --------------------------------------------------------------------------------

  for (const experiment of data.experiments) {
    const place = document.querySelector(`[data-plots="${CSS.escape(experiment.name)}"]`);
    const state = { part: 0, hidden: new Set(), divs: [], legends: [] };
    if (experiment.parts.length > 1) {
      place.append(partsCard(experiment, state));
      const names = experiment.parts.map((part) => part.name);
      const show = (i) => { state.part = i; redraw(...state.divs); };
      place.append(make("div", { class: "controls" }, make("label", {}, "show", choice("setting", names, show))));
    }
    place.append(curvesCard(experiment, state), runsCard(experiment, state));
    if (experiment.parts[0].pictures) place.append(boundaryCard(experiment, state));
    if (experiment.parts[0].spectra) place.append(spectraCard(experiment, state));
    if (experiment.parts[0].gradients) place.append(gradientCard(experiment, state));
  }

  // One plot at a time, from above, so that the page answers while the later ones are drawn.
  const waiting = [...plots.keys()];
  const drawNext = () => {
    const div = waiting.shift();
    if (!div) return;
    div.dataset.drawn = "yes";
    draw(div);
    setTimeout(drawNext);
  };

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "light" : "dark";
    redraw(...plots.keys());
  };
  button.addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));
  system.addEventListener("change", () => show(system.matches ? "dark" : "light"));
  show(system.matches ? "dark" : "light");
  drawNext();
})();
