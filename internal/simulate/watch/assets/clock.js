// The clock: which time is shown, and how fast it goes.

// Seconds of the simulation a second of the watch.
export const speeds = [1 / 1000, 1 / 500, 1 / 200, 1 / 100, 1 / 50, 1 / 20, 1 / 10, 1 / 5, 1 / 2, 1, 2, 5, 10, 20];
export const speedText = (s) => (s >= 1 ? `${s}×` : `1/${Math.round(1 / s)}`);
const calm = 500; // milliseconds between pictures, for those who want less motion

export class Clock {
  // draw(t, still) is called when there is something new to show.
  constructor(draw, changed) {
    this.draw = draw;
    this.changed = changed;
    this.t = this.from = this.to = 0;
    this.speed = 1 / 20;
    this.playing = false;
    this.reduced = matchMedia("(prefers-reduced-motion: reduce)");
    this.tick = this.tick.bind(this);
  }

  // span sets what there is to show; the time stays where it can.
  span(from, to) {
    this.from = from;
    this.to = to;
    this.seek(this.t);
  }

  seek(t) {
    this.t = Math.min(this.to, Math.max(this.from, t));
    this.last = undefined;
    this.ask();
  }

  play() {
    if (this.t >= this.to) this.t = this.from;
    this.playing = true;
    this.last = undefined;
    this.ask();
    this.changed();
  }

  pause() {
    this.playing = false;
    this.ask();
    this.changed();
  }

  ask() {
    if (!this.pending) this.pending = requestAnimationFrame(this.tick);
  }

  tick(now) {
    this.pending = 0;
    if (this.playing && this.to > this.from) {
      const passed = this.last === undefined ? 0 : now - this.last;
      if (this.reduced.matches && this.last !== undefined && passed < calm) {
        this.ask();
        return;
      }
      this.last = now;
      // a page that was hidden goes on where it was
      this.t = Math.min(this.to, this.t + Math.min(passed, this.reduced.matches ? 2 * calm : 100) * 1e6 * this.speed);
      if (this.t >= this.to) {
        this.playing = false;
        this.changed();
      }
    }
    this.draw(this.t, !this.playing);
    if (this.playing) this.ask();
  }
}
