// `tenon explain`: the table of steps, their graph, and details of the one that is selected.
const timed = data.runs > 0;
const columns = [
  {key: "number", title: "Step", number: true, width: 58, cell: s => s.number, order: s => s.number},
  {key: "time", title: "Time", number: true, width: 76, cell: s => s.calls ? timeText(s.us) : "", order: s => -(s.us || 0), timed: true},
  {key: "share", title: "Share", width: 108, cell: shareCell, order: s => -(s.share || 0), timed: true},
  {key: "bound", title: "× bound", number: true, width: 82, cell: boundCell, order: s => -(s.times_bound || 0), timed: true,
    hint: "How many times the time that the machine's limits allow"},
  {key: "kind", title: "Kind", width: 116, cell: s => kindLabel(s.kind), order: s => s.kind},
  {key: "operators", title: "Operators", cell: s => operatorsText(s), order: s => operatorsText(s)},
  {key: "source", title: "Source", cell: s => sourceText(s), order: s => sourceText(s)},
  {key: "bytes", title: "Bytes", number: true, width: 78, cell: s => s.bytes ? bytesText(s.bytes) : "", order: s => -(s.bytes || 0), timed: true, wide: true},
  {key: "flops", title: "FLOP", number: true, width: 68, cell: s => s.flops ? scaled(s.flops, ["", "k", "M", "G", "T"]) : "", order: s => -(s.flops || 0), timed: true, wide: true},
].filter(c => timed || !c.timed);
const classOf = c => [c.number && "number", c.wide && "wide"].filter(Boolean).join(" ") || null;

const mostShare = Math.max(1e-9, ...data.steps.map(s => s.share || 0));
function shareCell(s) {
  if (!s.calls) return "";
  return make("div", {class: "bar"}, make("span", {}, percent(s.share)), make("i", {style: {width: 46 * s.share / mostShare + "px"}}));
}
function boundCell(s) {
  if (!s.times_bound) return "";
  return make("span", s.is_far ? {class: "bad", title: "far from its bound"} : {}, (s.is_far ? "! " : "") + digits(s.times_bound));
}

const state = {selected: null, search: "", kinds: new Set(), sort: "number", descending: false};
const isText = c => ["operators", "source"].includes(c.key);
/** Rows are made when they are first seen. */
const made = [];
function rowOf(i) {
  if (made[i]) return made[i];
  const s = data.steps[i];
  return made[i] = make("tr", {"data-step": s.number, tabindex: "-1", "aria-selected": "false", onclick: () => select(i)},
      columns.map(c => make("td", {class: classOf(c), title: isText(c) ? c.cell(s) : null,
        style: c.key === "operators" && s.depth ? {"padding-left": 8 + 16 * s.depth + "px"} : {}}, c.cell(s))));
}
const texts = data.steps.map(s => [s.number, s.kind, s.operators, s.code, s.detail, s.refused, ...s.source.flatMap(l => [l.module, l.file + ":" + l.line, l.function])]
    .join(" ").toLowerCase());

// ---- the table
function visible() {
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  const by = columns.find(c => c.key === state.sort).order;
  const list = data.steps.map((s, i) => i).filter(i => words.every(w => texts[i].includes(w)) && (!state.kinds.size || state.kinds.has(data.steps[i].kind)));
  const compare = (a, b) => { const x = by(data.steps[a]), y = by(data.steps[b]); return x < y ? -1 : x > y ? 1 : a - b; };
  if (state.sort !== "number" || state.descending) list.sort(state.descending ? (a, b) => compare(b, a) : compare);
  return list;
}
const body = make("tbody", {});
const count = make("span", {class: "soft", role: "status", id: "count"});
const heads = columns.map(c => make("th", {scope: "col", "aria-sort": "none", class: classOf(c), style: c.width ? {width: c.width + "px"} : {}},
    make("button", {title: c.hint, onclick: () => sortBy(c.key)}, c.title)));
