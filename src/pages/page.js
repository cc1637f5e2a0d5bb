// What both pages use: elements, numbers as texts, the theme.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

/** An element: attributes, listeners ("onclick"), children that are elements or texts. Null children are left out. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.entries(value).forEach(([k, v]) => element.style.setProperty(k, v));
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
  return element;
}

// ---- numbers
function digits(value, count = 3) {
  if (value === 0) return "0";
  if (value >= 1000) return value.toFixed(0);
  return String(Number(value.toPrecision(count)));
}
function scaled(value, units, step = 1000) {
  let u = 0;
  while (value >= step && u + 1 < units.length) value /= step, u++;
  return digits(value) + " " + units[u];
}
const timeText = us => us === 0 ? "0" : us < 1 ? digits(us * 1000) + " ns" : scaled(us, ["µs", "ms", "s"]);
const bytesText = bytes => scaled(bytes, ["B", "kB", "MB", "GB", "TB"]);
const flopsText = flops => scaled(flops, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]);
const percent = share => (100 * share).toFixed(share < 0.1 ? 1 : 0) + "%";

// ---- theme: the system's until somebody chooses
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(prefersDark.matches);
prefersDark.addEventListener("change", e => setTheme(e.matches));
function themeButton() {
  const dark = () => document.documentElement.dataset.theme === "dark";
  const name = () => dark() ? "Light colours" : "Dark colours";
  const button = make("button", {id: "theme", onclick: () => { setTheme(!dark()); button.textContent = name(); }}, name());
  return button;
}

// ---- the hash of the URL: what is selected, so that a link to the page shows it
function hashOf(key) {
  return new URLSearchParams(location.hash.slice(1)).get(key);
}
function setHash(key, value) {
  try {
    history.replaceState(null, "", `#${key}=${value}`);
  } catch (e) { /* documents without an address of their own, as in notebooks */ }
}

// ---- steps
const kindLabel = kind => make("span", {class: "kind", style: {"--kind": `var(--${kind})`}}, kind);
/** The file without its folders, which details show. */
const sourceText = step => step.source.length === 0 ? "" :
    (step.source[0].file ? step.source[0].file.replace(/^.*\//, "") + (step.source[0].line ? ":" + step.source[0].line : "") : "") +
    (step.source[0].module ? " " + step.source[0].module : "");
/** Operators without the word that the kind says already. */
const operatorsText = step => step.operators.replace(/^(loops|matmul|conv|attention): /, "");
function figure(value, label) {
  return make("div", {}, make("b", {}, value), make("span", {}, label));
}
function machineText(machine) {
  if (!machine.gbytes_per_s) return machine.cpu;
  return [machine.cpu || "this machine", machine.threads + (machine.threads === 1 ? " thread" : " threads"),
    digits(machine.gbytes_per_s) + " GB/s"].concat(machine.peaks.map(p => `${p.kernels} ${digits(p.gflops)} GFLOP/s`)).join(" · ");
}
