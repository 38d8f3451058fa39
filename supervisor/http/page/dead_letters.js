// Dead letters of each bridge: what they died of, the messages, and the orders to replay or purge them.

import { button, keyed, make, say } from "./dom.js";
import { part } from "./api.js";
import { bytes, count, counted, duration } from "./format.js";
import { QueueExport } from "./queue_export.js";
import { deathOf } from "./reasons.js";
import { bridgesOf } from "./rows.js";

const SHOWN = 5;
const MORE = 100;
const PAGE = 500;

export class DeadLetters {
  constructor(app, host) {
    this.app = app;
    this.nothing = make("p", { class: "nothing" }, "None: the remotes took everything.");
    this.list = make("div", { class: "dead-list" });
    this.open = new Map();
    host.append(this.nothing, this.list);
  }

  show({ status }) {
    const held = bridgesOf(status).map(([name, rows]) => [name, rows[0].dead_letters ?? {}]).filter(([, dead]) => dead.held);
    this.nothing.hidden = held.length > 0;
    keyed(this.list, held, ([name]) => name, ([name]) => {
      const one = new DeadQueue(this.app, name);
      this.open.set(name, one);
      return one.element;
    }, (_, [name, dead]) => this.open.get(name).show(dead));
  }
}

class DeadQueue {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.summary = make("p", { class: "summary" });
    this.reasons = make("ul", { class: "reasons-list" });
    this.purge = button("Purge …", () => this._purge(), { role: "admin", label: `Purge the dead letters of ${name}` });
    this.export = button("Export", () => this._export(), { role: "operate", label: `Export the dead letters of ${name}` });
    this.replay = button("Replay all", () => this._replay(null), { role: "operate", label: `Replay all dead letters of ${name}` });
    this.replay.title = "Put them back at the end of the queue, oldest first";
    const titles = ["Number", "Died", "Reason", "Topic", "QoS", "Size", "Waited", "Payload"];
    this.titles = titles;
    this.body = make("tbody", {});
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)))), this.body);
    this.beyond = make("p", { class: "fine" });
    this.more = button("Show more", () => { this.most = MORE; this._load(); }, { kind: "quiet show-more" });
    this.more.hidden = true;
    this.scroll = make("div", { class: "scroll" }, table);
    this.scroll.hidden = true;
    this.element = make("article", { class: "dead-queue" }, make("header", {}, make("h3", {}, make("bdi", {}, name)), make("div", { class: "orders" }, this.replay, this.export, this.purge)),
      this.summary, this.reasons, this.scroll, this.more, this.beyond);
    this.seen = "";
    this.most = SHOWN;
  }

  show(dead) {
    this.dead = dead;
    say(this.summary, `${counted(dead.held, "dead letter")}, ${bytes(dead.bytes)}${dead.damaged ? `, ${count(dead.damaged)} damaged` : ""}. Replayed so far: ${count(dead.replayed ?? 0)}; purged: ${count(dead.purged ?? 0)}; given up for want of room: ${count(dead.evicted ?? 0)}.`);
    keyed(this.reasons, Object.entries(dead.reasons ?? {}), ([reason]) => reason, ([reason]) => this._reason(reason), (item, [reason, number]) => say(item.firstChild, `${count(number)} ${deathOf(reason)}`));
    this.reasons.hidden = Object.keys(dead.reasons ?? {}).length < 2;
    const state = JSON.stringify([dead.held, dead.bytes, dead.replayed, dead.purged, dead.evicted]);
    if (state !== this.seen) {
      this.seen = state;
      this._load();
    }
  }

  _reason(reason) {
    const of = `dead letters of ${this.name} with reason ${reason}`;
    return make("li", {}, make("span", {}), button("Replay these", () => this._replay(reason), { role: "operate", label: `Replay ${of}` }),
      button("Purge these …", () => this._purge(reason), { role: "admin", label: `Purge ${of}` }));
  }

  async _load() {
    try {
      const kind = this.app.may("operate") ? "messages" : "outline";
      const { messages } = await this.app.api.get(`queues/${part(this.name)}/${kind}`, { dead: "yes", count: this.most });
      this._rows(messages);
    } catch (error) {
      say(this.beyond, `They cannot be listed: ${error.message}.`);
    }
  }

  _rows(messages) {
    this.body.replaceChildren(...messages.map((one) => {
      const died = typeof one.dead_at === "string" ? one.dead_at.slice(0, 19).replace("T", " ") : "–";
      const values = one.damaged ? [count(one.seq), "–", "damaged", "", "", "", "", ""]
        : [count(one.seq), died, deathOf(one.reason), one.topic, String(one.qos), bytes(one.size), duration(one.age_s), one.payload ?? "–"];
      return make("tr", {}, ...values.map((value, at) => make("td", { class: at === 3 || at === 7 ? "text" : "", "data-label": this.titles[at] }, make("bdi", {}, value))));
    }));
    this.scroll.hidden = !messages.length;
    this.more.hidden = this.dead.held <= messages.length || this.most === MORE;
    const rest = this.dead.held > messages.length ? `The first ${messages.length} of ${count(this.dead.held)}. ` : "";
    say(this.beyond, `${rest}${this.app.may("operate") ? "" : "To see payloads a token wants the role operate."}`);
  }

  async _replay(reason) {
    await this.app.act(`${this.name}: replay`, async () => {
      let from = 0, tail = null, replayed = 0, damaged = 0, full = false;
      while (from !== null && (tail === null || from < tail) && !full) {
        const page = await this.app.api.post(`queues/${part(this.name)}/replay`, { from, count: PAGE, ...(reason === null ? {} : { reason }) });
        tail ??= page.tail; // what dies again meanwhile is not replayed again
        from = page.next;
        replayed += page.replayed;
        damaged += page.damaged;
        full = page.full;
      }
      const rest = `${damaged ? `; ${count(damaged)} are damaged and stay` : ""}${full ? "; the queue is full, the others stay" : ""}`;
      return `${counted(replayed, "message")} back in the queue${rest}`;
    });
  }

  async _export() {
    if (this.running) {
      this.running.stop();
      return;
    }
    this.running = new QueueExport(this.app.api, (text) => say(this.beyond, text));
    say(this.export, "Stop the export");
    await this.app.act(`${this.name}: export`, () => this.running.run({ bridge: this.name, dead: true }));
    say(this.export, "Export");
    this.running = null;
  }

  /** Remove the dead letters that died of ``reason``; without one, all. */
  async _purge(reason = null) {
    const what = reason === null ? `${counted(this.dead.held, "dead letter")} (${bytes(this.dead.bytes)})` : `${counted(this.dead.reasons[reason], "dead letter")}, ${deathOf(reason)},`;
    const sure = await this.app.confirm(`Purge dead letters of ${this.name}?`, `${what} will be removed for good. Export first what may be wanted.`, "Purge them", { typed: this.name });
    if (!sure) return;
    await this.app.act(`${this.name}: purge`, async () => {
      let purged = 0, from = reason === null ? null : 0;
      do {
        const page = await this.app.api.post(`queues/${part(this.name)}/purge`, { dead: true, ...(reason === null ? {} : { reason, from }) });
        purged += page.purged;
        from = page.next;
      } while (from !== null);
      return `${counted(purged, "dead letter")} purged`;
    });
  }
}
