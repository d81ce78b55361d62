// A trace is a window of a run, as internal/simulate/watch/trace.go writes it.
// This module reads it and answers one question: what was so at a time? Nothing
// here depends on what was asked before, so time can be scrubbed.

const magic = "weftrun1";
const kinds = { f64: Float64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array };

export const fates = { travels: 0, arrived: 1, dropped: 2, lost: 3, failed: 4 };
export const flags = { again: 1, missed: 2 };

// load asks the server to run a scenario; it throws an Error that says what is wrong.
export async function load(query, signal) {
  const answer = await fetch("/trace?" + query, { signal });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return new Trace(await answer.arrayBuffer());
}

// after gives how many of the first n sorted values are at most t, from lo on.
export function after(sorted, t, lo = 0, hi = sorted.length) {
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (sorted[mid] <= t) lo = mid + 1; else hi = mid;
  }
  return lo;
}

export class Trace {
  constructor(buffer) {
    const view = new DataView(buffer);
    if (new TextDecoder().decode(new Uint8Array(buffer, 0, 8)) !== magic) throw new Error("The server's answer is no trace: was it upgraded? Reload the page.");
    const length = view.getUint32(8, true);
    this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, length)));
    const c = {};
    for (const x of this.header.columns) c[x.name] = new kinds[x.type](buffer, 12 + length + x.offset, x.count);
    this.columns = c;
    const { from, to } = this.header;
    this.from = from;
    this.to = to;
    this.paths = this.header.paths.map((p, i) => preparePath(p, i, c, this.header));
    this.prepareStreams();
  }

  // prepareStreams finds for each segment when it was first sent and first
  // received, and from that, for each stream, what was there when.
  prepareStreams() {
    const { columns: c, header: h } = this;
    const rows = c.sent.length;
    const all = h.streams.map((s, index) => ({ ...s, index, done: s.done < 0 ? Infinity : s.done, first: Math.floor(s.base / h.mss), segments: 0 }));
    for (let i = 0; i < rows; i++) {
      const s = all[c.stream[i]];
      if (s && c.segment[i] >= s.first) s.segments = Math.max(s.segments, c.segment[i] - s.first + 1);
    }
    for (const s of all) {
      s.sentAt = new Float64Array(s.segments).fill(Infinity);
      s.gotAt = new Float64Array(s.segments).fill(Infinity);
      s.seen = new Float64Array(s.segments).fill(-1);
    }
    for (let i = 0; i < rows; i++) {
      const s = all[c.stream[i]];
      const k = s ? c.segment[i] - s.first : -1;
      if (k < 0) continue;
      s.sentAt[k] = Math.min(s.sentAt[k], c.sent[i]);
      if (c.fate[i] === fates.arrived) s.gotAt[k] = Math.min(s.gotAt[k], c.end[i]);
    }
    const read = [], got = [];
    for (const s of all) {
      s.bytes = (k) => (s.size < 0 ? h.mss : Math.min(h.mss, s.size - (s.first + k) * h.mss));
      s.readAt = s.gotAt.slice();
      for (let k = 1; k < s.segments; k++) s.readAt[k] = Math.max(s.readAt[k], s.readAt[k - 1]);
      s.bytesUpTo = (k) => { // of the first k segments
        const end = (s.first + k) * h.mss;
        return (s.size < 0 ? end : Math.min(end, s.size)) - s.base;
      };
      s.sent = steps(Array.from(s.sentAt, (t, k) => [t, s.bytes(k)]));
      s.got = steps(Array.from(s.gotAt, (t, k) => [t, s.bytes(k)]));
      for (let k = 0; k < s.segments; k++) {
        read.push([s.readAt[k], s.bytes(k)]);
        got.push([s.gotAt[k], s.bytes(k)]);
      }
    }
    this.streams = all;
    this.read = steps(read);
    this.got = steps(got);
    this.base = h.before.bytes + all.reduce((sum, s) => sum + s.base, 0);
    this.frame = 0;
  }

  // delivered gives bytes read in order by the receiver, since the run began.
  delivered(t) { return this.base + this.read.at(t); }

  // held gives bytes that wait at the receiver for something missing.
  held(t) { return this.got.at(t) - this.read.at(t); }

  // waiting tells whether the scheduler has data and room, and waits.
  waiting(t) {
    const i = after(this.columns.wait_from, t) - 1;
    return i >= 0 && t < this.columns.wait_to[i];
  }

  // stream gives one stream's bytes: read in order, received, ever sent.
  stream(s, t) {
    const order = s.base + s.bytesUpTo(after(s.readAt, t));
    return { order, got: s.base + s.got.at(t), sent: s.base + s.sent.at(t) };
  }

  // flight gives for each stream the bytes on their way that are not yet received
  // by another copy.
  flight(t) {
    const out = this.inFlight ??= new Float64Array(this.streams.length);
    out.fill(0);
    const c = this.columns;
    this.frame++;
    for (const p of this.paths) {
      const [lo, hi] = p.active(t);
      for (let i = lo; i < hi; i++) {
        if (c.end[i] <= t) continue;
        const s = this.streams[c.stream[i]];
        const k = s ? c.segment[i] - s.first : -1;
        if (k < 0 || s.gotAt[k] <= t || s.seen[k] === this.frame) continue;
        s.seen[k] = this.frame;
        out[s.index] += c.bytes[i];
      }
    }
    return out;
  }

  // events gives the times worth going to.
  get events() {
    const h = this.header, c = this.columns, list = [];
    for (const s of h.streams) list.push(s.arrive, s.done);
    for (const x of h.changes) list.push(x.at);
    for (let i = 0; i < c.end.length; i++) if (c.fate[i] > fates.arrived) list.push(c.end[i]);
    return list.filter((t) => t >= this.from && t <= this.to).sort((a, b) => a - b);
  }

  // completed gives of the streams of the window how many are complete, and how
  // long they took on average.
  completed(t) {
    let count = 0, sum = 0, open = 0;
    for (const s of this.streams) {
      if (s.done <= t) { count++; sum += s.done - s.arrive; } else if (s.arrive <= t) open++;
    }
    return { count, mean: count ? sum / count : 0, open };
  }
}