let shown = [];
function refresh() {
  shown = visible();
  count.textContent = shown.length === data.steps.length ? `${shown.length} steps` : `${shown.length} of ${data.steps.length} steps`;
  table.setAttribute("aria-rowcount", shown.length + 1);
  columns.forEach((c, k) => {
    const direction = c.key !== state.sort ? "none" : state.descending ? "descending" : "ascending";
    heads[k].setAttribute("aria-sort", direction);
    heads[k].firstChild.textContent = c.title + (c.key !== state.sort ? "" : state.descending ? " ▾" : " ▴");
  });
  drawRows();
}
/** The rows in sight, and some beyond; room in the place of the others. */
const rowHeight = 26;
function drawRows() {
  const first = Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - 12);
  const last = Math.min(shown.length, Math.ceil((scroller.scrollTop + (scroller.clientHeight || 900)) / rowHeight) + 12);
  const room = rows => rows > 0 ? [make("tr", {class: "room", "aria-hidden": "true"}, make("td", {colspan: columns.filter(c => !c.wide).length, style: {height: rows * rowHeight + "px"}}))] : [];
  const rows = shown.slice(first, last).map((i, k) => {
    const r = rowOf(i);
    r.setAttribute("aria-rowindex", first + k + 2);
    r.tabIndex = i === state.selected || (k === 0 && !shown.slice(first, last).includes(state.selected)) ? 0 : -1; // where Tab enters
    return r;
  });
  const focused = document.activeElement;
  body.replaceChildren(...room(first), ...rows, ...room(shown.length - last));
  if (focused !== document.activeElement && body.contains(focused)) focused.focus({preventScroll: true});
}
/** Scrolls so that the row is there to see. */
function showRow(i) {
  const at = shown.indexOf(i);
  if (at < 0) return;
  const top = at * rowHeight, room = (scroller.clientHeight || 900) - 2 * rowHeight;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
}
function sortBy(key) {
  if (state.sort === key) state.descending = !state.descending;
  else state.sort = key, state.descending = false;
  refresh();
}
function tableKey(event) {
  const last = shown.length - 1, now = shown.indexOf(state.selected);
  const to = {ArrowDown: Math.min(now + 1, last), ArrowUp: Math.max(now - 1, 0), Home: 0, End: last,
    PageDown: Math.min(now + 15, last), PageUp: Math.max(now - 15, 0)}[event.key];
  if (event.key === "Enter" && now >= 0) return details.focus();
  if (to === undefined || last < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  select(shown[to]);
  rowOf(shown[to]).focus({preventScroll: true});
}
const table = make("table", {role: "grid", class: "fixed", "aria-label": "Steps", id: "steps", onkeydown: tableKey}, make("thead", {}, make("tr", {}, heads)), body);
const scroller = make("div", {class: "scroll", onscroll: () => drawRows()}, table);
new ResizeObserver(() => drawRows()).observe(scroller);
const search = make("input", {type: "search", id: "search", placeholder: "Search operators, kernels, source (/)", "aria-label": "Search steps",
  oninput: () => { state.search = search.value; refresh(); },
  onkeydown: e => { if (e.key === "ArrowDown" && shown.length) e.preventDefault(), select(shown[0]), rowOf(shown[0]).focus({preventScroll: true}); }});

// ---- details
const details = make("div", {class: "scroll", id: "details", tabindex: "0", role: "region", "aria-label": "Details of the selected step", "aria-live": "polite"});
const stepLink = i => make("button", {class: "link", onclick: () => select(i)}, "step " + data.steps[i].number);
const writers = new Map(), readers = new Map();
data.steps.forEach((s, i) => {
  for (const [uses, map] of [[s.writes, writers], [s.reads, readers]]) for (const b of uses) map.has(b) ? map.get(b).push(i) : map.set(b, [i]);
});
function bufferList(list, others) {
  if (list.length === 0) return make("p", {class: "soft"}, "none");
  return make("ul", {}, list.map(b => {
    const buffer = data.buffers[b], near = (others.get(b) || []).filter(i => i !== state.selected).slice(0, 6);
    return make("li", {}, make("code", {}, bufferText(buffer)), buffer.place === "temporary" ? "" : ` ${buffer.place}`,
        near.length ? [" · ", near.map((i, k) => [k ? ", " : "", stepLink(i)])] : "");
  }));
}
/** Why it takes as long as it does, in words. */
function why(s) {
  const list = [];
  if (s.refused) list.push(make("p", {class: "bad"}, "Refused: " + s.refused));
  if (s.kind === "interpreter") list.push(make("p", {class: "bad"}, "Runs in the interpreter: no code was generated for it."));
  if (!s.calls) return list.concat(timed ? make("p", {class: "soft"}, "It was not run with these inputs.") : []);
  const bound = Math.max(s.memory_us, s.arithmetic_us);
  if (bound > 0) {
    const by = s.arithmetic_us > s.memory_us ? `${flopsText(s.flops)} at the peak of its kernels` : `${bytesText(s.bytes)} at ${digits(data.machine.gbytes_per_s)} GB/s`;
    const text = s.times_bound < 1 ? `Faster than memory alone would allow (${timeText(bound)} for ${by}): what it reads is in caches.`
        : `The machine's limits allow ${timeText(bound)}: ${by}. It takes ${digits(s.times_bound)} times that.`;
    list.push(make("p", s.is_far ? {class: "bad"} : {}, text));
  }
  return list;
}
function showDetails(i) {
  if (i === null) return details.replaceChildren(make("p", {class: "soft"}, "Select a step in the table or the graph."));
  const s = data.steps[i];
  const facts = [["Operators", make("code", {}, s.operators)], ["Code", make("code", {}, s.code)]];
  if (s.detail) facts.push(["Last run", make("code", {}, s.detail)]);
  if (s.calls) {
    const ns = Math.max(s.us * 1e3, 1e-3);
    facts.push(["Time", `${timeText(s.us)} a call, ${percent(s.share)} of all steps; ${s.calls} calls`]);
    if (s.bytes) facts.push(["Moves", `${bytesText(s.bytes)}, ${digits(s.bytes / ns)} GB/s`]);
    if (s.flops) facts.push(["Computes", `${flopsText(s.flops)}, ${digits(s.flops / ns)} GFLOP/s`]);
  }
  if (s.owner >= 0) facts.push(["Run by", stepLink(s.owner)]);
  const source = s.source.map(l => make("li", {}, l.file ? make("code", {}, `${l.file}:${l.line}`) : "", l.function ? ` in ${l.function}` : "", l.module ? [" · module ", make("code", {}, l.module)] : ""));
  const reasons = why(s);
  details.replaceChildren(...[make("h2", {}, `Step ${s.number} `, kindLabel(s.kind)),
    source.length ? make("ul", {}, source, s.more_sources ? make("li", {class: "soft"}, `and ${s.more_sources} more`) : "") : make("p", {class: "soft"}, "No source line is known."),
    reasons.length ? [make("h3", {}, "Why"), reasons] : [], make("dl", {}, facts.map(([k, v]) => [make("dt", {}, k), make("dd", {}, v)])),
    make("h3", {}, "Reads"), bufferList(s.reads, writers), make("h3", {}, "Writes"), bufferList(s.writes, readers)].flat(Infinity));
}

// ---- selection: table, graph, details and the address agree
function select(i) {
  if (made[state.selected]) made[state.selected].setAttribute("aria-selected", "false");
  state.selected = i;
  rowOf(i).setAttribute("aria-selected", "true");
  showRow(i);
  drawRows();
  graph.show(i);
  showDetails(i);
  setHash("step", data.steps[i].number);
}
function selectFromHash() {
  const number = hashOf("step"), i = data.steps.findIndex(s => String(s.number) === number);
  if (i >= 0 && i !== state.selected) select(i);
}

// ---- the page
function kindsPanel() {
  const sums = new Map();
  for (const s of data.steps) if (s.owner < 0) sums.set(s.kind, (sums.get(s.kind) || 0) + (s.share || 0));
  for (const s of data.steps) if (!sums.has(s.kind)) sums.set(s.kind, 0);
  const list = [...sums].sort((a, b) => b[1] - a[1]);
  const toggle = (kind, button) => {
    state.kinds.has(kind) ? state.kinds.delete(kind) : state.kinds.add(kind);
    button.setAttribute("aria-pressed", state.kinds.has(kind));
    refresh();
  };
  return make("div", {class: "kinds"},
      timed ? make("div", {class: "stack", role: "img", "aria-label": "Time by kind: " + list.map(([k, v]) => `${k} ${percent(v)}`).join(", ")},
          list.filter(([, v]) => v > 0).map(([k, v]) => make("i", {style: {"--kind": `var(--${k})`, width: 100 * v + "%"}}))) : null,
      make("div", {class: "legend", role: "group", "aria-label": "Show these kinds alone"}, list.map(([k, v]) => {
        const button = make("button", {"aria-pressed": "false", onclick: () => toggle(k, button)}, kindLabel(k), timed ? " " + percent(v) : "");
        return button;
      })));
}
function header() {
  const s = data.stats, figures = [];
  if (timed) figures.push(figure(timeText(data.us), "a run, all steps"), figure(data.runs, "runs timed"));
  figures.push(figure(s.steps, "steps"), figure(s.kernels_compiled, "kernels"));
  if (s.fallback_steps) figures.push(make("div", {class: "bad"}, make("b", {}, s.fallback_steps), make("span", {class: "bad"}, "in the interpreter")));
  if (s.arena_bytes) figures.push(figure(bytesText(s.arena_bytes), "of temporaries"));
  return make("header", {class: "top"}, make("h1", {}, data.program || "Explanation"), make("div", {class: "figures"}, figures), make("span", {class: "grow"}),
      make("span", {class: "soft"}, machineText(data.machine)), themeButton());
}
function more() {
  const items = [];
  if (data.memory.temporaries) items.push(["Temporaries at once", data.memory.temporaries + " bytes"], ["Results", data.memory.results + " bytes"]);
  for (const v of data.variants) items.push([`Plan for ${v.guard}`, `${v.calls} calls, ${digits(v.mean_us)} µs each`]);
  for (const n of data.notes) items.push(["Note", n]);
  return make("details", {}, make("summary", {}, "Memory and notes"), make("dl", {}, items.map(([k, v]) => [make("dt", {}, k), make("dd", {class: "mono"}, v)])));
}
const graph = new GraphView(data, i => select(i));
const zoom = (text, label, action) => make("button", {"aria-label": label, title: label, onclick: action}, text);
document.getElementById("page").append(make("main", {id: "explain"}, header(), kindsPanel(), make("div", {class: "split"},
    make("section", {class: "panel", "aria-label": "Table of steps"}, make("div", {class: "toolbar"}, search, count), scroller, more()),
    make("div", {class: "right"},
        make("section", {class: "panel", "aria-label": "Graph of steps"},
            make("div", {class: "toolbar"}, make("h2", {style: {margin: 0}}, "Graph"), make("span", {class: "soft", style: {flex: 1}}, "inputs above, results below"),
                zoom("−", "Zoom out", () => graph.setZoom(graph.zoom / 1.2)), zoom("+", "Zoom in", () => graph.setZoom(graph.zoom * 1.2)), zoom("Fit", "Show all", () => graph.fit())),
            graph.element),
        make("section", {class: "panel", "aria-label": "Details"}, details)))));
document.addEventListener("keydown", e => {
  if (e.key === "/" && !(e.target instanceof HTMLInputElement)) e.preventDefault(), search.focus();
});
window.addEventListener("hashchange", selectFromHash);
showDetails(null);
refresh();
selectFromHash();
if (state.selected === null && data.steps.length) { // what takes most of the time
  let most = 0;
  data.steps.forEach((s, i) => { if ((s.share || 0) > (data.steps[most].share || 0)) most = i; });
  select(most);
}
