// Bridges made, changed and removed: a form of what most bridges need, or the text of the bridge's file; the plan; the consent to it.

import { Refused, part } from "./api.js";
import { faultsOf, putAt, textOf, valueAt } from "./bridge_text.js";
import { button, make, say, setAll } from "./dom.js";
import { counted } from "./format.js";
import { planRow } from "./reload.js";

const LIST = "list"; // one in a line
const FIELDS = [
  { path: "name", title: "Name", needed: true, help: "Letters, digits, - and _. It stays what it is." },
  { path: "remote.addresses", title: "Addresses of the remote", kind: LIST, needed: true, help: "host, host:port or a URL such as mqtts://host; one in a line, tried in turn." },
  { path: "remote.client_id", title: "Client identifier", needed: true, help: "The remote keeps the session under it; no other client may have it." },
  { path: "remote.transport", title: "Transport", choices: ["", "tcp", "tls", "ws", "wss"], help: "tls and wss encrypt; ws and wss are WebSocket." },
  { path: "remote.protocol", title: "Protocol", choices: ["", "auto", "mqtt5", "mqtt311"], help: "MQTT 5.0 or 3.1.1; auto takes what the remote lets it in by." },
  { path: "remote.username", title: "User name", help: "At the remote, if it wants one." },
  { path: "remote.password_file", title: "File with the password", help: "Below the folder of the configuration, on the node." },
  { path: "local_subscriptions.0.filters", title: "Topics to the remote", kind: LIST, help: "Topic filters, one in a line; # is everything." },
  { path: "local_subscriptions.0.destination", title: "Their names there", help: "{#} is the whole topic: site-7/{#} puts site-7/ before it." },
  { path: "remote_subscriptions.0.filters", title: "Topics from the remote", kind: LIST, help: "Topic filters at the remote, one in a line." },
];
const PATHS = FIELDS.map((one) => one.path);

export class BridgeForm {
  constructor(app, dialog) {
    this.app = app;
    this.dialog = dialog;
    this.title = make("h2", { id: "bridge-form-title" });
    this.fields = new Map(FIELDS.map((one) => [one.path, new Field(one)]));
    this.rest = make("p", { class: "fine" });
    this.form = make("div", { class: "fields" }, ...[...this.fields.values()].map((one) => one.element), this.rest);
    this.text = make("textarea", { id: "bridge-text", rows: 16, spellcheck: "false", "aria-describedby": "bridge-faults" });
    this.asText = make("div", { class: "field" }, make("label", { for: "bridge-text" }, "The bridge's file (YAML)"), this.text);
    this.faults = make("ul", { class: "faults", id: "bridge-faults", role: "alert" });
    this.note = make("p", { class: "summary", role: "status" });
    this.changes = make("ul", { class: "changes" });
    this.look = button("Show what it changes", () => this._plan(), { kind: "primary" });
    this.apply = button("Apply it …", () => this._apply(), { kind: "primary" });
    this.turn = button("Write it as text", () => this._turn());
    this.remove = button("Remove the bridge …", () => this._remove());
    const close = button("Close", () => dialog.close());
    dialog.append(this.title, this.form, this.asText, this.faults, this.note, this.changes, make("div", { class: "choices" }, this.remove, this.turn, close, this.look, this.apply));
    setAll(dialog, { "aria-labelledby": "bridge-form-title" });
    dialog.addEventListener("input", () => this._forget());
  }

  /** Begin a new bridge. */
  make() {
    this._open(null, { local_subscriptions: [{ filters: ["#"] }] }, "");
  }

  /** Change the bridge ``name``, if it can be; else say why not. */
  async change(name) {
    try {
      const { bridge, text, reasons } = await this.app.api.get(`bridges/${part(name)}`);
      if (reasons.length) this.app.say(`${name} cannot be changed here: ${reasons.join("; ")}.`, true);
      else this._open(name, bridge, text);
    } catch (error) {
      this.app.say(`${name} cannot be changed here: ${error.message}.`, true);
    }
  }

