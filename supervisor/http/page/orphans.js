// Queues that no bridge of the configuration serves any more: what they hold, and the order to purge them.

import { button, keyed, make, say } from "./dom.js";
import { part } from "./api.js";
import { bytes, count, counted, lasting } from "./format.js";

const TITLES = ["Queue", "Messages", "Size", "Oldest waits", ""];

export class Orphans {
  constructor(app, section) {
    this.app = app;
    this.parts = [section, document.querySelector(`.contents a[href="#${section.id}"]`).parentElement];
    this.body = make("tbody", {});
    const heads = TITLES.map((title, at) => make("th", { scope: "col", class: at > 0 && at < 4 ? "number" : null }, title || make("span", { class: "vh" }, "Orders")));
    section.lastElementChild.append(make("p", { class: "summary" }, "They are kept until a bridge of that name is configured again, or until they are purged."),
      make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body)));
    this.show({ status: {} });
  }

  show({ status }) {
    const rows = status.unserved ?? [];
    for (const one of this.parts) one.hidden = !rows.length;
    keyed(this.body, rows, (row) => row.queue, (row) => this._create(row), (tr, row) => {
      const values = [row.queue, count(row.depth), bytes(row.bytes), lasting(row.oldest_age_s)];
      for (const [at, value] of values.entries()) say(tr.children[at].firstChild, value);
    });
  }

  _create({ queue }) {
    const cells = TITLES.slice(0, 4).map((title, at) => make("td", { class: at ? "number" : "text", "data-label": title }, make("bdi", {})));
    const purge = button("Purge …", () => this._purge(queue), { role: "admin", label: `Purge the queue ${queue}` });
    return make("tr", {}, ...cells, make("td", { "data-label": "Orders" }, make("div", { class: "orders" }, purge)));
  }

  /** ``queue`` is ``bridge:NAME:LANE``. */
  async _purge(queue) {
    const [, name, lane] = /^bridge:(.*):([^:]+)$/.exec(queue) ?? [];
    if (!(await this.app.confirm(`Purge ${queue}?`, `What waits there and was never sent is removed for good. bascule queue export CONFIG ${name} --to FILE saves it first.`, "Purge it", { typed: name }))) return;
    await this.app.act(`${queue}: purge`, async () => {
      const { purged, kept_lanes: kept } = await this.app.api.post(`queues/${part(name)}/purge`, { lane });
      return `${counted(purged, "message")} purged${kept.length ? `; what may have been sent stays (bascule queue purge CONFIG ${name} says why)` : ""}`;
    });
  }
}
