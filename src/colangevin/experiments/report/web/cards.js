// ---- cards: a plot of an experiment, its controls and its legend -----------------------------------

// What the plots of an experiment share: which part is shown, which methods are hidden, and which one is in focus.
// Only the one in focus has a band: those of several hide each other.
const newState = (experiment) => ({
  part: experiment.subject.part, focus: experiment.subject.method, hidden: new Set(),
  divs: [], focused: [], legends: [], pickers: [],
});

const setFocus = (state, i) => {
  if (i === undefined || i === state.focus) return;
  state.focus = i;
  state.legends.forEach((node) => [...node.children].forEach((b, k) => b.classList.toggle("focus", k === i)));
  state.pickers.forEach((picker) => { picker.selectedIndex = i === null ? picker.length - 1 : i; });
  redraw(...state.focused);
};

const focusable = (div, state) => {
  div.onfocusmethod = (i) => setFocus(state, i);
  state.focused.push(div);
};

// Chooses the method in focus, for those who cannot point at a line.
const focusPicker = (experiment, state) => {
  const names = experiment.parts[0].methods;
  const select = choice("band of", [...names, "no method"], (i) => setFocus(state, i < names.length ? i : null), state.focus);
  state.pickers.push(select);
  return make("label", {}, "band of", select);
};

// Buttons for the methods under a plot; a method that is switched off is gone from all plots of the experiment.
// A method that has no finished run has no button.
const legend = (experiment, state) => {
  const node = make("div", { class: "legend" });
  const ran = (i) => experiment.parts.some((part) => Object.values(part.values).some((v) => finite(v[i] ?? []).length));
  experiment.parts[0].methods.forEach((name, i) => {
    const { colour, dash } = experiment.parts[0].looks[i];
    const style = { solid: "solid", dash: "dashed", dot: "dotted" }[dash];
    const swatch = make("span", { class: "swatch", style: `border-top: 3px ${style} ${colour}` });
    const onclick = () => {
      if (!state.hidden.delete(i)) state.hidden.add(i);
      state.legends.forEach((other) => other.children[i].setAttribute("aria-pressed", String(!state.hidden.has(i))));
      redraw(...state.divs);
    };
    const onpointerenter = (event) => { if (event.pointerType === "mouse") setFocus(state, i); };
    const events = { onclick, onpointerenter, onfocus: () => setFocus(state, i) };
    const button = make("button", { type: "button", "aria-pressed": "true", ...events }, swatch, name);
    button.hidden = !ran(i);
    button.classList.toggle("focus", i === state.focus);
    node.append(button);
  });
  state.legends.push(node);
  return node;
};

const severalRuns = (experiment) => experiment.parts.some((part) => part.runs > 1);
const BANDS = ["± standard deviation", "± standard error"];

const curvesCard = (experiment, state) => {
  const curves = data.curves.filter(([key]) => key in experiment.parts[0].curves);
  let which = Math.max(0, curves.findIndex(([key]) => experiment.subject.measure.includes(key.replaceAll("_", " "))));
  let kind = 0, log = false;
  const div = plot(`${experiment.name}-curves`, () => {
    const part = experiment.parts[state.part];
    const [key, title, scale] = curves[which];
    const curve = part.curves[key];
    const lines = [], bands = [];
    part.methods.map(plain).forEach((name, i) => {
      if (state.hidden.has(i) || !curve || !finite(curve.mean[i]).length) return;
      const y = curve.mean[i].map((v) => times(v, scale));
      const half = curve.std[i].map((v) => times(v, scale / (kind === 1 ? Math.sqrt(part.runs) : 1)));
      lines.push({
        type: "scatter", mode: "lines", name, meta: i, x: part.epochs, y,
        line: line(part.looks[i], i === state.focus ? 3 : 2), customdata: half,
        hovertemplate: "epoch %{x}: %{y:.4g} ± %{customdata:.2g}<extra>" + name + "</extra>",
      });
      if (i === state.focus && part.runs > 1) {
        // No curve is below 0, and on a logarithmic axis none reaches it.
        const floor = log ? Math.min(...finite(y).filter((v) => v > 0)) / 10 : 0;
        const up = y.map((v, k) => v + half[k]), down = y.map((v, k) => Math.max(v - half[k], floor));
        bands.push({
          type: "scatter", mode: "lines", hoverinfo: "skip", fill: "toself",
          x: [...part.epochs, ...[...part.epochs].reverse()],
          y: [...up, ...down.reverse()],
          line: { width: 0 }, fillcolor: faint(part.looks[i].colour),
        });
      }
    });
    const yaxis = { title: { text: title }, type: log ? "log" : "linear" };
    if (!log && curve?.shown) yaxis.range = curve.shown;
    return { traces: [...bands, ...lines], layout: { xaxis: { title: { text: "epochs" } }, yaxis } };
  });
  const node = card(
    "Over training, mean over runs",
    choice("curve", curves.map((c) => c[1]), (i) => { which = i; redraw(div); }, which),
    ...(severalRuns(experiment)
      ? [focusPicker(experiment, state), choice("band", BANDS, (i) => { kind = i; redraw(div); })] : []),
    tick("log scale", (on) => { log = on; redraw(div); }, false),
  );
  node.append(div, legend(experiment, state));
  focusable(div, state);
  state.divs.push(div);
  return node;
};

