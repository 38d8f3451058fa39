// Each bridge as a card: state, reason, queue, rates and latency over time, and the orders an operator may give.

import { badge, button, keyed, make, say, setAll, turnIcon } from "./dom.js";
import { part } from "./api.js";
import { bytes, count, counted, duration, lasting, rate, share, UNKNOWN } from "./format.js";
import { bridgesOf, remoteOf } from "./rows.js";
import { Histogram, Sparkline } from "./plots.js";
import { most as worst } from "./history.js";
import { merged, quantile, withPast } from "./samples.js";

const PAST_S = 10800; // of the plots
const CARDS_FIRST = 24;
const LATENCY = "From acceptance to settlement of what was delivered. A lone message shows about 30 ms: its acknowledgement is read within 20 ms, and settlements are gathered for 50 ms.";
const WORDS = { backoff: "no connection" }; // of states whose name in ``status`` says little
const FACTS = ["Waiting", "Size", "Queue full", "Oldest waits", "Drains in", "Dead letters"];

export class Bridges {
  constructor(app) {
    this.app = app;
    this.host = document.getElementById("cards");
    this.cards = new Map();
    this.words = "";
    this.all = false;
    this._tools(document.getElementById("bridge-tools"));
  }

  _tools(host) {
    this.search = make("input", { type: "search", placeholder: "Find a bridge", "aria-label": "Find a bridge", spellcheck: "false" });
    this.search.addEventListener("input", () => this.again());
    this.troubled = make("button", { type: "button", class: "chip", "aria-pressed": "false" }, "In trouble");
    this.troubled.addEventListener("click", () => {
      setAll(this.troubled, { "aria-pressed": String(this.troubled.getAttribute("aria-pressed") !== "true") });
      this.again();
    });
    this.more = button("", () => { this.all = true; this.again(); }, { kind: "quiet show-more" });
    this.add = button("New bridge …", () => this.app.bridgeForm.make(), { kind: "quiet show-more", role: "admin" });
    this.shown = make("span", { class: "count" });
    host.append(make("div", { class: "filter" }, this.search), this.troubled, this.shown);
    this.host.after(this.more, this.add, make("p", { class: "fine" }, `Latency: ${LATENCY.charAt(0).toLowerCase()}${LATENCY.slice(1)}`));
    this.bar = host;
  }

  again() {
    if (this.state) this.show(this.state);
  }

  show(state) {
    this.state = state;
    const bridges = bridgesOf(state.status);
    this.bar.hidden = bridges.length < 5;
    const wanted = bridges.filter(([name]) => name.includes(this.search.value.trim())
      && (this.troubled.getAttribute("aria-pressed") !== "true" || state.judgement.bridges.get(name).verdict !== "ok"));
    const shown = this.all ? wanted : wanted.slice(0, CARDS_FIRST);
    say(this.shown, wanted.length === bridges.length ? `${bridges.length} bridges` : `${wanted.length} of ${bridges.length} bridges`);
    this.more.hidden = shown.length === wanted.length;
    say(this.more, `Show ${wanted.length - shown.length} more`);
    keyed(this.host, shown, ([name]) => name, ([name]) => {
      const card = new Card(this.app, name);
      this.cards.set(name, card);
      return card.element;
    }, (_, [name, rows]) => this.cards.get(name).show(rows, state));
  }
}

