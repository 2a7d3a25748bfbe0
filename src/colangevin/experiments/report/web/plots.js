// ---- plots: how they look, when they are drawn ---------------------------------------------------

const plots = new Map(); // div -> function that makes its figure

const layout = (extra) => {
  const grid = css("--line");
  const axis = { ticks: "", gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true };
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
  const figure = plots.get(div)(div);
  if (figure.height) div.style.height = `${figure.height}px`;
  return Plotly.react(div, figure.traces, layout(figure.layout), { displayModeBar: false });
};

// A plot keeps the size it was drawn in; its card may have changed since.
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

// One plot at a time, from above, so that the page answers while the later ones are drawn.
const drawAll = () => {
  const waiting = [...plots.keys()].sort((a, b) => (a.compareDocumentPosition(b) & 4 ? -1 : 1));
  const next = () => {
    const div = waiting.shift();
    if (!div) return;
    div.dataset.drawn = "yes";
    draw(div);
    div.on("plotly_hover", ({ points }) => div.onfocusmethod?.(points[0].data.meta));
    setTimeout(next);
  };
  next();
};

// Narrow plots have room for shorter names on their axes.
const lettersFor = (div) => (div.clientWidth < 500 ? 14 : 26);
const faint = (hex) => hex + "30";
const line = (look, width) => ({ color: look.colour, dash: look.dash, width });
// A method whose lines are dashed or dotted has other points too.
const marker = (look, size) => ({
  color: look.colour, size, symbol: { solid: "circle", dash: "circle-open", dot: "cross" }[look.dash],
});
// Ticks of a logarithmic axis with numbers that can be read: 0.5, not 5 between two powers of ten.
const logTicks = (values) => {
  const logs = finite(values).filter((v) => v > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs)), high = Math.ceil(Math.max(...logs));
  const tickvals = [];
  for (let k = low; k <= high; k += 1) for (const m of high - low > 3 ? [1] : [1, 2, 5]) tickvals.push(m * 10 ** k);
  return { tickvals, ticktext: tickvals.map((v) => String(Number(v.toPrecision(1)))) };
};
