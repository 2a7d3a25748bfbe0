"use strict";

// ---- elements ------------------------------------------------------------------------------------

const root = document.documentElement;

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

const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// ---- text ----------------------------------------------------------------------------------------

// Plotly reads tags, entities, %{...} and $formulas$ in what it shows.
const plain = (text) => text.replace(/[&<>%$]/g, (c) => `&#${c.charCodeAt(0)};`);

// A name in lines of about so many letters, for an axis.
const wrapped = (text, letters) => {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.length - 1;
    if (lines[last] && lines[last].length + word.length >= letters) lines.push(word);
    else lines[last] = (lines[last] + " " + word).trim();
  }
  return lines.map(plain).join("<br>");
};

// ---- numbers -------------------------------------------------------------------------------------

const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const deviation = (values) => {
  if (values.length < 2) return 0;
  const m = mean(values);
  return Math.sqrt(values.reduce((a, b) => a + (b - m) ** 2, 0) / (values.length - 1));
};
const times = (value, factor) => (value === null ? null : value * factor);
// Where one of several stands beside the others, around 0.
const beside = (turn, count, width) => width * ((turn + 0.5) / count - 0.5);
