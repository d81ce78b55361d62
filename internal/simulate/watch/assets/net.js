// Paths as queues, and packets on their way: drawn on a canvas, anew each frame.
import { fates, flags, after } from "./trace.js";
import { fit } from "./bars.js";
import { streamColour, pathColour } from "./colours.js";

const row = 92; // pixels a path
const lane = { top: 22, height: 30 };
const cell = 9; // of the receiver's strip
const strips = 3; // streams shown there

export class Net {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  height(trace) { return trace.paths.length * row + 34 + strips * 20; }

  // resize fits the canvas to its width and the screen's pixels.
  resize(trace) {
    const width = this.canvas.clientWidth, height = this.height(trace);
    this.canvas.style.height = height + "px";
    this.context = fit(this.canvas, width, height);
    this.width = width;
  }

  draw(trace, t, theme) {
    const g = this.context;
    this.theme = theme;
    g.clearRect(0, 0, this.width, this.height(trace));
    g.textBaseline = "alphabetic";
    trace.paths.forEach((p, i) => this.path(trace, p, t, i * row));
    this.receiver(trace, t, trace.paths.length * row + 12);
  }

  path(trace, p, t, y) {
    const g = this.context, c = trace.columns, w = this.width, { theme } = this;
    const top = y + lane.top, h = lane.height;
    const x = { queue: 1, server: Math.round(w * 0.36), pipe: Math.round(w * 0.36) + 26, end: w - 14 };
    const up = p.up(t);
    this.frameOf(p, x, top, h, up);
    let ahead = 0, queued = 0, flight = 0, begin = 0, serving = true;
    const [lo, hi] = p.active(t);
    const wide = Math.max(2.5, Math.min(7, w / 110));
    for (let i = lo; i < hi; i++) {
      const size = c.bytes[i] + trace.header.overhead;
      if (c.known[i] > t) flight += c.bytes[i];
      const colour = c.stream[i] in trace.streams ? streamColour(trace.streams[c.stream[i]].id) : theme.soft;
      const again = c.flags[i] & flags.again;
      if (c.left[i] > t && c.end[i] > t) {
        if (serving) { // the first of those that have not left
          serving = false;
          const part = share(t, Math.max(begin, c.sent[i]), c.left[i]);
          box(g, x.server + 4 + part * 16, top + 4, wide, h - 8, colour, again, theme.panel);
          continue;
        }
        const place = (x.server - x.queue) * (size / p.queue);
        const right = x.server - (x.server - x.queue) * (ahead / p.queue);
        ahead += size;
        queued++;
        box(g, right - Math.max(place, 1), top + 2, Math.max(place - (place > 3 ? 1 : 0), 0.8), h - 4, colour, again, theme.panel);
        continue;
      }
      if (c.left[i] < Infinity) begin = Math.max(begin, c.left[i]);
      this.moving(trace, p, i, t, x, top, wide, colour, again);
    }
    this.labels(p, x, y, t, { flight, up, ahead, queued });
  }

  // moving draws a packet behind the bottleneck, its acknowledgement, or its end.
  moving(trace, p, i, t, x, top, wide, colour, again) {
    const g = this.context, c = trace.columns, h = lane.height, { theme } = this;
    const length = x.end - x.pipe;
    if (c.fate[i] === fates.dropped && c.end[i] <= t) {
      const gone = share(t, c.end[i], c.end[i] + p.delay + 5e6);
      if (gone < 1) cross(g, x.queue + 8 + (i % 5) * 9, top + h + 2 + gone * 12, 4, theme.bad, 1 - gone);
      return;
    }
    const left = c.left[i], end = c.end[i];
    if (c.fate[i] === fates.lost || (c.fate[i] === fates.failed && end <= t)) {
      // as it would have gone on; it is gone since end
      const part = share(t, left, left + p.delay);
      if (left < Infinity && t >= left && part < 1) {
        g.globalAlpha = 1 - part;
        cross(g, x.pipe + part * length, top + h / 2, 5, theme.bad, 1 - 0.7 * part);
        g.globalAlpha = 1;
      }
      return;
    }
    if (end > t) {
      const part = share(t, left, end < Infinity ? end : left + p.delay);
      box(g, x.pipe + part * (length - wide), top + 6, wide, h - 12, colour, again, theme.panel);
    } else if (c.known[i] > t && c.known[i] < Infinity && !(c.flags[i] & flags.missed)) {
      const part = share(t, end, c.known[i]);
      g.fillStyle = theme.soft;
      g.fillRect(x.end - part * (x.end - x.queue) - 1.5, top + h + 4, 3, 3);
    }
  }

