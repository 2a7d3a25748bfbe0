// ---- cards of classifiers in the plane, and of numbers of every weight --------------------------------

const boundaryCard = (experiment, state) => {
  let run = 0, points = true;
  const chosen = [experiment.subject.baseline, experiment.subject.method];
  const number = make("output", {}, "1");
  const slider = make("input", {
    type: "range", min: 1, max: experiment.parts[0].runs, value: 1, "aria-label": "run",
    oninput: () => { run = slider.value - 1; number.textContent = slider.value; redraw(...divs); },
  });
  const figure = (side) => (self) => {
    const part = experiment.parts[state.part];
    const { size, edge, x, y, pixels } = part.pictures;
    const method = chosen[side];
    const colours = data.plane[root.dataset.theme];
    const rows = [];
    for (let row = 0; row < size; row += 1) {
      const start = ((method * part.runs + run) * size + row) * size;
      rows.push(Array.from(pixels.slice(start, start + size), (v) => parseInt(v, data.levels) / (data.levels - 1)));
    }
    const axis = Array.from({ length: size }, (_, i) => -edge + (2 * edge * i) / (size - 1));
    const traces = [{
      type: "heatmap", z: rows, x: axis, y: axis, zmin: 0, zmax: 1, showscale: false,
      colorscale: [[0, colours.low], [0.5, colours.middle], [1, colours.high]], zsmooth: "best",
      hovertemplate: "(%{x:.2f}, %{y:.2f}): probability %{z:.2f}<extra></extra>",
    }, {
      type: "contour", z: rows, x: axis, y: axis, autocontour: false, showscale: false, hoverinfo: "skip",
      contours: { start: 0.5, end: 0.5, size: 1, coloring: "none" }, line: { color: colours.boundary, width: 1.5 },
    }];
    if (points) {
      const set = Math.min(run, x.length - 1);
      const small = self.clientWidth < 420 || x[set].length > 300;
      for (const label of [0, 1]) {
        const mine = x[set].filter((_, k) => y[set][k] === label);
        traces.push({
          type: "scatter", mode: "markers", x: mine.map((p) => p[0]), y: mine.map((p) => p[1]), hoverinfo: "skip",
          marker: {
            color: colours.points[label], symbol: ["circle", "square"][label], size: small ? 6 : 8,
            line: { color: colours.outline, width: 1 },
          },
        });
      }
    }
    const accuracy = part.values["test accuracy"][method][run];
    const bare = { visible: false, range: [-edge, edge] };
    const text = accuracy === null ? "not finite" : `${accuracy.toFixed(1)} % of test points right`;
    return {
      traces,
      layout: {
        margin: { l: 4, r: 4, t: 28, b: 4 }, xaxis: bare, yaxis: { ...bare, scaleanchor: "x" },
        title: { text, font: { size: 13 }, y: 0.985, yanchor: "top" },
      },
    };
  };
  const divs = [0, 1].map((side) => plot(`${experiment.name}-boundary-${side}`, figure(side)));
  const node = card(
    "Decision boundaries, with the points they were trained on",
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
  let across = 0;
  const div = plot(`${experiment.name}-gradients`, () => {
    const part = experiment.parts[state.part];
    const { edge, mean: values } = part.gradients;
    const points = values[0][0].length;
    const x = Array.from({ length: points }, (_, i) => -edge + (2 * edge * i) / (points - 1));
    const traces = part.methods.map(plain).map((name, i) => ({
      type: "scatter", mode: "lines", name, meta: i, x, y: values[i][across],
      line: line(part.looks[i], i === state.focus ? 3 : 1.5),
      hovertemplate: "%{x:.2f}: %{y:.3g}<extra>" + name + "</extra>",
    }));
    const titles = ["x, at y = 0", "y, at x = 0"];
    return {
      traces: traces.filter((_, i) => !state.hidden.has(i)),
      layout: { xaxis: { title: { text: titles[across] } }, yaxis: { title: { text: "|gradient of the prediction|" } } },
    };
  });
  const node = card("How sharp transitions are, mean over runs",
    choice("line", ["along y = 0", "along x = 0"], (i) => { across = i; redraw(div); }));
  node.append(div, legend(experiment, state));
  focusable(div, state);
  state.divs.push(div);
  return node;
};

// Points, not lines: neighbouring weights have little to do with each other. The method in focus has bars from its
// smallest number to its largest. Orthogonal weights have singular values of 1, which a line marks.
const weightsCard = (experiment, state, kind, what, title, hint, mark) => {
  let which = 1;
  const div = plot(`${experiment.name}-${kind}`, (self) => {
    const part = experiment.parts[state.part];
    const { layers, lines: [smallest, middle, largest] } = part[kind];
    const shown = [smallest, middle, largest][which];
    const traces = [];
    part.methods.map(plain).forEach((name, i) => {
      if (state.hidden.has(i) || !finite(shown[i]).length) return;
      const inFocus = i === state.focus;
      const reach = (from, to) => from.map((v, k) => (v === null || to[k] === null ? null : to[k] - v));
      traces.push({
        type: "scatter", mode: "markers", name, meta: i, text: layers.map(plain),
        x: layers.map((_, k) => k + beside(i, part.methods.length, 0.7)), y: shown[i],
        marker: marker(part.looks[i], inFocus ? 7 : 5),
        error_y: {
          type: "data", symmetric: false, visible: inFocus, thickness: 1.5, width: 0,
          array: reach(shown[i], largest[i]), arrayminus: reach(smallest[i], shown[i]),
        },
        hovertemplate: "%{text}: %{y:.3g}<extra>" + name + "</extra>",
      });
    });
    const step = Math.ceil(layers.length / Math.max(3, Math.floor(self.clientWidth / 80)));
    const tickvals = layers.map((_, k) => k).filter((k) => k % step === 0);
    const ticktext = tickvals.map((k) => plain(layers[k].replace(/\.weight$/, "")));
    const along = self.clientWidth < 500 ? "weights" : "weights from input to output";
    const few = along + (step > 1 ? `, one in ${step} named` : "");
    const xaxis = { tickvals, ticktext, tickangle: -40, tickfont: { size: 11 }, title: { text: few }, showgrid: false };
    const seen = traces.flatMap(({ meta: i }) => (i === state.focus ? [smallest[i], largest[i]] : [shown[i]])).flat();
    const yaxis = { type: "log", title: { text: `${what}, log scale` }, ...logTicks(seen) };
    const one = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: css("--soft"), width: 1 } };
    return { traces, layout: { xaxis, yaxis, shapes: mark ? [one] : [] }, height: 460 };
  });
  const node = card(title, choice("which", data.quantiles, (i) => { which = i; redraw(div); }, which));
  node.append(div, legend(experiment, state), make("p", { class: "soft" }, hint));
  focusable(div, state);
  state.divs.push(div);
  return node;
};

const spectraCard = (experiment, state) => weightsCard(
  experiment, state, "spectra", "singular value", "Singular values of every weight in the end, mean over runs",
  "The method in focus has bars from its smallest to its largest singular value; orthogonal weights have 1.", true);

const normsCard = (experiment, state) => weightsCard(
  experiment, state, "norms", "norm of a row", "Norms of the rows of every weight in the end, mean over runs",
  "The method in focus has bars from its smallest row to its largest.", false);
