// Stands behind a page's own scripts: checks the page as a reader would use it, and writes what is wrong into it.
"use strict";
let checks = 0;
function check(ok, text) {
  checks++;
  if (!ok) problems.push(text);
}
const one = selector => document.querySelector(selector);
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));

// ---- colours: WCAG 2's contrast; differences (CIE76) as people with each kind of colour blindness see them (Machado, Oliveira and
// Fernandes 2009, severity 1)
const kinds = ["loops", "matmul", "conv", "attention", "library", "backend", "interpreter", "control", "plan"];
function rgbOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  check(/^#[0-9a-f]{6}$/i.test(text), `--${name} is no colour: '${text}'`);
  return [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16) / 255);
}
const linear = rgb => rgb.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const luminance = rgb => { const [r, g, b] = linear(rgb); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
function contrast(a, b) {
  const [x, y] = [luminance(rgbOf(a)), luminance(rgbOf(b))].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}
const blindness = {
  normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
function lab(rgb, m) {
  const c = linear(rgb), seen = [0, 3, 6].map(i => Math.min(1, Math.max(0, m[i] * c[0] + m[i + 1] * c[1] + m[i + 2] * c[2])));
  const [r, g, b] = seen, f = t => t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116;
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505), y = f(0.2126 * r + 0.7152 * g + 0.0722 * b), z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
function checkColours(theme) {
  for (const back of ["panel", "raised", "selected", "page"])
    for (const text of ["text", "soft", "accent", "bad"]) {
      const c = contrast(text, back);
      check(c >= 4.5, `${theme}: contrast of ${text} on ${back} is ${c.toFixed(2)}`);
    }
  for (const mark of [...kinds, "bar"]) {
    const c = contrast(mark, "panel");
    check(c >= 4.5, `${theme}: contrast of ${mark} is ${c.toFixed(2)}`);
  }
  for (const [name, m] of Object.entries(blindness))
    for (const a of kinds) for (const b of kinds) {
      if (a >= b) continue;
      const x = lab(rgbOf(a), m), y = lab(rgbOf(b), m), d = Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
      check(d >= 10, `${theme}: ${a} and ${b} look alike to ${name} vision: ${d.toFixed(1)}`);
    }
}
function checkThemes() {
  const first = document.documentElement.dataset.theme;
  checkColours(first);
  one("#theme").click();
  check(document.documentElement.dataset.theme !== first, "the theme does not change");
  checkColours(document.documentElement.dataset.theme);
  one("#theme").click();
}

// ---- for those who do not see or use a mouse
function checkNames() {
  for (const e of document.querySelectorAll("button, input, [role=application], [role=grid], table, section, [role=img]")) {
    const name = e.getAttribute("aria-label") || (e.tagName === "BUTTON" ? e.textContent.trim() : "");
    check(name, `no name: ${e.outerHTML.slice(0, 80)}`);
  }
  const rules = [...document.styleSheets].flatMap(s => [...s.cssRules]);
  check(rules.some(r => r.selectorText === ":focus-visible" && parseInt(r.style.outlineWidth) >= 2), "no ring around what has the focus");
  check(document.documentElement.lang && document.title, "no language or title");
  check(document.querySelectorAll("h1").length === 1, "not one h1");
}
function checkAlone() {
  check(performance.getEntriesByType("resource").length === 0, "something is loaded");
  check(!one("[src], link, iframe, object, embed"), "something is to be loaded");
}

// ---- explain
function checkExplain() {
  const selected = () => [...document.querySelectorAll('#steps tr[aria-selected="true"]')].map(r => r.dataset.step);
  const rowsNow = () => [...document.querySelectorAll("#steps tbody tr[data-step]")];
  const count = () => Number(one("#steps").getAttribute("aria-rowcount")) - 1; // without the head
  const agrees = what => {
    const [number] = selected();
    check(selected().length === 1, `${what}: ${selected().length} rows are selected`);
    check(hashOf("step") === number, `${what}: the address says ${location.hash}, the table ${number}`);
    check(one("#details h2").textContent.startsWith(`Step ${number} `), `${what}: details are of ${one("#details h2").textContent}`);
    check(document.querySelectorAll(".node.selected").length === 1, `${what}: the graph does not show it`);
    check(document.querySelectorAll('#steps tr[tabindex="0"]').length === 1, `${what}: Tab has not one way in`);
  };
  check(rowsNow().length > 0 && count() === data.steps.length, "not all steps are in the table");
  check(rowsNow().length <= 200, `${rowsNow().length} rows are drawn at once`);
  agrees("at first");
  const table = one("#steps");
  press(table, "Home"), agrees("Home");
  check(selected()[0] === String(data.steps[0].number), "Home is not the first step");
  press(table, "ArrowDown"), agrees("ArrowDown");
  check(data.steps.length < 2 || selected()[0] === String(data.steps[1].number), "ArrowDown is not the next");
  check(document.activeElement?.dataset.step === selected()[0], "the row has not the focus");
  press(table, "End"), agrees("End");
  press(table, "Enter");
  check(document.activeElement === one("#details"), "Enter does not go to the details");
  press(table, "Home");
  press(document.body, "/");
  check(document.activeElement === one("#search"), "/ does not search");
  const search = one("#search");
  search.value = `${data.steps[0].kind} ${data.steps[0].number}`, search.dispatchEvent(new Event("input"));
  check(count() > 0 && count() <= data.steps.length, `a search finds ${count()} steps`);
  search.value = "no such step", search.dispatchEvent(new Event("input"));
  check(rowsNow().length === 0, "a search finds what is not there");
  search.value = "", search.dispatchEvent(new Event("input"));
  const time = [...document.querySelectorAll("#steps th")].find(t => t.textContent.startsWith("Time"));
  time.querySelector("button").click();
  check(time.getAttribute("aria-sort") === "ascending", "aria-sort");
  const order = rowsNow().map(r => data.steps.find(s => String(s.number) === r.dataset.step).us || 0);
  check(order.every((t, i) => i === 0 || t <= order[i - 1]), "not sorted by time");
  document.querySelector("#steps th button").click();
  checkGraph(selected, agrees);
  location.hash = "#step=" + data.steps[data.steps.length - 1].number;
  window.dispatchEvent(new Event("hashchange"));
  check(selected()[0] === String(data.steps[data.steps.length - 1].number), "the address selects nothing");
}
function checkGraph(selected, agrees) {
  const box = one("#graph");
  select(data.steps.findIndex(s => s.owner < 0));
  const before = selected()[0];
  press(box, "ArrowDown"), agrees("ArrowDown in the graph");
  const next = data.graph.edges.some(([from]) => data.steps[from] && String(data.steps[from].number) === before);
  if (next) check(selected()[0] !== before || data.steps.length < 3, "ArrowDown in the graph goes nowhere");
  press(box, "ArrowUp"), agrees("ArrowUp in the graph");
  const node = one(".node:not(.selected)[data-step]");
  if (node) {
    node.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    check(selected()[0] === node.dataset.step, "a click in the graph selects nothing");
    agrees("a click in the graph");
  }
  check(document.querySelectorAll(".node").length <= 400, `${document.querySelectorAll(".node").length} nodes are drawn at once`);
  for (const [id, x, y] of data.graph.nodes) check(x >= 0 && y >= 0 && x + data.graph.node_width <= data.graph.width && y + data.graph.node_height <= data.graph.height, `node ${id} is outside`);
  const places = new Map();
  for (const [id, x, y] of data.graph.nodes) {
    for (const other of places.get(y) || []) check(Math.abs(other - x) >= data.graph.node_width, `node ${id} covers another`);
    places.set(y, [...(places.get(y) || []), x]);
  }
  const heights = new Map(data.graph.nodes.map(([id, x, y]) => [id, y]));
  for (const [from, to] of data.graph.edges) check(heights.get(from) < heights.get(to), `the edge from ${from} to ${to} goes up`);
}

// ---- bench
function checkBench() {
  const selected = () => document.querySelectorAll('#steps tr[aria-selected="true"]');
  check(selected().length === 1 && one("#chosen").textContent.includes("Step "), "no step is chosen");
  const first = hashOf("step");
  press(one("#steps"), "ArrowDown");
  check(selected().length === 1 && (steps.length < 2 || hashOf("step") !== first), "ArrowDown chooses no other step");
  if (marked.length > 1) {
    press(one("#roofline"), "ArrowLeft"), press(one("#roofline"), "ArrowLeft");
    const now = hashOf("step");
    press(one("#roofline"), "ArrowRight");
    check(hashOf("step") !== now, "ArrowRight does not move on the roofline");
    check(document.querySelectorAll(".mark").length === marked.length && document.querySelectorAll(".mark.selected").length === 1, "marks");
  }
  check(document.querySelectorAll(".roof").length >= 1, "no roof");
  check(data.percentiles.every(([, v], i) => i === 0 || v >= data.percentiles[i - 1][1]), "percentiles are not in order");
  check(document.querySelectorAll('table[aria-label="History"] tbody tr').length === data.history.length, "history");
}

try {
  checkThemes();
  checkNames();
  checkAlone();
  if (one("#explain")) checkExplain();
  else checkBench();
} catch (e) {
  problems.push(`the self-test failed: ${e.stack}`);
}
const result = document.createElement("pre");
result.id = "selftest";
result.textContent = problems.length ? problems.slice(0, 40).join("\n") : `fine: ${checks} checks`;
document.body.append(result);
