// The small chart over time: what arrives on each path, and what is held.
import { area, axisBottom, axisLeft, curveStepAfter, max, scaleLinear, select, stack } from "./d3.js";
import { fit } from "./bars.js";
import { pathColour } from "./colours.js";
import { fates } from "./trace.js";

const margin = { left: 54, right: 4, top: 14, bottom: 20 };
const bins = 160;

// summarise counts, for each bin of time, the Mbit/s of new data that each path
// brought and the most that was held; all once, when a trace arrives.
export function summarise(trace, from, to) {
  const c = trace.columns, width = Math.max(1, to - from) / bins;
  const rates = Array.from({ length: bins }, () => new Array(trace.paths.length).fill(0));
  for (const p of trace.paths) {
    for (let i = p.a; i < p.b; i++) {
      if (c.fate[i] !== fates.arrived || c.end[i] < from || c.end[i] > to) continue;
      const s = trace.streams[c.stream[i]];
      if (!s || c.segment[i] < s.first || s.gotAt[c.segment[i] - s.first] !== c.end[i]) continue; // a copy
      rates[Math.min(bins - 1, Math.floor((c.end[i] - from) / width))][p.index] += (c.bytes[i] * 8e3) / width;
    }
  }
  const held = [];
  for (let b = 0; b < bins; b++) {
    let most = 0;
    for (let k = 0; k < 6; k++) most = Math.max(most, trace.held(from + (b + k / 6) * width));
    held.push(most / 1e3);
  }
  return { rates, held, width, from };
}

export class Chart {
  constructor(svg, seek) {
    this.node = svg;
    this.svg = select(svg);
    this.cursor = svg.parentElement.querySelector(".cursor");
    const go = (e) => {
      if (!this.x) return;
      const box = svg.getBoundingClientRect();
      seek(this.x.invert(e.clientX - box.left));
    };
    svg.addEventListener("pointerdown", (e) => { svg.setPointerCapture(e.pointerId); go(e); });
    svg.addEventListener("pointermove", (e) => { if (e.buttons & 1) go(e); });
  }

  // build draws the data; all sides share their scales.
  build(trace, data, all, from, to) {
    const width = this.node.clientWidth, height = this.node.clientHeight;
    const split = margin.top + (height - margin.top - margin.bottom) * 0.6;
    this.x = scaleLinear().domain([from, to]).range([margin.left, width - margin.right]).clamp(true);
    const most = Math.max(0.01, max(all, (d) => max(d.rates, (r) => r.reduce((a, b) => a + b, 0))));
    const mostHeld = Math.max(1, max(all, (d) => max(d.held)));
    const y = scaleLinear().domain([0, most]).range([split - 6, margin.top]);
    const z = scaleLinear().domain([0, mostHeld]).range([height - margin.bottom, split + 8]);
    const at = (_, i) => this.x(data.from + i * data.width);
    this.svg.selectAll("*").remove();
    const layers = stack().keys(trace.paths.map((p) => p.index)).value((d, k) => d[k])(data.rates.concat([data.rates[bins - 1]]));
    const shape = area().x(at).y0((d) => y(d[0])).y1((d) => y(d[1])).curve(curveStepAfter);
    for (const layer of layers) this.svg.append("path").attr("d", shape(layer)).attr("fill", pathColour(layer.key));
    const held = area().x(at).y0(z(0)).y1((d) => z(d)).curve(curveStepAfter);
    const values = data.held.concat([data.held[bins - 1]]);
    this.svg.append("path").attr("class", "heldarea").attr("d", held(values));
    this.svg.append("path").attr("class", "heldline").attr("d", held.lineY1()(values));
    this.axes(y, z, height, trace, most);
    this.marks(trace, split, from, to);
  }

  axes(y, z, height, trace) {
    const left = (scale, n) => this.svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left - 3},0)`).call(axisLeft(scale).ticks(n).tickSizeOuter(0)).select(".domain").remove();
    left(y, 3);
    left(z, 2);
    const ticks = Math.max(2, Math.floor(this.node.clientWidth / 90));
    this.svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - margin.bottom + 1})`).call(axisBottom(this.x).ticks(ticks).tickFormat((v) => `${+(v / 1e9).toFixed(3)} s`).tickSizeOuter(0));
    const title = this.svg.append("text").attr("x", margin.left).attr("y", 10);
    title.append("tspan").text("arriving, Mbit/s:");
    for (const p of trace.paths) {
      title.append("tspan").attr("dx", 6).style("fill", pathColour(p.index)).text("■");
      title.append("tspan").attr("class", "soft").attr("dx", 2).text(p.name);
    }
    this.svg.append("text").attr("class", "soft").attr("x", margin.left + 4).attr("y", z.range()[1] + 4).text("held, kB");
  }

  // marks shows losses as crosses, one a few pixels.
  marks(trace, y, from, to) {
    const c = trace.columns, taken = new Set();
    let d = "";
    for (let i = 0; i < c.end.length; i++) {
      if (c.fate[i] < fates.dropped || c.end[i] < from || c.end[i] > to) continue;
      const x = Math.round(this.x(c.end[i]) / 3) * 3;
      if (taken.has(x)) continue;
      taken.add(x);
      d += `M${x - 2} ${y - 1}l4 4m0 -4l-4 4`;
    }
    this.svg.append("path").attr("class", "heldline").attr("d", d);
  }

  draw(t) {
    this.cursor.style.transform = `translateX(${this.x(t)}px)`; // needs no painting
  }
}

// strip draws events beside the scrubber: losses below, completions above.
export function strip(canvas, traces, from, to, theme) {
  const width = canvas.clientWidth, height = canvas.clientHeight, g = fit(canvas, width, height);
  g.clearRect(0, 0, width, height);
  const x = (t) => 8 + ((t - from) / Math.max(1, to - from)) * (width - 16);
  for (const trace of traces) {
    g.fillStyle = theme.bad;
    const c = trace.columns;
    for (let i = 0; i < c.end.length; i++) if (c.fate[i] >= fates.dropped && c.end[i] <= to) g.fillRect(x(c.end[i]), height - 4, 1, 4);
    g.fillStyle = theme.accent;
    for (const s of trace.streams) if (s.done <= to) g.fillRect(x(s.done) - 1, 0, 2, 6);
  }
}