  frameOf(p, x, top, h, up) {
    const g = this.context, { theme } = this;
    g.fillStyle = theme.faint;
    g.fillRect(x.queue, top, x.server - x.queue, h);
    g.fillRect(x.pipe, top + 3, x.end - x.pipe, h - 6);
    g.strokeStyle = up ? theme.soft : theme.bad;
    g.lineWidth = 1;
    g.setLineDash(up ? [] : [4, 3]);
    g.beginPath();
    g.moveTo(x.queue, top - 0.5); g.lineTo(x.server, top - 0.5);
    g.lineTo(x.pipe, top + 3.5); g.lineTo(x.end, top + 3.5);
    g.moveTo(x.queue, top + h + 0.5); g.lineTo(x.server, top + h + 0.5);
    g.lineTo(x.pipe, top + h - 2.5); g.lineTo(x.end, top + h - 2.5);
    g.stroke();
    g.setLineDash([]);
    g.fillStyle = pathColour(p.index);
    g.fillRect(x.end + 3, top, 9, h);
  }

  labels(p, x, y, t, now) {
    const g = this.context, { theme } = this, w = this.width;
    g.font = "600 12px system-ui, sans-serif";
    g.fillStyle = theme.ink;
    g.textAlign = "left";
    g.fillText(p.name, 1, y + 15);
    const behind = 7 + g.measureText(p.name).width;
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = now.up ? theme.soft : theme.bad;
    const rate = p.rate ? rateText(p.rate) : "varying rate";
    g.fillText(now.up ? `${rate}, ${p.delay / 1e6} ms` : "down", behind, y + 15);
    g.textAlign = "right";
    g.fillStyle = theme.soft;
    if (w > 420) g.fillText(`queue ${kilo(now.ahead)} of ${kilo(p.queue)} kB`, w - 1, y + 15);
    // the congestion window, and what of it is used
    const top = y + lane.top + lane.height + 14, most = Math.max(p.largest, 1), window = p.window(t);
    const room = w - 190;
    g.textAlign = "left";
    g.fillText("window", 1, top + 6);
    g.strokeStyle = theme.soft;
    g.strokeRect(50.5, top - 1.5, Math.max(1, room * window / most), 8);
    g.fillStyle = theme.accent;
    g.fillRect(51, top - 1, Math.max(0, room * Math.min(now.flight, most) / most), 7);
    g.fillStyle = theme.soft;
    g.textAlign = "right";
    g.fillText(`${kilo(now.flight)} of ${kilo(window)} kB`, w - 1, top + 6);
  }

  // receiver shows what waits there, and for what: head-of-line blocking.
  receiver(trace, t, y) {
    const g = this.context, { theme } = this, w = this.width;
    const held = trace.held(t), buffer = trace.header.buffer;
    g.font = "600 12px system-ui, sans-serif";
    g.textAlign = "left";
    g.fillStyle = theme.ink;
    g.fillText("receiver", 1, y + 8);
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = theme.soft;
    g.fillText(held ? `holds ${kilo(held)} kB` + (buffer ? ` of ${kilo(buffer)}` : "") + " that cannot be read yet" : "has everything in order", 60, y + 8);
    if (!held) return;
    let line = 0;
    for (const s of trace.streams) {
      if (line === strips) break;
      if (s.arrive > t || s.done <= t) continue;
      const next = after(s.readAt, t);
      if (s.got.at(t) <= s.bytesUpTo(next)) continue;
      this.strip(trace, s, next, t, y + 18 + 20 * line++);
    }
  }

