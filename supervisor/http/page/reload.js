// The configuration: what reading the file again would change, and the order to do it.

import { Refused } from "./api.js";
import { button, make, say } from "./dom.js";
import { counted, listed } from "./format.js";

const KINDS = {
  live: ["ok", "live", "Nobody notices."],
  reconnect: ["attention", "reconnect", "A link is made anew."],
  restart: ["attention", "restart", "A process starts anew."],
  destructive: ["problem", "destructive", "Something that is kept is given up."],
};

export class Reload {
  constructor(app, host) {
    this.app = app;
    this.look = button("Show the plan", () => this.plan(), { role: "view" });
    this.apply = button("Apply it", () => this._apply(), { kind: "primary", role: "admin" });
    this.apply.hidden = true;
    this.note = make("p", { class: "summary", role: "status" });
    this.rows = make("ul", { class: "changes" });
    this.stale = make("p", { class: "fine" });
    host.append(this.stale, make("div", { class: "bar-of-tools" }, this.look, this.apply), this.note, this.rows);
  }

  async plan() {
    try {
      this._show(await this.app.api.get("reload"));
    } catch (error) {
      this._refused(error);
    }
  }

  _show(plan) {
    this.found = plan;
    this.rows.replaceChildren(...plan.changes.map((one) => {
      const [verdict, word, meaning] = KINDS[one.kind] ?? ["none", one.kind, ""];
      const badge = make("span", { class: `badge s-${verdict}`, title: meaning }, word);
      const whom = one.of?.length ? make("span", { class: "fine" }, `: ${listed(one.of)}`) : "";
      return make("li", {}, badge, make("div", {}, make("bdi", {}, one.text || `${one.path}: ${one.what}`), whom));
    }));
    this.apply.hidden = plan.unchanged || !plan.changes.length || !this.app.may("admin");
    say(this.note, this.apply.hidden && (plan.unchanged || !plan.changes.length) ? "The file says what runs: nothing would change." : `${counted(plan.changes.length, "change")}${plan.destructive ? ", one of them destructive" : ""}.`);
  }

  async _apply() {
    const { destructive, changes } = this.found;
    const text = destructive ? "One of these changes gives something up for good. The plan says which." : "Bridges that do not change keep their connections, and clients stay connected.";
    if (!(await this.app.confirm(`Apply ${counted(changes.length, "change")}?`, text, "Apply"))) return;
    await this.app.act("configuration", async () => {
      try {
        await this.app.api.post("reload", { yes: destructive });
        this.apply.hidden = true;
        this.rows.replaceChildren();
        say(this.note, "Applied.");
        return "applied";
      } catch (error) {
        this._refused(error);
        throw error;
      }
    });
  }

  _refused(error) {
    this.apply.hidden = true;
    const unable = error instanceof Refused && [404, 501].includes(error.status);
    say(this.note, unable ? "This node cannot read its configuration again while it runs; restart it." : `The file is not taken: ${error.message}`);
  }
}