  _open(name, bridge, text) {
    this.name = name;
    this.bridge = bridge;
    say(this.title, name === null ? "A new bridge" : `Change ${name}`);
    for (const [path, field] of this.fields) field.have(valueAt(bridge, path));
    this.fields.get("name").input.readOnly = name !== null;
    const others = keysOf(bridge).filter((key) => !PATHS.some((path) => key === path || key.startsWith(`${path}.`)));
    say(this.rest, others.length ? `As they are stay: ${[...new Set(others)].join(", ")}. To change these, write it as text.` : "");
    this.text.value = text;
    this._show(/(^|\s)#/m.test(text)); // comments would be lost with the form
    this.remove.hidden = name === null;
    this._forget();
    this.dialog.showModal();
    (this.asText.hidden ? this.fields.get(name === null ? "name" : "remote.addresses").input : this.text).focus();
  }

  _show(asText) {
    this.form.hidden = asText;
    this.asText.hidden = !asText;
    this.turn.hidden = asText;
  }

  _turn() {
    this.text.value = this._textNow();
    this._show(true);
    this._forget();
    this.text.focus();
  }

  /** What was found out of what was written before holds no more. */
  _forget() {
    for (const field of this.fields.values()) field.complain([]);
    this.faults.replaceChildren();
    this.changes.replaceChildren();
    say(this.note, "");
    this.apply.hidden = true;
    this.look.hidden = false;
  }

  _textNow() {
    if (!this.asText.hidden) return this.text.value;
    const bridge = structuredClone(this.bridge);
    for (const [path, field] of this.fields) putAt(bridge, path, field.value);
    const { name, ...others } = bridge;
    return textOf({ name: name ?? "", ...others });
  }

  /** The bridge's name: the one that it has, or that was written. */
  _nameNow() {
    if (this.name !== null) return this.name;
    return this.asText.hidden ? this.fields.get("name").value ?? "" : /^\s*-?\s*name:\s*["']?([^"'\s#]+)/m.exec(this.text.value)?.[1] ?? "";
  }

  async _plan() {
    this._forget();
    const name = this._nameNow();
    if (!name) {
      this._refused("bridges[0].name: a bridge wants a name");
      return;
    }
    try {
      this._planned(await this.app.api.put(`bridges/${part(name)}?plan=true`, { text: this._textNow() }));
    } catch (error) {
      if (error instanceof Refused && error.kind === "invalid") this._refused(error.message);
      else say(this.note, `There is no plan: ${error.message}.`);
    }
  }

  _planned(plan) {
    this.found = plan;
    this.changes.replaceChildren(...plan.changes.map(planRow));
    this.lossy = plan.changes.filter((one) => one.how === "destructive");
    const lossy = this.lossy.length ? `; ${this.lossy.length} would give something up for good` : "";
    say(this.note, plan.refused ?? (plan.changes.length ? `${counted(plan.changes.length, "change")}${lossy}.` : "That is what runs: nothing would change."));
    this.apply.hidden = !plan.changes.length || plan.refused !== null;
    this.look.hidden = !this.apply.hidden;
    if (!this.apply.hidden) this.apply.focus();
  }

  _refused(message) {
    const { fields, others } = faultsOf(message.startsWith("bridges[") ? `:0:0: ${message}` : message, this.asText.hidden ? PATHS : []);
    for (const [path, texts] of fields) this.fields.get(path).complain(texts);
    this.faults.replaceChildren(...others.map(({ line, text }) => make("li", {}, make("bdi", {}, line && !this.asText.hidden ? `Line ${line}: ${text}` : text))));
    say(this.note, others.length ? "It does not hold." : "It does not hold: see what is marked.");
    const first = [...this.fields.entries()].find(([path]) => fields.has(path));
    if (first) first[1].input.focus();
  }

  async _apply() {
    const name = this._nameNow();
    if (!(await this._agreed(`Apply ${counted(this.found.changes.length, "change")} to ${name}?`, name, this.lossy, "Apply"))) return;
    const body = { text: this._textNow() }, seen = this.found;
    await this._order(`${name}: change`, async () => {
      this._planned(await this.app.api.put(`bridges/${part(name)}?plan=true`, body));
      if (JSON.stringify(seen) !== JSON.stringify(this.found)) throw new Error("the plan is another one now, and nothing was applied");
      return this.app.api.put(`bridges/${part(name)}${this.lossy.length ? "?yes=true" : ""}`, body);
    });
  }

  async _remove() {
    const name = this.name;
    let plan;
    try {
      plan = await this.app.api.remove(`bridges/${part(name)}?plan=true`);
    } catch (error) {
      say(this.note, `It cannot be removed: ${error.message}.`);
      return;
    }
    const lossy = plan.changes.filter((one) => one.how === "destructive");
    if (!(await this._agreed(`Remove the bridge ${name}?`, name, lossy, "Remove it"))) return;
    await this._order(`${name}: remove`, () => this.app.api.remove(`bridges/${part(name)}${lossy.length ? "?yes=true" : ""}`));
  }

  /** Whether it is meant: what gives something up is named, and wants the bridge's name written. */
  _agreed(title, name, lossy, yes) {
    const text = lossy.length ? "This gives up for good:" : "Nothing is given up. Other bridges keep their connections, and clients stay connected.";
    return this.app.confirm(title, text, yes, { typed: lossy.length ? name : "", details: lossy.map((one) => `${one.what}: ${one.detail}`) });
  }

  async _order(about, order) {
    await this.app.act(about, async () => {
      try {
        const answer = await order();
        if (!answer.applied) throw new Error(answer.refused || "it was refused");
      } catch (error) {
        say(this.note, `It was not applied: ${error.message}.`); // the line at the bottom lies behind this dialog
        throw error;
      }
      this.dialog.close();
      return "applied";
    });
  }
}

/** One input of the form, with its label, its help, and what is wrong with it. */
class Field {
  constructor({ path, title, kind = "", choices = null, needed = false, help }) {
    const id = `bridge-${path.replaceAll(".", "-")}`;
    this.kind = kind;
    const attributes = { id, "aria-describedby": `${id}-help ${id}-fault`, spellcheck: "false", autocomplete: "off", "aria-required": needed ? "true" : null };
    if (choices) this.input = make("select", attributes, ...choices.map((one) => make("option", { value: one }, one || "as it is by default")));
    else this.input = kind === LIST ? make("textarea", { rows: 2, ...attributes }) : make("input", { type: "text", ...attributes });
    this.fault = make("p", { class: "wrong", id: `${id}-fault` });
    this.element = make("div", { class: "field" }, make("label", { for: id }, title), this.input, make("p", { class: "fine", id: `${id}-help` }, help), this.fault);
  }

  have(value) {
    this.input.value = value === undefined || value === null ? "" : Array.isArray(value) ? value.join("\n") : String(value);
  }

  /** What was written; undefined where nothing was. */
  get value() {
    const text = this.input.value.trim();
    if (this.kind !== LIST) return text || undefined;
    const lines = text.split("\n").map((one) => one.trim()).filter(Boolean);
    return lines.length ? lines : undefined;
  }

  complain(texts) {
    say(this.fault, texts.join("; "));
    setAll(this.input, { "aria-invalid": texts.length ? "true" : null });
  }
}

/** The keys of ``map`` down to its values, without the numbers of what is in lists behind the first. */
function keysOf(map, before = "") {
  return Object.entries(map).flatMap(([key, value]) => {
    const path = before ? `${before}.${key}` : key;
    return value !== null && typeof value === "object" && Object.keys(value).length && !PATHS.includes(path) ? keysOf(value, path) : [path];
  });
}
