// Who may do what: users and rules by listener, and holders of tokens. The node tells no password, token or hash.

import { button, make, say } from "./dom.js";
import { count, counted } from "./format.js";

const RULES = ["", "What", "Topics", "Who"];
const ACTS = { publish: "publish", subscribe: "subscribe and get", both: "publish and get" };

export class Access {
  constructor(app, host) {
    this.app = app;
    this.note = make("p", { class: "fine", role: "status" });
    this.list = make("div", { class: "dead-list" });
    this.refresh = button("Refresh", () => this.load(), { role: "operate" });
    this.nobody = make("p", { class: "nothing" }, "To see users and rules a token wants the role operate.");
    host.append(make("div", { class: "bar-of-tools" }, this.refresh), this.nobody, this.list, this.note);
    this.loaded = null;
  }

  /** Files are read for it, so it is asked for once it is seen, and after each change of the configuration. */
  show({ status }, visible) {
    this.nobody.hidden = this.app.may("operate");
    const state = status.configuration?.read_at ?? "";
    if (!visible || this.loaded === state || !this.app.may("operate")) return;
    this.loaded = state;
    this.load();
  }

  async load() {
    try {
      const { listeners, tokens, problems } = await this.app.api.get("access");
      this.list.replaceChildren(...listeners.map(ofListeners), ofTokens(tokens, problems));
      say(this.note, "");
    } catch (error) {
      say(this.note, `They cannot be listed: ${error.message}.`);
    }
  }
}

const names = (values) => values.flatMap((one, at) => [at ? ", " : "", make("bdi", {}, one)]);

function ofListeners(one) {
  const guests = one.allow_anonymous ? "Clients without a user name are let in." : "Nobody is let in without a user name.";
  const more = one.users_count > one.users.length ? `, and ${count(one.users_count - one.users.length)} more` : "";
  const users = one.users_file ? make("p", {}, `${counted(one.users_count, "user")}${one.users_count ? ": " : ""}`, ...names(one.users), more, make("span", { class: "fine" }, ` (${one.users_file})`)) : "";
  const rules = one.rules === null ? make("p", {}, "Without a list of rules, everybody may publish and get everything.") : rulesOf(one);
  const wrong = one.problems.map((text) => make("p", { class: "wrong" }, make("bdi", {}, text)));
  return make("article", { class: "rights" }, make("h3", {}, make("bdi", {}, one.listeners.join(", "))), make("p", {}, guests), users, rules, ...wrong);
}

function rulesOf({ rules, rules_count: all, rules_file: file }) {
  const heads = RULES.map((title) => make("th", { scope: "col" }, title || make("span", { class: "vh" }, "Number")));
  const rows = rules.map((rule, at) => {
    const who = [...(rule.users.length ? [`users ${rule.users.join(", ")}`] : []), ...(rule.anonymous ? ["clients without a user name"] : []), ...(rule.clients.length ? [`clients called ${rule.clients.join(", ")}`] : [])];
    const values = [String(at + 1), `${rule.permission === "allow" ? "may" : "must not"} ${ACTS[rule.action]}`, rule.topics.join(", "), who.join("; ") || "everybody"];
    return make("tr", {}, ...values.map((value, column) => make("td", { class: column > 1 ? "text" : "", "data-label": RULES[column] || "Number" }, make("bdi", {}, value))));
  });
  const told = all > rules.length ? `The first ${count(rules.length)} of ${count(all)} rules` : counted(all, "rule");
  return make("div", {}, make("p", {}, `${told}${file ? ` of ${file}` : ""}. The first that fits decides; what none allows is denied.`),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))));
}

function ofTokens(tokens, problems) {
  const held = tokens === null ? "No token is wanted: whoever is on the node's machine may do everything here." : tokens.length ? "" : "Nobody has a token.";
  const rows = (tokens ?? []).map((one) => make("li", {}, make("bdi", {}, one.name), `: ${one.role}`));
  return make("article", { class: "rights" }, make("h3", {}, "This page and the API"), held ? make("p", {}, held) : make("ul", {}, ...rows), ...problems.map((text) => make("p", { class: "wrong" }, make("bdi", {}, text))));
}
