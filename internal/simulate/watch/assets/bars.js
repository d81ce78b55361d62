// Streams as bars: the height is what remains to be read by the receiver.
import { axisLeft, format, max, scaleBand, scaleLinear, scalePow, select } from "./d3.js";
import { streamColour } from "./colours.js";
import { after } from "./trace.js";

const margin = { top: 16, right: 2, bottom: 18, left: 46 };
const most = 50; // bars at the same time
const spread = 12; // so many are used before one is used again

// assign gives each stream a place, the same on all sides, free again when it is
// complete everywhere. It gives the places' streams, by arrival.
export function assign(traces) {
  const spans = new Map();
  for (const trace of traces) for (const s of trace.streams) {
    const x = spans.get(s.id) ?? { id: s.id, from: Infinity, to: -Infinity, size: s.size };
    spans.set(s.id, { ...x, from: Math.min(x.from, s.arrive), to: Math.max(x.to, s.done) });
  }
  const places = [];
  let left = 0;
  for (const x of [...spans.values()].sort((p, q) => p.from - q.from || p.id - q.id)) {
    const free = places.filter((p) => p.until < x.from).sort((p, q) => p.until - q.until)[0];
    let place = free;
    if (!free || places.length < spread) {
      if (places.length < most) places.push((place = { ids: [], until: 0 }));
      else if (!free) { left++; continue; }
    }
    place.ids.push(x.id);
    place.until = x.to;
  }
  return { places, left };
}

export class Bars {
  constructor(svg) {
    this.svg = select(svg);
    this.node = svg;
  }

