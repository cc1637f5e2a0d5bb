// `tenon bench`: steps on the machine's roofline, latencies, earlier runs.
const {figures, explanation} = data;
const machine = explanation.machine;
const steps = explanation.steps.filter(s => s.calls > 0 && s.kind !== "control").map(s => ({...s,
  gflops: s.flops / Math.max(s.us * 1e3, 1e-3), gbytes: s.bytes / Math.max(s.us * 1e3, 1e-3), intensity: s.bytes > 0 ? s.flops / s.bytes : 0}));
const ms = v => timeText(v * 1000);

// ---- drawing on axes
class Axes {
  /** `x` and `y`: {low, high, title, text(value), log}. */
  constructor(x, y, label, height, width = 620) {
    Object.assign(this, {x, y, width, height, left: 62, right: 14, top: 12, bottom: 46});
    this.content = makeSvg("g");
    this.svg = makeSvg("svg", {viewBox: `0 0 ${this.width} ${height}`, width: "100%", role: "img", "aria-label": label}, this.frame(), this.content);
  }
  at(axis, value) {
    const f = axis.log ? Math.log : v => v;
    return (f(value) - f(axis.low)) / (f(axis.high) - f(axis.low) || 1);
  }
  px(value) { return this.left + (this.width - this.left - this.right) * this.at(this.x, value); }
  py(value) { return this.height - this.bottom - (this.height - this.top - this.bottom) * this.at(this.y, value); }
  ticks(axis) {
    const list = [];
    if (axis.log) {
      const decades = Math.log10(axis.high / axis.low), steps = decades > 2.5 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
      for (let e = Math.floor(Math.log10(axis.low)); e <= Math.ceil(Math.log10(axis.high)); e++) for (const m of steps) list.push(m * 10 ** e);
    } else {
      const rough = (axis.high - axis.low) / 5 || 1, unit = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map(m => m * unit).find(s => s >= rough);
      for (let v = Math.ceil(axis.low / step) * step; v <= axis.high + step * 1e-6; v += step) list.push(v);
    }
    return list.filter(v => v >= axis.low * (1 - 1e-9) - 1e-12 && v <= axis.high * (1 + 1e-9));
  }
  frame() {
    const {left, right, top, bottom, width, height} = this, g = makeSvg("g");
    for (const v of this.ticks(this.x)) g.append(makeSvg("line", {class: "grid", x1: this.px(v), x2: this.px(v), y1: top, y2: height - bottom}),
        makeSvg("text", {class: "soft", x: this.px(v), y: height - bottom + 16, "text-anchor": "middle"}, this.x.text(v)));
    for (const v of this.ticks(this.y)) g.append(makeSvg("line", {class: "grid", x1: left, x2: width - right, y1: this.py(v), y2: this.py(v)}),
        makeSvg("text", {class: "soft", x: left - 6, y: this.py(v) + 4, "text-anchor": "end"}, this.y.text(v)));
    g.append(makeSvg("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}),
        makeSvg("line", {class: "axis", x1: left, x2: left, y1: top, y2: height - bottom}),
        makeSvg("text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, this.x.title),
        makeSvg("text", {transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"}, this.y.title));
    return g;
  }
  path(points) { return points.map(([x, y], i) => `${i ? "L" : "M"}${this.px(x)} ${this.py(y)}`).join(""); }
}

// ---- the roofline
const marked = steps.filter(s => s.flops > 0 && s.bytes > 0);
let chosen = null;
const marks = new Map(), stepRows = new Map();
function roofline() {
  const peak = Math.max(0, ...machine.peaks.map(p => p.gflops)), bandwidth = machine.gbytes_per_s;
  if (!marked.length || !bandwidth) return make("p", {class: "soft"}, "No step with arithmetic was timed.");
  const range = (list, room) => ({low: Math.min(...list) / room, high: Math.max(...list) * room, log: true, text: v => digits(v, 2)});
  const x = {...range(marked.map(s => s.intensity).concat(peak ? peak / bandwidth : 1), 2.2), title: "FLOP for each byte that must move"};
  const y = {...range(marked.map(s => s.gflops).concat(peak || bandwidth), 2), title: "GFLOP/s"};
  const axes = new Axes(x, y, "Roofline of the machine with the program's steps on it", 430, 1120);
  const top = peak || Infinity, ridge = top / bandwidth;
  const slope = v => v * bandwidth, x0 = Math.max(x.low, y.low / bandwidth), x1 = Math.min(ridge, x.high, y.high / bandwidth);
  if (x1 > x0) axes.content.append(makeSvg("path", {class: "roof", d: axes.path([[x0, slope(x0)], [x1, slope(x1)]])}),
      makeSvg("text", {class: "soft", x: axes.px(Math.sqrt(x0 * x1)) + 10, y: axes.py(slope(Math.sqrt(x0 * x1))) + 14}, `${digits(bandwidth)} GB/s`));
  for (const p of machine.peaks) {
    const from = p.gflops / bandwidth;
    if (from < x.high) axes.content.append(makeSvg("path", {class: "roof", d: axes.path([[Math.max(from, x.low), p.gflops], [x.high, p.gflops]])}),
        makeSvg("text", {class: "soft", x: axes.px(x.high) - 4, y: axes.py(p.gflops) - 6, "text-anchor": "end"}, `${p.kernels}: ${digits(p.gflops)} GFLOP/s`));
  }
  for (const s of [...marked].sort((a, b) => b.share - a.share)) {
    const mark = makeSvg("circle", {class: "mark", cx: axes.px(s.intensity), cy: axes.py(s.gflops), r: 4 + 12 * Math.sqrt(s.share), style: {"--kind": `var(--${s.kind})`},
      "data-step": s.number, onclick: () => choose(s)}, makeSvg("title", {}, `${s.number} ${s.operators}`));
    marks.set(s, mark);
    axes.content.append(mark);
  }
  const by = [...marked].sort((a, b) => a.intensity - b.intensity);
  const key = e => {
    const to = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[e.key];
    if (!to) return;
    e.preventDefault();
    choose(by[Math.min(by.length - 1, Math.max(0, by.indexOf(chosen) + to))]);
  };
  const kinds = [...new Set(marked.map(s => s.kind))];
  return make("div", {}, make("div", {tabindex: "0", id: "roofline", role: "application", onkeydown: key, "aria-label": "Steps on the roofline: left and right go to the next by intensity"}, axes.svg),
      make("div", {class: "legend"}, kinds.map(kindLabel), make("span", {class: "soft"}, "Areas: shares of time. Steps above the slope read from caches.")));
}
const chosenText = make("div", {role: "status", "aria-live": "polite", id: "chosen"});
function choose(s) {
  marks.get(chosen)?.classList.remove("selected");
  stepRows.get(chosen)?.setAttribute("aria-selected", "false");
  chosen = s;
  const mark = marks.get(s);
  if (mark) mark.classList.add("selected"), mark.parentNode.append(mark);
  stepRows.get(s)?.setAttribute("aria-selected", "true");
  setHash("step", s.number);
  chosenText.replaceChildren(make("p", {}, make("b", {}, `Step ${s.number} `), kindLabel(s.kind), ` ${timeText(s.us)}, ${percent(s.share)} of the time: `,
      s.flops ? `${digits(s.gflops)} GFLOP/s, ` : "", `${digits(s.gbytes)} GB/s` + (s.times_bound ? `, ${digits(Math.min(100, 100 / s.times_bound))}% of what the machine's limits allow.` : ".")),
      make("p", {}, make("code", {}, operatorsText(s))), make("p", {class: "soft"}, sourceText(s)));
}
function stepTable() {
  const list = [...steps].sort((a, b) => b.share - a.share);
  const most = Math.max(1e-9, ...list.map(s => s.share));
  const row = s => {
    const r = make("tr", {tabindex: list[0] === s ? "0" : "-1", "aria-selected": "false", onclick: () => choose(s)},
        make("td", {class: "number"}, s.number), make("td", {}, make("div", {class: "bar"}, make("span", {}, percent(s.share)), make("i", {style: {width: 46 * s.share / most + "px"}}))),
        make("td", {class: "number"}, timeText(s.us)), make("td", {class: "number"}, digits(s.gflops)), make("td", {class: "number"}, digits(s.gbytes)),
        make("td", {class: "number"}, s.times_bound ? digits(100 / s.times_bound) + "%" : ""), make("td", {}, kindLabel(s.kind)), make("td", {class: "cut"}, operatorsText(s)), make("td", {class: "cut"}, sourceText(s)));
    stepRows.set(s, r);
    return r;
  };
  const key = e => {
    const now = list.indexOf(chosen), to = {ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: list.length - 1}[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const s = list[Math.min(list.length - 1, Math.max(0, to))];
    for (const r of stepRows.values()) r.tabIndex = -1;
    choose(s), stepRows.get(s).tabIndex = 0, stepRows.get(s).focus();
  };
  const head = ["Step", "Share", "Time", "GFLOP/s", "GB/s", "Of the bound", "Kind", "Operators", "Source"];
  return make("div", {class: "scroll", style: {"max-height": "440px"}}, make("table", {role: "grid", "aria-label": "Steps by time", id: "steps", onkeydown: key},
      make("thead", {}, make("tr", {}, head.map((t, i) => make("th", {scope: "col", class: "plain" + (i < 1 || (i > 1 && i < 6) ? " number" : ""), style: i > 6 ? {width: i === 7 ? "30%" : "22%"} : {}}, t)))), make("tbody", {}, list.map(row))));
}

// ---- latencies
function histogram() {
  const bins = data.histogram, high = Math.max(1, ...bins.map(b => b[1])), step = bins[1][0] / bins[0][0];
  const axes = new Axes({low: bins[0][0], high: bins[bins.length - 1][0] * step, log: true, title: "Time of a run", text: ms},
      {low: 0, high, title: "Runs", text: v => digits(v)}, "How many runs took how long", 260);
  for (const [from, n] of bins) if (n) axes.content.append(makeSvg("rect", {class: "column", x: axes.px(from), width: Math.max(1, axes.px(from * step) - axes.px(from) - 1),
    y: axes.py(n), height: axes.py(0) - axes.py(n)}, makeSvg("title", {}, `${ms(from)} to ${ms(from * step)}: ${n} runs`)));
  return axes.svg;
}
function percentiles() {
  const name = p => p === 0 ? "least" : p === 1 ? "most" : p === 0.5 ? "median" : `p${digits(p * 100)}`;
  return make("table", {"aria-label": "Percentiles of the times of runs"}, make("thead", {}, make("tr", {}, data.percentiles.map(([p]) => make("th", {scope: "col", class: "plain number"}, name(p))))),
      make("tbody", {}, make("tr", {}, data.percentiles.map(([, v]) => make("td", {class: "number"}, ms(v))))));
}
function overTime() {
  const list = data.times, sorted = [...list].sort((a, b) => a - b), high = sorted[Math.floor(sorted.length * 0.995)] * 1.05;
  const axes = new Axes({low: 0, high: list.length - 1 || 1, title: figures.runs > list.length ? `Runs in order, ${list.length} of ${figures.runs}` : "Runs in order", text: v => digits(v)},
      {low: 0, high, title: "Time", text: v => v ? ms(v) : "0"}, "Times of runs in their order", 260);
  axes.content.append(makeSvg("path", {class: "curve", d: axes.path(list.map((v, i) => [i, Math.min(v, high)]))}));
  return axes.svg;
}

// ---- history
function history_() {
  const list = data.history;
  if (!list.length) return make("p", {class: "soft"}, "None: bench --history FILE keeps figures of each time.");
  const high = Math.max(...list.map(h => h.p90_ms)) * 1.1;
  const axes = new Axes({low: 0, high: Math.max(1, list.length - 1), title: "Times that bench was run", text: v => Number.isInteger(v) && list[v] ? list[v].time.slice(0, 10) : ""},
      {low: 0, high, title: "Time of a run", text: v => v ? ms(v) : "0"}, "Median and 90th percentile each time that bench was run", 280, 1120);
  axes.content.append(makeSvg("path", {class: "curve", d: axes.path(list.map((h, i) => [i, h.median_ms]))}),
      makeSvg("path", {class: "curve", "stroke-dasharray": "4 4", d: axes.path(list.map((h, i) => [i, h.p90_ms]))}),
      list.map((h, i) => makeSvg("circle", {class: "dot", cx: axes.px(i), cy: axes.py(h.median_ms), r: 4}, makeSvg("title", {}, `${h.time}: ${ms(h.median_ms)}`))));
  const head = ["When", "Median", "Least", "p90", "p99", "Load", "Compile", "First result"];
  const row = h => make("tr", {}, make("td", {}, h.time.replace("T", " ").replace("Z", "")), [h.median_ms, h.min_ms, h.p90_ms, h.p99_ms, h.load_ms, h.compile_ms, h.first_result_ms]
      .map(v => make("td", {class: "number"}, ms(v))));
  return make("div", {}, axes.svg, make("p", {class: "soft"}, "Whole line: median; broken: 90th percentile."), make("div", {class: "scroll", style: {"max-height": "260px"}},
      make("table", {"aria-label": "History"}, make("thead", {}, make("tr", {}, head.map((t, i) => make("th", {scope: "col", class: "plain" + (i ? " number" : "")}, t)))), make("tbody", {}, [...list].reverse().map(row)))));
}

// ---- the page
const panel = (title, ...content) => make("section", {class: "panel", "aria-label": title}, make("h2", {}, title), content);
document.getElementById("page").append(make("main", {id: "bench"},
    make("header", {class: "top"}, make("h1", {}, figures.program), make("span", {class: "grow"}), make("span", {class: "soft"}, machineText(machine)), themeButton()),
    make("section", {class: "panel", "aria-label": "Figures"}, make("div", {class: "figures"}, figure(ms(figures.median_ms), "median run"), figure(ms(figures.min_ms), "least"), figure(ms(figures.p99_ms), "p99"),
        figure(figures.runs, "runs"), figure(ms(figures.load_ms), "load"), figure(ms(figures.compile_ms), "compile"), figure(ms(figures.first_result_ms), "start of the process to first result"),
        figure(digits(figures.peak_rss_mb) + " MB", "resident at most"), figure(figures.fallback_steps, "steps in the interpreter"))),
    panel("Roofline", roofline(), chosenText), panel("Steps", stepTable()),
    make("div", {class: "two"}, panel("Latencies", histogram(), make("div", {class: "scroll"}, percentiles())), panel("In order", overTime())), panel("History", history_())));
function chooseFromHash() {
  const s = steps.find(x => String(x.number) === hashOf("step"));
  if (s && s !== chosen) choose(s);
}
window.addEventListener("hashchange", chooseFromHash);
chooseFromHash();
if (!chosen && steps.length) choose([...steps].sort((a, b) => b.share - a.share)[0]);
