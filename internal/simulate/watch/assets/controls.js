// What the reader can change: time and speed by buttons and keys, schedulers,
// the values of the scenario. And the address, which holds it all.
import { speeds, speedText } from "./clock.js";

const $ = (id) => document.getElementById(id);

export class Controls {
  constructor(clock, { reload, moved, event }) {
    Object.assign(this, { clock, reload, moved, event });
    this.timers = new Map();
    this.given = new URLSearchParams(location.search);
    this.parameters = [...document.querySelectorAll("[data-key]")];
    this.transport();
    this.keys();
    this.settings();
  }

  transport() {
    const { clock } = this;
    $("play").addEventListener("click", () => (clock.playing ? clock.pause() : clock.play()));
    $("back").addEventListener("click", () => this.event(-1));
    $("forward").addEventListener("click", () => this.event(1));
    $("time").addEventListener("input", (e) => {
      clock.seek(clock.from + (e.target.value / e.target.max) * (clock.to - clock.from));
      this.soon(this.moved);
    });
    $("speed").append(...speeds.map((s, i) => new Option(speedText(s), i)));
    $("speed").addEventListener("change", (e) => this.pace(+e.target.value));
    const asked = speeds.findIndex((s) => speedText(s) === this.given.get("speed"));
    this.pace(asked >= 0 ? asked : speeds.indexOf(1 / 20));
    $("help-button").addEventListener("click", () => $("help").showModal());
  }

  pace(i) {
    i = Math.min(speeds.length - 1, Math.max(0, i));
    this.clock.speed = speeds[i];
    $("speed").value = i;
  }

  // keys are documented in the page's list and in docs/guides/multipath.md.
  keys() {
    document.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.altKey || e.metaKey || $("help").open) return;
      const at = e.target.closest("input, select, textarea, button, a, summary");
      const typing = at && at.matches("select, textarea, input:not(#time)");
      if (typing || (at && at.id !== "time" && (e.key === " " || e.key === "Enter"))) return;
      const step = (e.shiftKey ? 1e9 : 1e8) * this.clock.speed * 0.5;
      const act = {
        " ": () => (this.clock.playing ? this.clock.pause() : this.clock.play()),
        ArrowLeft: () => this.go(this.clock.t - step), ArrowRight: () => this.go(this.clock.t + step),
        Home: () => this.go(this.clock.from), End: () => this.go(this.clock.to),
        n: () => this.event(1), p: () => this.event(-1),
        "+": () => this.pace(+$("speed").value + 1), "=": () => this.pace(+$("speed").value + 1), "-": () => this.pace(+$("speed").value - 1),
        "?": () => $("help").showModal(),
      }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
      if (!act) return;
      e.preventDefault();
      act();
    });
  }

  go(t) {
    if (this.clock.playing) this.clock.pause();
    this.clock.seek(t);
    this.soon(this.moved);
  }

  settings() {
    $("settings").addEventListener("submit", (e) => e.preventDefault());
    $("scenario").addEventListener("change", () => $("choose").submit());
    for (const p of this.parameters) {
      this.mark(p);
      p.addEventListener("input", () => {
        this.mark(p);
        this.soon(this.reload);
      });
    }
    for (const side of ["a", "b"]) $("scheduler-" + side).addEventListener("change", () => this.reload());
  }

  value(p) { return p.tagName === "SELECT" ? p.value : p.dataset.stops.split("|")[p.value]; }

  mark(p) {
    const text = this.value(p);
    const output = p.parentElement.querySelector("output");
    if (output) {
      output.textContent = text;
      p.setAttribute("aria-valuetext", text);
    }
    p.parentElement.classList.toggle("changed", text !== p.dataset.base);
  }

  // soon calls each function once, when the reader has stopped moving something.
  soon(call) {
    clearTimeout(this.timers.get(call));
    this.timers.set(call, setTimeout(call, 180));
  }

  scheduler(side) { return $("scheduler-" + side).value; }

  changes(to) {
    for (const p of this.parameters) if (this.value(p) !== p.dataset.base) to.append("set", `${p.dataset.key}=${this.value(p)}`);
    return to;
  }

  // query is what the server is asked for.
  query(side) {
    const q = new URLSearchParams({ scenario: $("main").dataset.scenario, scheduler: this.scheduler(side) });
    if ($("main").dataset.from) q.set("from", $("main").dataset.from);
    return this.changes(q);
  }

  // address is the page's own.
  address(from = $("main").dataset.from, t = this.clock.t) {
    const q = new URLSearchParams({ scenario: $("main").dataset.scenario, a: this.scheduler("a"), b: this.scheduler("b") });
    this.changes(q);
    if (from) q.set("from", from);
    if (this.clock.speed !== 1 / 20) q.set("speed", speedText(this.clock.speed));
    if (!this.started && this.given.has("t")) q.set("t", this.given.get("t"));
    else if (t > 0) q.set("t", +(t / 1e9).toFixed(9));
    return q;
  }

  // begin goes to the time in the address; without one it plays, unless the
  // reader wants less motion.
  begin() {
    this.started = true;
    const t = parseFloat(this.given.get("t"));
    if (t >= 0) this.clock.seek(Math.round(t * 1e9));
    else if (!this.clock.reduced.matches) this.clock.play();
  }

  playing(now) {
    $("play").setAttribute("aria-label", now ? "Pause" : "Play");
    $("play").setAttribute("aria-pressed", now);
  }

  // show moves the scrubber to a time.
  show(t, written) {
    const { clock } = this, time = $("time");
    time.value = ((t - clock.from) / Math.max(1, clock.to - clock.from)) * time.max;
    const digits = clock.speed < 1 / 50 ? 4 : 3;
    $("clock").textContent = `${(t / 1e9).toFixed(digits)} / ${(clock.to / 1e9).toFixed(2)} s`;
    if (written) time.setAttribute("aria-valuetext", `${(t / 1e9).toFixed(digits)} seconds`);
  }

  // more leads to what comes after the window.
  more(from, left) {
    const link = $("more");
    link.hidden = !from;
    if (from) link.href = "/?" + this.address(`${from / 1e9}s`, 0);
    link.title = left ? `${left} streams have no room on this page` : "";
  }
}
