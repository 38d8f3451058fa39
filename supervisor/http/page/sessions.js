// Local clients and their sessions, page by page, with search; disconnect a client, end a session.

import { button, make, say } from "./dom.js";
import { part } from "./api.js";
import { bytes, count, counted, lasting, moment } from "./format.js";

const PAGE = 50;
const TITLES = ["Client", "User", "State", "Since", "Expires", "Subscriptions", "Waiting", "In flight", ""];

export class Sessions {
  constructor(app, host) {
    this.app = app;
    this.summary = make("p", { class: "summary" });
    this.search = make("input", { type: "search", placeholder: "Find clients", "aria-label": "Find clients by identifier", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.looking = true; this._soon(); });
    this.which = make("select", { "aria-label": "Which clients" }, make("option", { value: "" }, "All"), make("option", { value: "yes" }, "Connected"), make("option", { value: "no" }, "Away"));
    this.which.addEventListener("change", () => { this.looking = true; this.load(); });
    this.body = make("tbody", {});
    const heads = TITLES.map((title) => make("th", { scope: "col" }, title || make("span", { class: "vh" }, "Orders")));
    this.note = make("p", { class: "fine" });
    this.found = make("p", { class: "vh", role: "status" }); // read out for who is looking for something, and only then
    this.first = button("From the start", () => this.load());
    this.next = button("Next page", () => this.load(this.after));
    this.table = make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body));
    this.table.hidden = true;
    host.append(this.summary, make("div", { class: "bar-of-tools" }, make("div", { class: "filter" }, this.search), make("div", { class: "choice" }, this.which), button("Refresh", () => this.load())),
      this.table, make("div", { class: "pages" }, this.first, this.next, this.note), this.found);
    this.first.hidden = this.next.hidden = true;
    this.wait = 0;
    this.asked = 0;
    this.seen = "";
  }

  show({ status }, visible) {
    const { clients = 0, sessions = {} } = status.listener ?? {};
    const kept = status.store?.sessions ?? {};
    const queued = kept.depth ? `; ${counted(kept.depth, "message")} (${bytes(kept.bytes)}) wait for them` : "";
    say(this.summary, `${counted(clients, "client")} connected; ${counted(kept.kept ?? 0, "session")} kept${queued}.`);
    const state = JSON.stringify([clients, sessions, kept.kept, kept.connected]);
    if (visible && state !== this.seen) {
      this.seen = state;
      this.load();
    }
  }

  /** Ask for the page behind ``after``. What was asked before and comes late is not shown. */
  async load(after = "") {
    const number = (this.asked += 1);
    const words = this.search.value.trim();
    const query = { after, count: PAGE, like: words ? `*${words.replace(/[[*?]/g, "[$&]")}*` : "", connected: this.which.value };
    try {
      const { sessions, next } = await this.app.api.get("sessions", query);
      if (number !== this.asked) return;
      this.body.replaceChildren(...sessions.map((row) => this._row(row)));
      this.table.hidden = !sessions.length;
      this.after = next;
      this.first.hidden = !after;
      this.next.hidden = next === null || next === undefined;
      say(this.note, sessions.length ? "" : words || this.which.value ? "No client is like that here." : "No session is kept, and nobody is connected.");
      if (this.looking) say(this.found, sessions.length ? `${counted(sessions.length, "client")}${next ? " or more" : ""}` : this.note.textContent);
      this.looking = false;
      this.app.allow();
    } catch (error) {
      say(this.note, `They cannot be listed: ${error.message}.`);
    }
  }

  _soon() {
    clearTimeout(this.wait);
    this.wait = setTimeout(() => this.load(), 250);
  }

  _row(row) {
    const name = row.client_id;
    const state = row.connected ? `connected${row.address ? ` from ${row.address}` : ""}` : "away";
    const expires = row.expires_ms ? `in ${lasting((row.expires_ms - Date.now()) / 1000)}` : row.connected ? "–" : "never";
    const values = [name === "" ? "(no name)" : name, row.user ?? "–", state, row.since_ms ? moment(row.since_ms) : "–", expires, count(row.subscriptions), `${count(row.depth)} (${bytes(row.bytes)})`, count(row.in_flight)];
    const cells = values.map((value, at) => make("td", { class: at === 0 ? "text" : "", "data-label": TITLES[at] }, make("bdi", {}, value)));
    const orders = make("div", { class: "orders" });
    if (row.connected) orders.append(button("Disconnect", () => this._disconnect(name), { role: "operate", label: `Disconnect ${name}` }));
    orders.append(button("End …", () => this._end(row), { role: "admin", label: `End the session of ${name}` }));
    return make("tr", {}, ...cells, make("td", { "data-label": "Orders" }, orders));
  }

  async _disconnect(name) {
    await this.app.act(`${name}: disconnect`, async () => {
      const { kept } = await this.app.api.post(`sessions/${part(name)}/disconnect`);
      return kept ? "disconnected; its session is kept" : "disconnected; its session has ended with it";
    });
    this.load();
  }

  async _end(row) {
    const text = `Its ${counted(row.subscriptions, "subscription")} and ${counted(row.depth, "message")} in its queue go for good, and its Will is published.`;
    if (!(await this.app.confirm(`End the session of ${row.client_id}?`, text, "End it"))) return;
    await this.app.act(`${row.client_id}: end`, async () => {
      const { purged } = await this.app.api.remove(`sessions/${part(row.client_id)}`);
      return `session ended; ${counted(purged, "message")} went with it`;
    });
    this.load();
  }
}