// steps makes a sum that grows by some bytes at some times.
function steps(pairs) {
  pairs = pairs.filter((p) => p[0] < Infinity).sort((a, b) => a[0] - b[0]);
  const at = new Float64Array(pairs.length), sum = new Float64Array(pairs.length + 1);
  pairs.forEach(([t, n], i) => { at[i] = t; sum[i + 1] = sum[i] + n; });
  return { times: at, sum, at: (t) => sum[after(at, t)] };
}

function preparePath(p, index, c, h) {
  const [a, b] = p.packets, [wa, wb] = p.windows;
  // no packet before overMax[i] > t is under way at t
  const overMax = new Float64Array(b - a);
  const ends = [[], [], [], [], []];
  for (let i = a, most = -Infinity; i < b; i++) {
    most = Math.max(most, c.end[i], c.known[i]);
    overMax[i - a] = most;
    if (c.end[i] < Infinity) ends[c.fate[i]].push(c.end[i]);
  }
  const sorted = ends.map((list) => Float64Array.from(list).sort());
  const out = { ...p, index, a, b, largest: 0 };
  out.active = (t) => [a + after(overMax, t), after(c.sent, t, a, b)];
  out.window = (t) => c.window[Math.max(wa, after(c.window_at, t, wa, wb) - 1)];
  for (let i = wa; i < wb; i++) out.largest = Math.max(out.largest, c.window[i]);
  out.up = (t) => {
    let up = true;
    for (const x of h.changes) if (x.path === index && x.at <= t) up = x.up;
    return up;
  };
  out.counts = (t) => {
    const n = (fate) => after(sorted[fate], t);
    const sent = after(c.sent, t, a, b) - a;
    const x = { arrived: n(1), dropped: n(2), lost: n(3), failed: n(4), sent: p.before.sent + sent, queued: 0, flying: 0, flight: 0 };
    const [lo, hi] = out.active(t);
    for (let i = lo; i < hi; i++) {
      if (c.known[i] > t) x.flight += c.bytes[i];
      if (c.end[i] <= t) continue;
      if (c.left[i] > t) x.queued++; else x.flying++;
    }
    for (const k of ["arrived", "dropped", "lost", "failed"]) x[k] += p.before[k];
    return x;
  };
  return out;
}
