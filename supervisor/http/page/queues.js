// A look into the queue of a lane: its messages page by page, those that rules hold behind them, and the orders to export and purge it.

import { part } from "./api.js";
import { button, keyed, make, say } from "./dom.js";
import { bytes, count, counted, lasting } from "./format.js";
import { QueueExport } from "./queue_export.js";

const PAGE = 50;
const TITLES = ["Number", "State", "Topic", "QoS", "Size", "Waits", "Payload"];
const STATES = { "handed out": "sent, or about to be", "maybe sent": "may have been sent", released: "the remote has it", held: "held by its rule" };

export class Queues {
  constructor(app, host) {
    this.app = app;
    this.which = make("select", { "aria-label": "Which queue" });
    this.which.addEventListener("change", () => this.load());
    this.refresh = button("Refresh", () => this.load());
    this.export = button("Export", () => this._export(), { role: "operate" });
    this.purge = button("Purge …", () => this._purge(), { role: "admin" });
    this.note = make("p", { class: "fine", role: "status" });
    this.body = make("tbody", {});
    const heads = TITLES.map((title) => make("th", { scope: "col", class: ["Number", "QoS", "Size"].includes(title) ? "number" : null }, title));
    this.table = make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body));
    this.first = button("From the start", () => this.load());
    this.next = button("Next page", () => this.load(this.following));
    host.append(make("div", { class: "bar-of-tools" }, make("div", { class: "choice" }, this.which), this.refresh, this.export, this.purge),
      this.table, make("div", { class: "pages" }, this.first, this.next, this.note));
    this.table.hidden = this.first.hidden = this.next.hidden = true;
    this.section = host.parentElement;
    this.parts = [this.section, document.querySelector(`.contents a[href="#${this.section.id}"]`).parentElement];
    this.asked = 0;
    this.seen = "";
  }

  show({ status }, visible) {
    this.rows = new Map((status.bridges ?? []).map((row) => [`${row.name}:${row.lane}`, row]));
    for (const one of this.parts) one.hidden = !this.rows.size;
    keyed(this.which, [...this.rows], ([key]) => key, ([key]) => make("option", { value: key }), (option, [, row]) => say(option, this._title(row)));
    if (visible && this.seen !== this.which.value) this.load();
  }

  /** Have the first lane of ``bridge`` in which something waits, and lead the reader there. */
  open(bridge) {
    const lanes = [...this.rows].filter(([, row]) => row.name === bridge);
    const [key] = lanes.find(([, row]) => row.depth) ?? lanes[0];
    this.which.value = key;
    this.section.scrollIntoView();
    this.which.focus({ preventScroll: true });
    this.load();
  }

  _title(row) {
    const several = [...this.rows.values()].filter((one) => one.name === row.name).length > 1;
    return `${row.name}${several ? `, lane ${row.lane}` : ""}: ${row.depth ? counted(row.depth, "message") : "nothing waits"}`;
  }

  /** The lane that is chosen. */
  get chosen() {
    return this.rows.get(this.which.value);
  }

  /** Show the page from ``from`` on; with ``held`` of what rules hold. What was asked before and comes late is not shown. */
  async load({ from = 0, held = false } = {}) {
    const row = this.chosen, number = (this.asked += 1);
    if (!row) return;
    this.seen = this.which.value;
    try {
      const kind = this.app.may("operate") ? "messages" : "outline";
      const answer = await this.app.api.get(`queues/${part(row.name)}/${kind}`, { lane: row.lane, from, count: PAGE, ...(held ? { held } : {}) });
      if (number !== this.asked) return;
      this.body.replaceChildren(...answer.messages.map(rowOf));
      this.table.hidden = !answer.messages.length;
      this.following = answer.next !== null ? { from: answer.next, held } : !held && row.held ? { held: true } : null;
      if (this.following?.held && !held && !answer.messages.length) return this.load(this.following);
      this.first.hidden = !from && !held;
      this.next.hidden = this.following === null;
      const unseen = kind === "outline" ? " To see payloads a token wants the role operate." : "";
      say(this.note, answer.messages.length ? `${counted(answer.messages.length, "message")}, looked at and left in the queue.${unseen}` : "Nothing waits here.");
    } catch (error) {
      if (number === this.asked) say(this.note, `It cannot be looked into: ${error.message}.`);
    }
  }

  async _export() {
    if (this.running) {
      this.running.stop();
      return;
    }
    const row = this.chosen;
    this.running = new QueueExport(this.app.api, (text) => say(this.note, text));
    say(this.export, "Stop the export");
    await this.app.act(`${row.name}: export`, () => this.running.run({ bridge: row.name, lane: row.lane, held: Boolean(row.held) }));
    say(this.export, "Export");
    this.running = null;
  }

  async _purge() {
    const row = this.chosen;
    const sure = await this.app.confirm(`Purge the queue of ${row.name}?`, `Up to ${counted(row.depth ?? 0, "message")} (${bytes(row.bytes)}) will be removed for good. What may have been sent stays. Export first what may be wanted.`, "Purge it", {
      typed: row.name,
      option: "Remove what may have been sent, too. The bridge then begins a new session at its remote.",
    });
    if (!sure) return;
    await this.app.act(`${row.name}: purge`, async () => {
      const { purged, kept } = await this.app.api.post(`queues/${part(row.name)}/purge`, { lane: row.lane, in_flight: sure.option });
      return `${counted(purged, "message")} purged${kept ? `; ${count(kept)} may have been sent, and stay` : ""}`;
    });
    this.load();
  }
}

function rowOf(one) {
  const values = [count(one.seq), STATES[one.state] ?? one.state, one.topic, `${one.qos}${one.retain ? ", retain" : ""}`, bytes(one.size), lasting(one.age_s), one.payload ?? "–"];
  const kinds = ["number", "", "text", "number", "number", "", "text"];
  return make("tr", {}, ...values.map((value, at) => make("td", { class: kinds[at], "data-label": TITLES[at] }, make("bdi", {}, value))));
}
