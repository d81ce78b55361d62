// Streams as bars: the height is what remains to be read by the receiver.
import { axisLeft, format, max, scaleBand, scaleLinear, scalePow, select } from "./d3.js";
import { streamColour } from "./colours.js";
import { after } from "./trace.js";

const margin = { top: 16, right: 2, bottom: 18, left: 54 };
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
  constructor(box) {
    this.node = box.querySelector("svg");
    this.svg = select(this.node);
    this.canvas = box.querySelector("canvas");
    this.context = this.canvas.getContext("2d");
  }

  // build makes the places of one side; all sides share places and scale. The
  // axis and the names are SVG, and there for those who listen; what moves is on
  // the canvas.
  build(trace, places, traces, colours) {
    this.trace = trace;
    this.colours = colours;
    const width = this.node.clientWidth, height = this.node.clientHeight;
    this.context = fit(this.canvas, width, height);
    this.width = width;
    this.height = height;
    const x = scaleBand().domain(places.map((_, i) => i)).range([margin.left, width - margin.right]).padding(places.length > 20 ? 0.15 : 0.25);
    const sizes = traces.flatMap((t) => t.streams.map((s) => s.size)).filter((n) => n > 0);
    const endless = max(traces, (t) => t.paths.reduce((sum, p) => sum + p.largest, 0)) * 1.3;
    const largest = sizes.length ? max(sizes) : endless;
    const ratio = sizes.length ? largest / sizes.sort((p, q) => p - q)[sizes.length >> 1] : 1;
    this.y = (ratio > 25 ? scalePow().exponent(ratio > 200 ? 0.33 : 0.5) : scaleLinear()).domain([0, largest]).range([height - margin.bottom, margin.top]);
    this.largest = largest;
    const byId = new Map(trace.streams.map((s) => [s.id, s]));
    this.slots = places.map((p, i) => {
      const streams = p.ids.map((id) => byId.get(id)).filter(Boolean).sort((p, q) => p.arrive - q.arrive);
      return { streams, starts: streams.map((s) => s.arrive), x: x(i), shown: null };
    });
    this.wide = x.bandwidth();
    this.narrow = this.wide < 44;
    this.hatches = new Map();
    this.axes(width, height);
  }

  axes(width, height) {
    this.svg.selectAll("*").remove();
    const axis = this.svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left - 4},0)`).call(axisLeft(this.y).ticks(4).tickFormat((v) => (v ? format(".2~s")(v) + "B" : "")).tickSizeOuter(0));
    axis.select(".domain").remove();
    this.svg.append("line").attr("class", "base").attr("x1", margin.left - 4).attr("x2", width).attr("y1", this.y(0) + 0.5).attr("y2", this.y(0) + 0.5);
    const groups = this.svg.selectAll("g.slot").data(this.slots).join("g").attr("class", "slot").attr("role", "img").attr("visibility", "hidden").attr("transform", (d) => `translate(${d.x},0)`);
    groups.append("rect").attr("width", this.wide).attr("height", this.y(0)).attr("fill", "none"); // its place, for those who point
    groups.append("text").attr("class", "soft").attr("x", this.wide / 2).attr("y", height - 5).attr("text-anchor", "middle");
    groups.each(function (d) { d.g = this; });
  }

  // draw shows time t; spoken also writes it down for those who listen.
  draw(t, spoken) {
    const flight = this.trace.flight(t), g = this.context;
    g.clearRect(0, 0, this.width, this.height);
    g.lineWidth = 1;
    g.font = this.wide < 12 ? "8px system-ui, sans-serif" : "11px system-ui, sans-serif";
    for (const slot of this.slots) {
      const s = slot.streams[after(slot.starts, t) - 1] ?? null;
      if (slot.shown !== s) this.show(slot, s);
      if (s) this.bar(slot, s, this.trace.stream(s, t), flight[s.index], t, spoken);
    }
  }

  // show puts a stream into a slot, or none.
  show(slot, s) {
    slot.shown = s;
    slot.g.setAttribute("visibility", s ? "visible" : "hidden");
    if (!s) return;
    slot.g.dataset.stream = s.id;
    slot.g.dataset.arrive = s.arrive;
    slot.g.lastChild.textContent = this.wide < 13 && s.id % 5 ? "" : s.id;
  }

  bar(slot, s, now, flight, t, spoken) {
    const { y, largest } = this, g = this.context, done = s.done <= t, colour = streamColour(s.id);
    const held = now.got - now.order, missing = Math.max(0, now.sent - now.got - flight);
    const remains = (s.size < 0 ? Infinity : s.size) - now.order;
    const top = Math.min(remains, largest);
    // from the ground up: held, in flight, lost, to be sent
    let from = 0;
    const next = (n) => {
      const to = Math.min(from + n, largest), a = y(to), h = y(from) - a;
      from = to;
      return [slot.x, a, this.wide, h];
    };
    if (held) {
      const part = next(held);
      g.fillStyle = this.hatch(colour);
      g.fillRect(...part);
      outline(g, part, colour);
    }
    if (flight) {
      g.fillStyle = colour;
      g.fillRect(...next(flight));
    }
    if (missing) {
      g.setLineDash([3, 2]);
      outline(g, next(missing), this.colours.bad);
      g.setLineDash([]);
    }
    if (top > from) {
      const part = next(top - from);
      g.globalAlpha = 0.28;
      g.fillStyle = colour;
      g.fillRect(...part);
      g.globalAlpha = 1;
      outline(g, part, colour);
    }
    this.label(slot, s, remains, top, done);
    if (spoken) this.speak(slot.g, s, remains, { held, flight, missing }, done);
  }

  hatch(colour) {
    let pattern = this.hatches.get(colour);
    if (!pattern) {
      const tile = new OffscreenCanvas(8, 8), g = tile.getContext("2d");
      g.strokeStyle = colour;
      g.lineWidth = 2.4;
      g.beginPath();
      for (const x of [-8, 0, 8]) { g.moveTo(x - 1, 9); g.lineTo(x + 9, -1); }
      g.stroke();
      this.hatches.set(colour, (pattern = this.context.createPattern(tile, "repeat")));
    }
    return pattern;
  }

  label(slot, s, remains, top, done) {
    const text = done ? `✓ ${seconds(s.done - s.arrive)}` : remains === Infinity ? "∞" : this.narrow ? "" : bytes(remains);
    if (!text) return;
    const g = this.context, x = slot.x + this.wide / 2, at = done ? this.y(0) - 5 : this.y(top) - 4;
    g.fillStyle = this.colours.ink;
    if (!this.narrow || !done) {
      g.textAlign = "center";
      g.fillText(text, x, at);
      return;
    }
    g.save();
    g.translate(x + 4, at);
    g.rotate(-Math.PI / 2);
    g.textAlign = "left";
    g.fillText(text, 0, 0);
    g.restore();
  }

  speak(g, s, remains, parts, done) {
    g.setAttribute("aria-label", done ? `stream ${s.id}: complete after ${seconds(s.done - s.arrive)}`
      : `stream ${s.id}: ${remains === Infinity ? "without end" : bytes(remains) + " remain"}, ${bytes(parts.flight)} in flight, ${bytes(parts.held)} held, ${bytes(parts.missing)} lost`);
    Object.assign(g.dataset, { remains, flight: parts.flight, held: parts.held, missing: parts.missing });
  }
}

// fit gives the context of a canvas that is so large on the page, whatever the
// screen's pixels are.
export function fit(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

function outline(g, [x, y, w, h], colour) {
  g.strokeStyle = colour;
  if (h > 1) g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
}

export const seconds = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(2)} s` : `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`);
export const bytes = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(n >= 1e7 ? 0 : 1)} MB` : n >= 1e3 ? `${Math.round(n / 1e3)} kB` : `${Math.round(n)} B`);
