// The configuration: the file that runs, what reading it again would change, and the order to do it.

import { button, icon, make, say } from "./dom.js";
import { count, counted, listed } from "./format.js";
import { sentence } from "./rows.js";

const HOWS = {
  live: ["ok", "live", "Nobody notices."],
  reconnect: ["attention", "reconnects", "A link is made anew."],
  restart: ["attention", "restarts", "A process starts anew."],
  "node-restart": ["problem", "not while it runs", "Only a restart of the node applies it."],
  destructive: ["problem", "destructive", "Something that is kept is given up."],
};

export class Reload {
  constructor(app, section) {
    this.app = app;
    this.parts = [section, document.querySelector(`.contents a[href="#${section.id}"]`).parentElement];
    this.file = make("p", { class: "summary" });
    this.look = button("Show the plan", () => this.plan(), { role: "view" });
    this.apply = button("Apply it …", () => this._apply(), { kind: "primary", role: "admin" });
    this.apply.hidden = true;
    this.note = make("p", { class: "summary", role: "status" });
    this.rows = make("ul", { class: "changes" });
    section.lastElementChild.append(this.file, make("div", { class: "bar-of-tools" }, this.look, this.apply), this.note, this.rows);
    this.show({ status: {} });
  }

  /** The part is there for a node that says which configuration it goes by: such a node can read it again. */
  show({ status }) {
    const { file, read_at: readAt, changed_files: changed = [], pending = [] } = status.configuration ?? {};
    for (const one of this.parts) one.hidden = !file;
    if (!file) return;
    const since = changed.length ? `Changed since then: ${listed(changed)}.` : "Nothing of it has changed on the disk since then.";
    const late = pending.length ? ` Not taken yet by ${listed(pending)}.` : "";
    say(this.file, `${file}, read at ${readAt.slice(0, 19).replace("T", " ")}. ${since}${late}`);
  }

  async plan() {
    try {
      this._show(await this.app.api.get("reload/plan"));
    } catch (error) {
      this.apply.hidden = true;
      this.rows.replaceChildren();
      say(this.note, `There is no plan: ${error.message}.`);
    }
  }

  _show(plan) {
    this.found = plan;
    this.rows.replaceChildren(...plan.changes.map(planRow), ...plan.problems.map((text) => make("li", {}, icon("problem"), make("div", {}, make("bdi", {}, text)))));
    this.destructive = plan.changes.filter((one) => one.how === "destructive").length;
    this.apply.hidden = !plan.changes.length || plan.refused !== null;
    const of = this.destructive ? `; ${count(this.destructive)} would give something up for good` : "";
    const changes = plan.changes.length ? `${counted(plan.changes.length, "change")}${of}.` : "";
    const refused = plan.problems.length ? "The file does not hold:" : sentence(plan.refused ?? "");
    say(this.note, [changes, refused].filter(Boolean).join(" ") || "The file says what runs: nothing would change.");
  }

  async _apply() {
    const text = this.destructive ? "One of these changes or more gives something up for good. The plan says which." : "Bridges that do not change keep their connections, and clients stay connected.";
    if (!(await this.app.confirm(`Apply ${counted(this.found.changes.length, "change")}?`, text, "Apply"))) return;
    await this.app.act("Configuration", async () => {
      const seen = this.found;
      this._show(await this.app.api.get("reload/plan"));
      if (JSON.stringify(seen) !== JSON.stringify(this.found)) throw new Error("the plan is another one now, and nothing was applied");
      const answer = await this.app.api.post("reload", { yes: this.destructive > 0 });
      this._show(answer);
      if (!answer.applied) throw new Error(answer.refused || "it was not applied");
      this.apply.hidden = true;
      say(this.note, `${counted(answer.changes.length, "change")} applied.`);
      return "applied";
    });
  }
}

/** One change of a plan. */
export function planRow({ what, how, target, detail }) {
  const [verdict, word, meaning] = HOWS[how] ?? ["none", how, ""];
  const more = [target && !what.includes(target) ? target : "", detail].filter(Boolean).join(": ");
  return make("li", {}, make("span", { class: `badge s-${verdict}`, title: meaning }, word), make("div", {}, make("bdi", {}, what), " ", make("bdi", { class: "fine" }, more)));
}
