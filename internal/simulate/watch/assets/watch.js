// The page of weft sim watch: puts together what the other modules draw.
import { Bars, assign, bytes, seconds } from "./bars.js";
import { Chart, strip, summarise } from "./chart.js";
import { Clock } from "./clock.js";
import { theme } from "./colours.js";
import { Controls } from "./controls.js";
import { Net, kilo } from "./net.js";
import { load, after } from "./trace.js";

const $ = (id) => document.getElementById(id);
const main = $("main");

class Side {
  constructor(section, seek) {
    this.section = section;
    this.name = section.dataset.side;
    this.facts = section.querySelector(".facts");
    this.wait = section.querySelector(".wait");
    this.bars = new Bars(section.querySelector(".streams"));
    this.net = new Net(section.querySelector(".net"));
    this.chart = new Chart(section.querySelector(".chart svg"), seek);
  }

  draw(t, written, still, colours) {
    const { trace } = this;
    this.bars.draw(t, still);
    this.net.draw(trace, t, colours);
    this.chart.draw(t);
    const waits = trace.waiting(t);
    if (this.wait.hidden === waits) this.wait.hidden = !waits;
    if (written) this.write(t);
  }

  // write says in words and figures what is drawn.
  write(t) {
    const { trace, section } = this, x = trace.completed(t);
    const delivered = trace.delivered(t), held = trace.held(t);
    const open = trace.header.before.streams ? ` (before: ${trace.header.before.streams})` : "";
    this.facts.replaceChildren(
      strong(bytes(delivered)), " delivered, ", strong(bytes(held)), " held; ",
      strong(`${x.count} complete`), `${open}${x.count ? `, ${seconds(x.mean)} on average` : ""}, ${x.open} open`,
    );
    Object.assign(section.dataset, { t, delivered, held, open: x.open, complete: x.count, waits: trace.waiting(t) });
  }
}

const strong = (text) => Object.assign(document.createElement("b"), { textContent: text });

class Page {
  constructor() {
    this.seek = (t) => this.clock.seek(t);
    this.sides = [...document.querySelectorAll(".side")].map((s) => new Side(s, this.seek));
    this.clock = new Clock((t, still) => this.draw(t, still), () => this.state());
    this.controls = new Controls(this.clock, { reload: () => this.load(), moved: () => this.remember(), event: (step) => this.event(step) });
    this.colours = theme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    new ResizeObserver(() => this.resized()).observe(main);
  }

  resized() {
    if (this.width === main.clientWidth) return;
    this.width = main.clientWidth;
    this.build();
  }

  // load has the simulations run, and then shows them. A newer call wins.
  async load() {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    document.querySelector(".sides").setAttribute("aria-busy", "true");
    const shown = this.sides.filter((s) => this.controls.scheduler(s.name));
    for (const s of this.sides) s.section.classList.toggle("empty", !shown.includes(s));
    this.remember();
    try {
      const traces = await Promise.all(shown.map((s) => load(this.controls.query(s.name), abort.signal)));
      shown.forEach((s, i) => (s.trace = traces[i]));
      this.shown = shown;
      const first = !this.loaded;
      if (!first) this.problem(""); // at first the server may have found one
      this.loaded = true;
      this.build();
      if (first) this.controls.begin();
    } catch (error) {
      if (error.name === "AbortError" || abort.signal.aborted) return;
      this.problem(error.message);
    }
    document.querySelector(".sides").setAttribute("aria-busy", "false");
  }

  problem(text) {
    $("problem").hidden = !text;
    $("problem").textContent = text;
  }

  // build prepares all that does not change with time.
  build() {
    if (!this.loaded) return;
    this.colours = theme();
    const traces = this.shown.map((s) => s.trace);
    const from = traces[0].from;
    const cut = traces.filter((t) => t.header.cut);
    const to = cut.length ? Math.min(...cut.map((t) => t.to)) : Math.max(...traces.map((t) => t.to));
    const { places, left } = assign(traces);
    const data = traces.map((t) => summarise(t, from, to));
    this.shown.forEach((s, i) => {
      s.bars.build(traces[i], places, traces, this.colours);
      s.net.resize(traces[i]);
      s.chart.build(traces[i], data[i], data, from, to);
    });
    strip($("marks"), traces, from, to, this.colours);
    this.events = [...new Set(traces.flatMap((t) => t.events))].sort((a, b) => a - b);
    this.controls.more(cut.length ? to : 0, left);
    this.clock.span(from, to);
  }

  draw(t, still) {
    if (!this.loaded) return;
    const now = performance.now();
    // Words are written five times a second, each side's in another picture.
    const due = still || !(now - this.written < 200 / this.shown.length);
    if (due) {
      this.written = now;
      this.turn = (this.turn + 1) % this.shown.length || 0;
    }
    this.shown.forEach((s, i) => s.draw(t, still || (due && i === this.turn), still, this.colours));
    const written = still || (due && this.turn === 0);
    this.controls.show(t, written);
    if (!written) return;
    if (document.querySelector(".figures").open || still) this.figures(t);
    if (still) this.said(t);
  }

  figures(t) {
    const rows = this.shown.flatMap((s) => s.trace.paths.map((p) => {
      const n = p.counts(t), tr = document.createElement("tr");
      for (const x of [this.controls.scheduler(s.name), p.name, n.sent, n.queued, n.flying, n.arrived, n.dropped, n.lost + n.failed, kilo(n.flight), kilo(p.window(t))]) {
        tr.append(Object.assign(document.createElement("td"), { textContent: x }));
      }
      Object.assign(tr.dataset, { side: s.name, path: p.name, ...n, window: p.window(t) });
      return tr;
    }));
    $("figures").tBodies[0].replaceChildren(...rows);
  }

  // said tells a screen reader what a still picture shows.
  said(t) {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      $("said").textContent = `${seconds(t)}. ` + this.shown.map((s) => `${this.controls.scheduler(s.name)}: ${s.facts.textContent}`).join(". ");
    }, 400);
  }

  // event goes to the next event (1) or the one before (-1).
  event(step) {
    const { events } = this, i = after(events, this.clock.t);
    const to = step > 0 ? events[i] : events.findLast((t) => t < this.clock.t);
    this.clock.pause();
    this.clock.seek(to ?? (step > 0 ? this.clock.to : this.clock.from));
  }

  state() {
    this.controls.playing(this.clock.playing);
    if (!this.clock.playing) this.controls.soon(this.controls.moved);
  }

  // remember keeps in the address what is shown.
  remember() {
    history.replaceState(null, "", "/?" + this.controls.address());
  }
}

const page = new Page();
await page.load();
if ("measure" in main.dataset) (await import("./measure.js")).measure(page);