const axisTitle = (name) => name + (data.measures[name].unit ? `, ${data.measures[name].unit}` : "");
const axisOf = (name) => ({ title: { text: axisTitle(name) }, type: data.measures[name].decades ? "log" : "linear" });
const measuresOf = (experiment) =>
  Object.keys(data.measures).filter((name) => experiment.parts.every((part) => name in part.values));

const runsCard = (experiment, state) => {
  const names = measuresOf(experiment);
  let which = names.indexOf(experiment.subject.measure);
  const div = plot(`${experiment.name}-runs`, (self) => {
    const part = experiment.parts[state.part];
    const name = names[which];
    const traces = [];
    part.methods.forEach((method, i) => {
      if (state.hidden.has(i) || !finite(part.values[name][i]).length) return;
      const { colour } = part.looks[i];
      traces.push({
        type: "box", orientation: "h", name: wrapped(method, lettersFor(self)), x: part.values[name][i],
        boxpoints: "all", jitter: 0.5, pointpos: 0,
        marker: { color: colour, size: 4, opacity: 0.7 }, line: { color: colour, width: 1 },
        fillcolor: faint(colour), text: part.values[name][i].map((_, run) => `run ${run + 1}`),
        hovertemplate: "%{text}: %{x:.4g}<extra>" + plain(method) + "</extra>", hoveron: "points",
      });
    });
    const yaxis = { autorange: "reversed", type: "category" };
    return { traces, layout: { xaxis: axisOf(name), yaxis }, height: 80 + 36 * Math.max(2, traces.length) };
  });
  const node = card("In the end, every run",
    choice("measure", names, (i) => { which = i; redraw(div); }, which));
  node.append(div);
  state.divs.push(div);
  return node;
};

// Settings on a scale are joined by lines. Categories stand below each other, and there is no line between them.
const partsCard = (experiment, state) => {
  const names = measuresOf(experiment);
  const { parts, scale } = experiment;
  let which = names.indexOf(experiment.subject.measure);
  const div = plot(`${experiment.name}-parts`, (self) => {
    const name = names[which];
    const methods = parts[0].methods, traces = [];
    const places = scale ? scale.numbers : parts.map((_, k) => k);
    methods.forEach((method, i) => {
      if (state.hidden.has(i)) return;
      const runs = parts.map((part) => finite(part.values[name][i]));
      const value = runs.map((values) => (values.length ? mean(values) : null));
      const bars = { type: "data", array: runs.map(deviation), thickness: 1.2, width: 3 };
      // Among many methods only the one in focus has bars.
      if (scale && methods.length > 6) bars.visible = i === state.focus;
      const at = places.map((k) => k + beside(i, methods.length, scale ? 0.15 : 0.7));
      const said = (v) => `%{text}: %{${v}:.4g} ± %{customdata:.2g}<extra>${plain(method)}</extra>`;
      traces.push({
        type: "scatter", mode: scale ? "lines+markers" : "markers", name: plain(method), meta: i,
        text: parts.map((part) => plain(part.name)), customdata: bars.array,
        line: line(parts[0].looks[i], 2), marker: marker(parts[0].looks[i], scale ? 6 : 8),
        ...(scale ? { x: at, y: value, error_y: bars, hovertemplate: said("y") }
                  : { x: value, y: at, error_x: bars, hovertemplate: said("x") }),
      });
    });
    if (scale) {
      const xaxis = { title: { text: plain(scale.label) }, tickvals: places };
      return { traces, layout: { xaxis, yaxis: axisOf(name) } };
    }
    const ticktext = parts.map((part) => wrapped(part.name, lettersFor(self)));
    const yaxis = { tickvals: places, ticktext, range: [parts.length - 0.5, -0.5], zeroline: false, showgrid: false };
    const shapes = places.slice(1).map((k) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: k - 0.5, y1: k - 0.5, line: { color: css("--line"), width: 1 },
    }));
    const height = 80 + parts.length * Math.max(36, 9 * methods.length);
    return { traces, layout: { xaxis: axisOf(name), yaxis, shapes }, height };
  });
  const node = card("Across the settings, mean and standard deviation over runs",
    choice("measure", names, (i) => { which = i; redraw(div); }, which));
  node.append(div, legend(experiment, state));
  focusable(div, state);
  state.divs.push(div);
  return node;
};
