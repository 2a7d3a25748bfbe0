// ---- the page: data, cards in their places, the theme ----------------------------------------------

let data; // what plot_data.py made

const unpack = (id) => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

// The picture that shows the claim best stands before the claims, the others after them.
const lay = (experiment) => {
  const [best, rest] = ["best", "plots"].map((kind) =>
    document.querySelector(`[data-${kind}="${CSS.escape(experiment.name)}"]`));
  const state = newState(experiment);
  const [first] = experiment.parts;
  const cards = {
    parts: experiment.parts.length > 1 && partsCard,
    boundaries: first.pictures && boundaryCard,
    curves: curvesCard,
    runs: runsCard,
    gradients: first.gradients && gradientCard,
    spectra: first.spectra && spectraCard,
    norms: first.norms && normsCard,
  };
  best.append(cards[experiment.best](experiment, state));
  if (experiment.parts.length > 1) {
    const names = experiment.parts.map((part) => part.name);
    const show = (i) => { state.part = i; redraw(...state.divs); };
    rest.append(make("div", { class: "controls" }, make("label", {}, "show", choice("setting", names, show, state.part))));
  }
  for (const [kind, build] of Object.entries(cards)) {
    if (build && kind !== experiment.best) rest.append(build(experiment, state));
  }
};

const followTheme = () => {
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
};

(async () => {
  followTheme();
  const library = document.createElement("script");
  library.textContent = await unpack("plotly");
  document.head.append(library);
  data = JSON.parse(await unpack("data"));
  data.experiments.forEach(lay);
  drawAll();
})();
