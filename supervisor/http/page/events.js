// What happened, newest first, by kind and by word. New events are fetched from the number that was the next one.

import { icon, keyed, make, say, setAll } from "./dom.js";
import { clock, count, lasting } from "./format.js";

const KEPT = 1000;
const ROWS_FIRST = 25;
const PAGE = 200;
const BAD = new Set(["link.failed", "link.down", "process.ended", "disk.full", "messages.dropped", "messages.dead", "messages.expired", "overflow.began", "message.suspected", "message.given_up", "remote.limited", "clock.jumped", "events.lost", "node.reload_refused"]);
const GOOD = new Set(["link.up", "disk.available", "overflow.ended", "bridge.resumed", "snapshot.made"]);

/** The events of the node that the page has, by number. */
export class EventLog {
  constructor(api) {
    this.api = api;
    this.events = [];
    this.next = null;
  }

  /** Fetch what is new; ``kept`` and ``next`` are the store's figures. */
  async fetch({ kept = 0, next = 0 } = {}) {
    if (this.next === null || next < this.next) {
      this.events = [];
      this.next = Math.max(0, next - Math.min(kept, KEPT));
    }
    while (this.next < next) {
      const answer = await this.api.get("events", { from: this.next, count: PAGE });
      this.events.push(...answer.events);
      const reached = answer.next ?? (answer.events.length ? answer.events.at(-1).number + 1 : next);
      if (reached <= this.next) break;
      this.next = reached;
    }
    this.events.sort((one, other) => one.at_ms - other.at_ms || one.number - other.number);
    if (this.events.length > KEPT) this.events.splice(0, this.events.length - KEPT);
  }
}

/** ``problem`` for what is bad news, ``ok`` for what is good, ``none`` for the rest. */
export function newsOf(event) {
  return BAD.has(event.kind) ? (event.kind === "process.ended" && event.reason === "ordered" ? "none" : "attention") : GOOD.has(event.kind) ? "ok" : "none";
}

/** What an event says beside kind and place. */
export function wordsOf(event) {
  const words = [];
  if (event.reason) words.push(event.reason);
  if (event.count) words.push(`count ${count(event.count)}`);
  for (const [name, value] of Object.entries(event.details ?? {})) words.push(`${name} ${value}`);
  return words.join(" · ");
}

const placeOf = (event) => (event.bridge ? (![0, -1].includes(event.lane) ? `${event.bridge}:${event.lane}` : event.bridge) : event.actor);

export class EventTable {
  constructor(host) {
    this.kinds = new Map();
    this.most = ROWS_FIRST;
    this.off = new Set();
    this.search = make("input", { type: "search", placeholder: "Filter events", "aria-label": "Filter events", spellcheck: "false" });
    this.search.addEventListener("input", () => this.again());
    this.chips = make("div", { class: "chips", role: "group", "aria-label": "Kinds of events" });
    this.number = make("span", { class: "count" });
    this.body = make("tbody", {});
    const heads = ["Time", "Kind", "Where", "What"].map((title) => make("th", { scope: "col" }, title));
    this.more = make("button", { type: "button", class: "quiet show-more" }, "Show more");
    this.more.addEventListener("click", () => { this.most += 4 * ROWS_FIRST; this.again(); });
    host.append(make("div", { class: "bar-of-tools" }, make("div", { class: "filter" }, this.search), this.number), this.chips,
      make("div", { class: "scroll event-rows" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body)), this.more);
  }

  again() {
    if (this.state) this.show(this.state);
  }

  show(state) {
    this.state = state;
    const { events, nowMs } = state;
    this._kinds(events);
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = events.filter((one) => !this.off.has(one.kind) && words.every((word) => `${one.kind} ${placeOf(one)} ${wordsOf(one)}`.toLowerCase().includes(word))).reverse();
    say(this.number, wanted.length === events.length ? `${count(events.length)} events` : `${count(wanted.length)} of ${count(events.length)} events`);
    this.more.hidden = wanted.length <= this.most;
    keyed(this.body, wanted.slice(0, this.most), (one) => one.number, newRow, (row, one) => {
      say(row.firstChild.firstChild, clock(one.at_ms, nowMs));
      setAll(row.firstChild.firstChild, { title: `${lasting((nowMs - one.at_ms) / 1000)} ago` });
    });
  }

  _kinds(events) {
    const counts = new Map();
    for (const one of events) counts.set(one.kind, (counts.get(one.kind) ?? 0) + 1);
    keyed(this.chips, [...counts].sort(([one], [other]) => (one < other ? -1 : 1)), ([kind]) => kind, ([kind]) => this._chip(kind), (chip, [kind, number]) => {
      say(chip, `${kind} ${count(number)}`);
      setAll(chip, { "aria-pressed": String(!this.off.has(kind)) });
    });
  }

  _chip(kind) {
    const chip = make("button", { type: "button", class: "chip kind" });
    chip.addEventListener("click", () => {
      if (this.off.has(kind)) this.off.delete(kind);
      else this.off.add(kind);
      this.again();
    });
    return chip;
  }
}

function newRow(one) {
  const kind = make("td", { class: "state", "data-label": "Kind" }, icon(newsOf(one)), " ", one.kind);
  return make("tr", {}, make("td", { class: "time", "data-label": "Time" }, make("time", { datetime: new Date(one.at_ms).toISOString() })), kind,
    make("td", { "data-label": "Where" }, make("bdi", {}, placeOf(one))), make("td", { class: "text", "data-label": "What" }, make("bdi", {}, wordsOf(one))));
}