class Card {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.badge = badge("none", "");
    this.how = make("span", {});
    this.reason = make("a", { href: `#trouble-${name}` });
    this.why = make("p", { class: "why" }, this.how, " ", this.reason);
    this.facts = new Map();
    const list = make("dl", {});
    for (const title of FACTS) {
      const value = make("dd", {});
      this.facts.set(title, value);
      list.append(make("div", {}, make("dt", {}, title), value));
    }
    this.depth = new Sparkline("Waiting", [""], count);
    this.flow = new Sparkline("In and out", ["in", "out"], rate);
    this.latency = new Sparkline("Latency", ["half", "99 %"], duration);
    this.latency.element.title = LATENCY;
    this.spread = new Histogram("All latencies", duration);
    this.spread.element.title = LATENCY;
    this.plots = make("div", { class: "small-plots" }, this.depth.element, this.flow.element, this.latency.element, this.spread.element);
    this.orders = make("div", { class: "orders" });
    this._orders();
    this.details = make("div", { class: "figures" });
    const more = make("details", { class: "more" }, make("summary", {}, "All figures"), this.details);
    more.addEventListener("toggle", () => { if (this.rows) this._figures(); });
    this.more = more;
    const title = make("h3", { id: `t-${name}` }, make("bdi", {}, name), make("span", { class: "remote" }));
    this.remote = title.lastChild;
    this.element = make("article", { class: "card", id: `b-${name}`, "aria-labelledby": `t-${name}`, tabindex: "-1" },
      make("header", {}, title, this.badge), this.why, list, this.plots, more, this.orders);
  }

  _orders() {
    const order = (verb) => this.app.act(`${this.name}: ${verb}`, () => this.app.api.post(`bridges/${part(this.name)}/${verb}`));
    this.pause = button("Pause", () => order("pause"), { role: "operate", label: `Pause ${this.name}` });
    this.resume = button("Resume", () => order("resume"), { role: "operate", label: `Resume ${this.name}` });
    this.restart = button("Restart", () => order("restart"), { role: "operate", label: `Restart ${this.name}` });
    this.restart.title = "Start its processes anew, and connect at once; outside its hours it stays closed";
    const look = button("Queue", () => this.app.queues.open(this.name), { label: `Look into the queue of ${this.name}` });
    const change = button("Change …", () => this.app.bridgeForm.change(this.name), { role: "admin", label: `Change ${this.name}` });
    this.orders.append(this.pause, this.resume, this.restart, look, change);
  }

  show(rows, state) {
    this.rows = rows;
    this.nowMs = state.nowMs;
    const found = state.judgement.bridges.get(this.name);
    const series = state.series.get(this.name);
    setAll(this.element, { class: `card s-${found.verdict}` });
    setAll(this.badge, { class: `badge s-${found.verdict}` });
    turnIcon(this.badge.firstChild, found.verdict);
    say(this.badge.lastChild, WORDS[found.word] ?? found.word);
    const addresses = [...new Set(rows.map(remoteOf).filter(Boolean))];
    say(this.remote, `${addresses.length ? `to ${addresses.join(", ")}` : "not connected"}${rows.length > 1 ? `, ${rows.length} lanes` : ""}`);
    this._why(rows, found);
    this._facts(rows);
    const sum = (name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
    const past = (points, figure, join) => withPast(state.history.points(this.name, figure, join), points, state.nowMs, PAST_S);
    this.depth.show([past(series.depths(), "depth")], count(sum("depth")));
    this.flow.show([past(series.rates("accepted"), "rate_in"), past(series.rates("delivered"), "rate_out")], `${rate(sum("rate_in"))} in, ${rate(sum("rate_out"))} out`);
    this._latency(rows, series, past);
    const paused = rows.some((row) => row.paused_since_ms !== null && row.paused_since_ms !== undefined);
    this.pause.hidden = paused;
    this.resume.hidden = !paused;
    if (this.more.open) this._figures();
  }

  /** How it is, in a sentence. Why it is so, if it is in trouble, is told above and not here again. */
  _why(rows, found) {
    const number = found.troubles.length;
    this.reason.hidden = !number;
    say(this.reason, number > 1 ? `${number} things to look at` : "Why, and what to do");
    setAll(this.reason, { "aria-label": `${this.name}: ${this.reason.textContent}` });
    const sinceS = Math.min(...rows.map((row) => row.since_s ?? Infinity));
    const since = sinceS === Infinity ? "" : ` for ${lasting(sinceS)}`;
    const word = { backoff: "No connection", connected: "Connected", closed: "Closed by choice", paused: "Paused" }[found.word] ?? `It is ${found.word}`;
    const lasts = found.word === "paused" ? ` for ${lasting((this.nowMs - (rows[0].paused_since_ms ?? this.nowMs)) / 1000)}` : ["backoff", "connecting"].includes(found.word) ? downFor(rows) : since;
    const depth = rows.reduce((total, row) => total + (row.depth ?? 0), 0);
    const drainS = Math.max(...rows.map((row) => row.drain_s ?? 0));
    const drains = found.word === "connected" && depth && drainS >= 1 ? `; ${counted(depth, "message")} on the way, all gone in about ${lasting(drainS)}` : "";
    const reason = rows.find((row) => row.state === "closed")?.reason;
    const why = found.word !== "closed" ? "" : depth && reason === IDLE ? ": it connects when more waits, or for longer" : `: ${reason}`;
    say(this.how, `${word}${lasts}${drains}${why}.`);
  }

  _facts(rows) {
    const sum = (name) => (rows.every((row) => row[name] === null) ? null : rows.reduce((total, row) => total + (row[name] ?? 0), 0));
    const oldest = Math.max(...rows.map((row) => row.oldest_age_s ?? -1));
    const drain = rows.some((row) => row.drain_s === null) ? null : Math.max(...rows.map((row) => row.drain_s));
    const best = rows.some((row) => (row.drain_at_best_s ?? null) === null) ? null : Math.max(...rows.map((row) => row.drain_at_best_s));
    const values = {
      Waiting: count(sum("depth")),
      Size: bytes(sum("bytes")),
      "Queue full": share(rows[0].full),
      "Oldest waits": oldest < 0 ? UNKNOWN : lasting(oldest),
      "Drains in": sum("depth") === 0 ? UNKNOWN : drain !== null ? lasting(drain) : best === null ? "not now" : `${lasting(best)} at best`,
      "Dead letters": count(rows[0].dead_letters?.held ?? 0),
    };
    for (const [title, value] of Object.entries(values)) say(this.facts.get(title), value);
  }

  _latency(rows, series, past) {
    const whole = merged(rows.map((row) => row.end_to_end_seconds).filter(Boolean));
    const all = quantile(whole, 0.5);
    const half = series.latencies(0.5), most = series.latencies(0.99);
    const now = most.at(-1)?.[1] ?? null;
    this.latency.show([past(half, "latency_p50_s", worst), past(most, "latency_p99_s", worst)], now === null ? UNKNOWN : `99 % below ${duration(now)}`);
    this.spread.show(whole ?? { bounds: [], counts: [] }, all === null ? UNKNOWN : `half below ${duration(all)}`);
  }

  _figures() {
    const leaves = this.rows.flatMap((row) => leavesOf(row, this.rows.length > 1 ? `lane ${row.lane}: ` : ""));
    if (!this.details.firstChild) this.details.append(make("dl", { class: "all" }));
    keyed(this.details.firstChild, leaves, ([path]) => path, ([path]) => make("div", {}, make("dt", {}, path), make("dd", {})), (element, [, value]) => say(element.lastChild, value));
  }
}

const IDLE = "nothing is to be sent"; // as the node has it

/** For how long no lane that is down has had a connection. */
const downFor = (rows) => ` for ${lasting(Math.max(...rows.map((row) => row.down_s ?? 0)))}`;

/** All figures of a lane by their paths, as ``bascule status CONFIG BRIDGE`` has them. */
function leavesOf(value, prefix, path = "") {
  if (Array.isArray(value)) return value.length ? [[prefix + path, value.map((one) => (typeof one === "object" ? JSON.stringify(one) : String(one))).join(", ")]] : [];
  if (value !== null && typeof value === "object") return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, prefix, path ? `${path}.${key}` : key));
  return value === null || value === "" ? [] : [[prefix + path, String(value)]];
}
