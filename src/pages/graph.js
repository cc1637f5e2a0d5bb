// The graph of steps: places are given, only what is visible is in the document.
class GraphView {
  /** `select(index)` is called for a step that is chosen in the graph. */
  constructor(explanation, select) {
    this.steps = explanation.steps;
    this.buffers = explanation.buffers;
    this.graph = explanation.graph;
    this.select = select;
    this.zoom = 1;
    this.selected = null;
    this.most = Math.max(1e-9, ...this.steps.map(s => s.share || 0));
    this.nodes = new Map(this.graph.nodes.map(([id, x, y]) => [id, {id, x, y, above: [], below: []}]));
    for (const [from, to] of this.graph.edges) this.nodes.get(from).below.push(to), this.nodes.get(to).above.push(from);
    this.byHeight = [...this.nodes.values()].sort((a, b) => a.y - b.y || a.x - b.x);
    this.edges = this.graph.edges.map(([from, to, value, points]) => ({from, to, value, points, top: points[0][1], bottom: points[points.length - 1][1]}));
    this.content = makeSvg("g");
    this.svg = makeSvg("svg", {"aria-hidden": "true"}, this.content);
    this.element = make("div", {class: "scroll graph", tabindex: "0", role: "application", id: "graph",
      "aria-label": "Graph of steps. Down and up follow values, left and right go to neighbours, plus and minus zoom.",
      onscroll: () => this.draw(), onkeydown: e => this.key(e),
      onwheel: e => { if (e.ctrlKey) e.preventDefault(), this.setZoom(this.zoom * (e.deltaY < 0 ? 1.15 : 1 / 1.15)); }}, this.svg);
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.setZoom(1);
  }

  setZoom(zoom) {
    const e = this.element, old = this.zoom;
    const middle = [(e.scrollLeft + e.clientWidth / 2) / old, (e.scrollTop + e.clientHeight / 2) / old];
    this.zoom = Math.min(2.5, Math.max(0.12, zoom));
    this.svg.setAttribute("width", this.graph.width * this.zoom);
    this.svg.setAttribute("height", this.graph.height * this.zoom);
    this.content.setAttribute("transform", `scale(${this.zoom})`);
    e.scrollLeft = middle[0] * this.zoom - e.clientWidth / 2;
    e.scrollTop = middle[1] * this.zoom - e.clientHeight / 2;
    this.draw();
  }
  fit() {
    this.setZoom(Math.min((this.element.clientWidth - 4) / this.graph.width, (this.element.clientHeight - 4) / this.graph.height, 1));
  }

  // ---- drawing
  draw() {
    const e = this.element, margin = 200;
    const left = e.scrollLeft / this.zoom - margin, right = (e.scrollLeft + e.clientWidth) / this.zoom + margin;
    const top = e.scrollTop / this.zoom - margin, bottom = (e.scrollTop + e.clientHeight) / this.zoom + margin;
    const edges = this.edges.filter(d => d.bottom >= top && d.top <= bottom).map(d => this.edge(d));
    const {node_width: width, node_height: height} = this.graph;
    const nodes = [];
    for (const n of this.byHeight) {
      if (n.y > bottom) break;
      if (n.y + height >= top && n.x <= right && n.x + width >= left) nodes.push(this.node(n));
    }
    this.content.replaceChildren(...edges, ...nodes);
  }
  edge(d) {
    const near = this.selected !== null && (d.from === this.selected || d.to === this.selected);
    let path = `M${d.points[0][0]} ${d.points[0][1]}`;
    for (let i = 1; i < d.points.length; i++) {
      const [x0, y0] = d.points[i - 1], [x, y] = d.points[i], middle = (y0 + y) / 2;
      path += `C${x0} ${middle} ${x} ${middle} ${x} ${y}`;
    }
    const long = d.points.length === 2 && d.bottom - d.top > 400 ? " long" : "";
    return makeSvg("path", {class: "edge" + long + (near ? " near" : ""), d: path}, makeSvg("title", {}, bufferText(this.buffers[d.value])));
  }
  node(n) {
    const {node_width: width, node_height: height} = this.graph;
    const step = this.steps[n.id];
    const chosen = n.id === this.selected ? " selected" : "";
    const clip = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
    if (!step) {
      const text = n.id < 0 ? this.buffers[-1 - n.id].name || "input" : "results";
      return makeSvg("g", {class: "node", transform: `translate(${n.x} ${n.y})`},
          makeSvg("rect", {class: "box", width, height, rx: 22}),
          makeSvg("text", {x: width / 2, y: 18, "text-anchor": "middle"}, clip(text, 26)),
          makeSvg("text", {x: width / 2, y: 34, "text-anchor": "middle", class: "soft"}, n.id < 0 ? clip(typeText(this.buffers[-1 - n.id]), 26) : ""));
    }
    return makeSvg("g", {class: "node" + chosen, transform: `translate(${n.x} ${n.y})`, style: {"--kind": `var(--${step.kind})`},
      "data-step": step.number, onclick: () => this.select(n.id)},
        makeSvg("title", {}, `${step.number} ${step.operators}`),
        makeSvg("rect", {class: "box", width, height, rx: 6}),
        makeSvg("rect", {class: "strip", width: 6, height, rx: 3}),
        step.share ? makeSvg("rect", {class: "share", x: 8, y: height - 5, width: Math.max(1, (width - 14) * step.share / this.most), height: 3}) : null,
        makeSvg("text", {x: 13, y: 16}, clip(`${step.number} ${step.kind}` + (step.calls ? ` · ${timeText(step.us)}` : ""), 28)),
        makeSvg("text", {x: 13, y: 32, class: "soft"}, clip(operatorsText(step), 28)));
  }

  // ---- selection
  /** Of a step, by its index; what control flow runs stands in its node. Scrolls there. */
  show(index) {
    while (index >= 0 && this.steps[index].owner >= 0) index = this.steps[index].owner;
    this.selected = index;
    const n = this.nodes.get(index), e = this.element;
    if (n) {
      const x = (n.x + this.graph.node_width / 2) * this.zoom, y = (n.y + this.graph.node_height / 2) * this.zoom;
      if (x < e.scrollLeft + 60 || x > e.scrollLeft + e.clientWidth - 60) e.scrollLeft = x - e.clientWidth / 2;
      if (y < e.scrollTop + 40 || y > e.scrollTop + e.clientHeight - 40) e.scrollTop = y - e.clientHeight / 2;
    }
    this.draw();
  }
  key(event) {
    if (event.key === "+" || event.key === "=") return this.setZoom(this.zoom * 1.2);
    if (event.key === "-") return this.setZoom(this.zoom / 1.2);
    if (!event.key.startsWith("Arrow") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const now = this.nodes.get(this.selected) || this.byHeight.find(n => this.steps[n.id]);
    if (!now) return;
    if (this.selected === null) return this.select(now.id);
    const isStep = id => this.steps[id] !== undefined;
    let to;
    if (event.key === "ArrowDown") to = now.below.filter(isStep).sort((a, b) => a - b)[0];
    else if (event.key === "ArrowUp") to = now.above.filter(isStep).sort((a, b) => b - a)[0];
    else {
      const row = this.byHeight.filter(n => n.y === now.y && isStep(n.id));
      to = row[row.indexOf(now) + (event.key === "ArrowRight" ? 1 : -1)]?.id;
    }
    if (to !== undefined) this.select(to);
  }
}

const typeText = b => `${b.dtype}[${b.sizes.join(", ")}]`;
const bufferText = b => (b.name ? b.name + ": " : "") + typeText(b) + (b.bytes >= 0 ? ", " + bytesText(b.bytes) : "");
