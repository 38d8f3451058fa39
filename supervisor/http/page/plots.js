// Small plots over time as SVG: lines from samples, and a histogram as bars.

import { keyed, make, say, setAll } from "./dom.js";
import { duration, lasting } from "./format.js";

const WIDTH = 240;
const HEIGHT = 48;
const DOWN = 5; // of the strip at the times at which the link was down: the foot of what is drawn, which nothing covers
const SPANS_S = [60, 120, 300, 900, 3600, 10800, 21600, 43200, 86400];

/** A plot with a title, its value now, and one or two lines of ``[seconds ago, value]``; it can be pointed at. */
export class Sparkline {
  constructor(title, names, write) {
    this.write = write;
    this.names = names;
    this.now = make("b", {});
    this.high = make("span", { class: "high" });
    this.areas = names.map((_, at) => make("path", { class: `area c${at}` }));
    this.lines = names.map((_, at) => make("path", { class: `line c${at}` }));
    this.marks = make("g", {});
    this.cursor = make("line", { class: "cursor-line", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.svg = make("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      make("line", { class: "grid zero", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }), ...this.areas.slice(0, 1), this.marks, ...this.lines, this.cursor);
    this.title = title;
    this.element = make("figure", { class: "small-plot" }, make("figcaption", {}, make("span", {}, title), this.now), this.svg, this.high);
    this.values = names.map(() => []);
    this.pointed = null;
    this.svg.addEventListener("pointermove", (event) => this._point(event));
    this.svg.addEventListener("pointerleave", () => this._leave());
  }

  /** Draw ``series``, one for each name; ``now`` is written beside the title. ``marks`` are times, ``[from, to]`` in seconds ago, at which the link was down. */
  show(series, now, marks = []) {
    const oldest = Math.max(0, ...series.map((points) => points[0]?.[0] ?? 0));
    this.spanS = SPANS_S.find((span) => span >= oldest) ?? SPANS_S.at(-1);
    this.values = series.map((points) => points.filter(([ago, value]) => value !== null && ago <= this.spanS));
    this.said = now;
    const down = marks.map(([from, to]) => [Math.min(from, this.spanS), to]).filter(([from, to]) => from > to);
    keyed(this.marks, down.map((one, at) => ({ one, at })), ({ at }) => at, () => make("rect", { class: "down", y: HEIGHT - DOWN, height: DOWN }), (rect, { one: [from, to] }) => setAll(rect, { x: this._x(from), width: ((WIDTH * (from - to)) / this.spanS).toFixed(1) }));
    const known = this.values.flat().map(([, value]) => value);
    const most = known.length ? Math.max(...known) : 0;
    this.most = most || 1;
    for (const [at, points] of this.values.entries()) {
      const path = points.map(([ago, value], index) => `${index ? "L" : "M"}${this._x(ago)} ${this._y(value)}`).join("");
      setAll(this.lines[at], { d: path });
      if (at === 0) setAll(this.areas[0], { d: points.length ? `${path}L${this._x(points.at(-1)[0])} ${HEIGHT}L${this._x(points[0][0])} ${HEIGHT}Z` : "" });
    }
    say(this.high, known.length ? `${duration(this.spanS)}, highest ${this.write(most)}` : "no figures yet");
    setAll(this.svg, { "aria-label": `${this.title} over the last ${duration(this.spanS)}: now ${now}${known.length ? `, highest ${this.write(most)}` : ""}${down.length ? "; its link was down within that time" : ""}` });
    setAll(this.high, { class: down.length ? "high down-too" : "high" });
    if (this.pointed === null) say(this.now, now);
    else this._tell();
  }

  _x(ago) {
    return (WIDTH * (1 - ago / this.spanS)).toFixed(1);
  }

  _y(value) {
    return (HEIGHT - 1 - (value / this.most) * (HEIGHT - 4)).toFixed(1);
  }

  _point(event) {
    const box = this.svg.getBoundingClientRect();
    this.pointed = this.spanS * (1 - (event.clientX - box.left) / box.width);
    this._tell();
  }

  _tell() {
    const near = this.values.map((points) => points.reduce((best, one) => (best && Math.abs(best[0] - this.pointed) <= Math.abs(one[0] - this.pointed) ? best : one), null));
    if (!near[0]) return;
    setAll(this.cursor, { x1: this._x(near[0][0]), x2: this._x(near[0][0]), visibility: "visible" });
    const values = near.map((one, at) => (one ? `${this.names[at]}${this.names[at] ? " " : ""}${this.write(one[1])}` : "")).filter(Boolean);
    say(this.now, `${lasting(near[0][0])} ago: ${values.join(", ")}`);
  }

  _leave() {
    this.pointed = null;
    setAll(this.cursor, { visibility: "hidden" });
    say(this.now, this.said);
  }
}

/** The bars of one histogram: how many messages took how long. */
export class Histogram {
  constructor(title, write) {
    this.write = write;
    this.title = title;
    this.svg = make("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.now = make("b", {});
    this.low = make("span", { class: "high" });
    this.element = make("figure", { class: "small-plot" }, make("figcaption", {}, make("span", {}, title), this.now), this.svg, this.low);
  }

  /** Draw ``histogram``, from its first bar to its last that is not empty; ``now`` is written beside the title. */
  show(histogram, now) {
    const { bounds, counts } = histogram;
    const full = counts.map((number, at) => (number ? at : -1)).filter((at) => at >= 0);
    const [first, last] = full.length ? [full[0], full.at(-1)] : [0, 0];
    const most = Math.max(...counts, 1);
    const wide = WIDTH / (last - first + 1);
    const bars = counts.slice(first, last + 1).map((number, at) => {
      const high = number ? Math.max(2, (number / most) * (HEIGHT - 2)) : 0;
      return make("rect", { class: "bar c0", x: (at * wide + 0.5).toFixed(1), width: Math.max(1, wide - 1).toFixed(1), y: (HEIGHT - high).toFixed(1), height: high.toFixed(1) });
    });
    this.svg.replaceChildren(...bars);
    const low = first ? this.write(bounds[first - 1]) : "0 s";
    const high = !bounds.length ? "" : last < bounds.length ? this.write(bounds[last]) : `more than ${this.write(bounds.at(-1))}`;
    say(this.low, full.length ? `${low} to ${high}` : "no figures yet");
    say(this.now, now);
    setAll(this.svg, { "aria-label": full.length ? `${this.title}: ${now}, ${low} to ${high}` : `${this.title}: no figures yet` });
  }
}