  // build makes the bars of one side; all sides share places and scale.
  build(trace, places, traces, side) {
    this.trace = trace;
    const width = this.node.clientWidth, height = this.node.clientHeight;
    const x = scaleBand().domain(places.map((_, i) => i)).range([margin.left, width - margin.right]).padding(places.length > 20 ? 0.15 : 0.25);
    const sizes = traces.flatMap((t) => t.streams.map((s) => s.size)).filter((n) => n > 0);
    const endless = max(traces, (t) => t.paths.reduce((sum, p) => sum + p.largest, 0)) * 1.3;
    const largest = sizes.length ? max(sizes) : endless;
    const ratio = sizes.length ? largest / sizes.sort((p, q) => p - q)[sizes.length >> 1] : 1;
    this.y = (ratio > 25 ? scalePow().exponent(ratio > 200 ? 0.33 : 0.5) : scaleLinear()).domain([0, largest]).range([height - margin.bottom, margin.top]);
    const byId = new Map(trace.streams.map((s) => [s.id, s]));
    const slots = places.map((p, i) => {
      const streams = p.ids.map((id) => byId.get(id)).filter(Boolean).sort((p, q) => p.arrive - q.arrive);
      return { streams, starts: streams.map((s) => s.arrive), x: x(i), shown: null };
    });
    this.svg.selectAll("*").remove();
    this.patterns(side);
    const axis = this.svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left - 4},0)`).call(axisLeft(this.y).ticks(4).tickFormat((v) => (v ? format(".2~s")(v) + "B" : "")).tickSizeOuter(0));
    axis.select(".domain").remove();
    this.svg.append("line").attr("class", "base").attr("x1", margin.left - 4).attr("x2", width).attr("y1", this.y(0) + 0.5).attr("y2", this.y(0) + 0.5);
    const wide = x.bandwidth();
    this.narrow = wide < 44;
    const groups = this.svg.selectAll("g.slot").data(slots).join("g").attr("class", "slot").attr("role", "img").attr("transform", (d) => `translate(${d.x},0)`);
    for (const part of ["unsent", "gap", "flight", "held"]) groups.append("rect").attr("class", part).attr("width", wide).attr("height", 0);
    groups.append("text").attr("class", "name soft").attr("x", wide / 2).attr("y", height - 5).attr("text-anchor", "middle");
    groups.append("text").attr("class", wide < 12 ? "size tiny" : "size").attr("text-anchor", this.narrow ? "start" : "middle");
    this.slots = slots;
    this.wide = wide;
    this.parts = groups.nodes().map((g) => {
      const [unsent, gap, flight, held, name, size] = g.children;
      return { g, unsent, gap, flight, held, name, size, was: {} };
    });
  }

  patterns(side) {
    const defs = this.svg.append("defs");
    this.hatch = (id) => {
      const name = `hatch-${side}-${id % 7}`;
      if (defs.select("#" + name).empty()) {
        const p = defs.append("pattern").attr("id", name).attr("width", 5).attr("height", 5).attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
        p.append("rect").attr("width", 2).attr("height", 5).attr("fill", streamColour(id));
      }
      return `url(#${name})`;
    };
  }

  // draw shows time t; spoken also writes it down for those who listen.
  draw(t, spoken) {
    const flight = this.trace.flight(t);
    for (let i = 0; i < this.slots.length; i++) {
      const slot = this.slots[i], part = this.parts[i];
      const s = slot.streams[after(slot.starts, t) - 1];
      if (!s) {
        if (slot.shown) this.hide(slot, part);
        continue;
      }
      if (slot.shown !== s) this.show(slot, part, s);
      this.bar(part, s, this.trace.stream(s, t), flight[s.index], t, spoken);
    }
  }

  hide(slot, part) {
    slot.shown = null;
    part.was = {};
    part.g.setAttribute("visibility", "hidden");
  }

  show(slot, part, s) {
    slot.shown = s;
    part.was = {};
    const colour = streamColour(s.id);
    part.g.setAttribute("visibility", "visible");
    part.g.dataset.stream = s.id;
    part.g.dataset.arrive = s.arrive;
    part.unsent.setAttribute("fill", colour);
    part.unsent.setAttribute("fill-opacity", 0.28);
    part.unsent.setAttribute("stroke", colour);
    part.flight.setAttribute("fill", colour);
    part.held.setAttribute("fill", this.hatch(s.id));
    part.held.setAttribute("stroke", colour);
    part.name.textContent = this.narrow && this.wide < 13 && s.id % 5 ? "" : s.id;
  }

  bar(part, s, now, flight, t, spoken) {
    const { y } = this, done = s.done <= t;
    const held = now.got - now.order, missing = Math.max(0, now.sent - now.got - flight);
    const size = s.size < 0 ? Infinity : s.size;
    const top = Math.min(size - now.order, y.domain()[1]);
    // from the ground up: held, in flight, lost, to be sent
    let from = 0;
    const next = (rect, name, bytes) => {
      const to = Math.min(from + bytes, y.domain()[1]);
      const a = y(to), h = y(from) - a;
      from = to;
      if (part.was[name] === a + h * 7919) return;
      part.was[name] = a + h * 7919;
      rect.setAttribute("y", a);
      rect.setAttribute("height", Math.max(0, h));
    };
    next(part.held, "held", held);
    next(part.flight, "flight", flight);
    next(part.gap, "gap", missing);
    next(part.unsent, "unsent", Math.max(0, top - from));
    this.label(part, s, size - now.order, top, done);
    if (spoken) this.speak(part.g, s, size - now.order, { held, flight, missing }, done);
  }

  label(part, s, remains, top, done) {
    const text = done ? `✓ ${seconds(s.done - s.arrive)}` : remains === Infinity ? "∞" : this.narrow ? "" : bytes(remains);
    const at = done ? this.y(0) - 5 : this.y(top) - 4;
    if (part.was.text === text && part.was.at === at) return;
    part.was.text = text;
    part.was.at = at;
    part.size.textContent = text;
    const turn = this.narrow && done;
    part.size.setAttribute("transform", turn ? `translate(${this.wide / 2 + 4},${at}) rotate(-90)` : `translate(${this.narrow ? 0 : this.wide / 2},${at})`);
  }

  speak(g, s, remains, parts, done) {
    g.setAttribute("aria-label", done ? `stream ${s.id}: complete after ${seconds(s.done - s.arrive)}`
      : `stream ${s.id}: ${remains === Infinity ? "without end" : bytes(remains) + " remain"}, ${bytes(parts.flight)} in flight, ${bytes(parts.held)} held, ${bytes(parts.missing)} lost`);
    Object.assign(g.dataset, { remains, flight: parts.flight, held: parts.held, missing: parts.missing });
  }
}

export const seconds = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(2)} s` : `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`);
export const bytes = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(n >= 1e7 ? 0 : 1)} MB` : n >= 1e3 ? `${Math.round(n / 1e3)} kB` : `${Math.round(n)} B`);