  // strip draws a stream's segments from the first missing one on.
  strip(trace, s, next, t, y) {
    const g = this.context, { theme } = this;
    const colour = streamColour(s.id);
    g.fillStyle = theme.ink;
    g.textAlign = "left";
    g.fillText("stream " + s.id, 1, y + 9);
    const left = 62, end = this.width - 108;
    let x = left, last = next;
    for (let k = next; k < Math.min(s.segments, next + 2000); k++) if (s.gotAt[k] <= t) last = k;
    for (let k = next; k <= last && x + cell < end;) {
      const there = s.gotAt[k] <= t;
      let run = 1;
      while (k + run <= last && (s.gotAt[k + run] <= t) === there) run++;
      x = there ? this.present(x, y, Math.min(run, Math.floor((end - x) / cell)), colour) : this.absent(x, y, run);
      k += run;
    }
    g.fillStyle = theme.soft;
    g.fillText("waits: " + whereIs(trace, s, next, t), x + 5, y + 9);
  }

  // present draws segments that are there, absent some that are missing, many of
  // them as one box with their number; both give where they end.
  present(x, y, n, colour) {
    this.context.fillStyle = colour;
    for (let i = 0; i < n; i++) this.context.fillRect(x + i * cell, y, cell - 2, 10);
    return x + n * cell;
  }

  absent(x, y, n) {
    const g = this.context, many = n > 4, boxes = many ? 1 : n, wide = many ? 30 : cell;
    g.strokeStyle = this.theme.bad;
    g.setLineDash([2, 1.5]);
    for (let i = 0; i < boxes; i++) g.strokeRect(x + i * wide + 0.5, y + 0.5, wide - 3, 9);
    g.setLineDash([]);
    if (many) {
      g.font = "9px system-ui, sans-serif";
      g.fillStyle = this.theme.bad;
      g.textAlign = "center";
      g.fillText(n, x + wide / 2 - 1, y + 8.5);
      g.font = "11px system-ui, sans-serif";
      g.textAlign = "left";
    }
    return x + boxes * wide;
  }
}

// whereIs tells on which path a segment is under way.
function whereIs(trace, s, k, t) {
  const c = trace.columns;
  for (const p of trace.paths) {
    const [lo, hi] = p.active(t);
    for (let i = lo; i < hi; i++) {
      if (c.stream[i] === s.index && c.segment[i] - s.first === k && c.end[i] > t) return "on " + p.name;
    }
  }
  return s.sentAt[k] <= t ? "lost" : "not sent";
}

export const share = (t, from, to) => (to <= from ? 1 : Math.min(1, Math.max(0, (t - from) / (to - from))));
export const kilo = (bytes) => (bytes >= 1e5 || bytes === 0 ? Math.round(bytes / 1e3) : (bytes / 1e3).toFixed(1));
const rateText = (r) => (r >= 1e9 ? `${r / 1e9} Gbit/s` : r >= 1e6 ? `${r / 1e6} Mbit/s` : `${r / 1e3} kbit/s`);

function box(g, x, y, w, h, colour, again, paper) {
  g.fillStyle = colour;
  g.fillRect(x, y, w, h);
  if (again) {
    g.fillStyle = paper;
    g.fillRect(x + w * 0.25, y + 4, w * 0.5, h - 8);
  }
}

function cross(g, x, y, r, colour, alpha) {
  g.globalAlpha = alpha;
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.beginPath();
  g.moveTo(x - r, y - r); g.lineTo(x + r, y + r);
  g.moveTo(x - r, y + r); g.lineTo(x + r, y - r);
  g.stroke();
  g.lineWidth = 1;
  g.globalAlpha = 1;
}
