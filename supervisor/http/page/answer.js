// The answer on top: is anything in trouble, which, why, since when, and what to do; and the sum of all ledgers.

import { badge, icon, keyed, make, say, setAll, turnIcon } from "./dom.js";
import { count, duration, moment } from "./format.js";
import { most } from "./history.js";
import { Sparkline } from "./plots.js";
import { bridgesOf, ledgerOf, worst } from "./rows.js";
import { withPast } from "./samples.js";

const DAY_S = 86400;
const LEAST_S = 3600; // of a plot beside a trouble

const KEPT = { "file-native": "on disk", "in-memory": "in memory only", replicated: "on a majority of the cluster" };
const TERMS = [
  ["accepted", "Accepted"],
  ["delivered", "Delivered"],
  ["queued", "Queued"],
  ["expired", "Expired"],
  ["dropped", "Dropped"],
  ["purged", "Purged"],
  ["dead", "Dead-lettered"],
];

export class Answer {
  constructor() {
    this.headline = document.getElementById("headline");
    this.sign = document.querySelector("#answer-line .icon");
    this.lead = document.getElementById("lead");
    this.eyebrow = document.getElementById("eyebrow");
    this.troubles = document.getElementById("troubles");
    this.balance = new Balance(document.getElementById("balance"));
    this.plots = new Map();
    this.contents = new Map(["answer", "node", "bridges", "queues", "ledger", "dead"].map((id) => [id, document.querySelector(`.contents a[href="#${id}"] .icon`)]));
  }

  show(state) {
    const { status, judgement, atMs } = state;
    const kept = KEPT[status.store?.mode];
    say(this.eyebrow, `MQTT bridges of node ${status.node}${kept ? `, queues ${kept}` : ""}, up ${duration(Math.floor(status.supervisor.uptime_s))}, as of ${moment(atMs)} UTC`);
    say(this.headline, judgement.headline);
    setAll(this.headline, { class: judgement.headline.length > 60 ? "long" : null });
    say(this.lead, judgement.lead);
    turnIcon(this.sign, judgement.verdict);
    for (const [id, verdict] of Object.entries(bySection(status, judgement))) turnIcon(this.contents.get(id), verdict);
    document.title = `${judgement.verdict === "ok" ? "" : judgement.verdict === "problem" ? "✖ " : "⚠ "}${status.node}: ${judgement.headline}`;
    keyed(this.troubles, grouped(judgement.troubles), (one) => one.about, (group) => this._newGroup(group, judgement), (item, group) => {
      showGroup(item, group);
      this.plots.get(group.about)?.show(state);
    });
    this.troubles.hidden = !judgement.troubles.length;
    this.balance.show(status);
  }

  _newGroup(group, judgement) {
    const item = make("li", {}, icon("none"), make("div", {}, make("a", { class: "about-what" }, make("bdi", {}, group.about)), make("ul", {})));
    if (judgement.bridges.has(group.about)) {
      const past = new Past(group.about);
      this.plots.set(group.about, past);
      item.append(past.element);
    }
    return item;
  }
}

/** What waited for one bridge, from before its trouble on, with the times at which its link was down. */
class Past {
  constructor(name) {
    this.name = name;
    this.plot = new Sparkline("Waiting", [""], count);
    this.element = this.plot.element;
  }

  show({ status, series, history, nowMs }) {
    const rows = status.bridges.filter((row) => row.name === this.name);
    const downS = Math.max(...rows.map((row) => row.down_s ?? 0));
    const lastsS = Math.max(downS, ...rows.map((row) => (row.paused_since_ms ? (nowMs - row.paused_since_ms) / 1000 : 0)));
    const spanS = Math.min(DAY_S, Math.max(LEAST_S, 3 * lastsS));
    const marks = history.points(this.name, "down_s", most).filter(([, seconds]) => seconds > 0).map(([ms, seconds]) => [Math.max(0, nowMs - ms) / 1000 + seconds, Math.max(0, nowMs - ms) / 1000]); // the last period has not ended
    const depths = withPast(history.points(this.name, "depth"), series.get(this.name).depths(), nowMs, spanS);
    this.plot.show([depths], count(rows.reduce((sum, row) => sum + (row.depth ?? 0), 0)), downS ? [...marks, [downS, 0]] : marks);
  }
}

/** The verdict of each section that has one. */
function bySection(status, judgement) {
  const { troubles, bridges } = judgement;
  const of = (wanted) => worst(troubles.filter(wanted).map((one) => one.verdict));
  return {
    answer: judgement.verdict,
    node: of((one) => !bridges.has(one.about)),
    bridges: of((one) => bridges.has(one.about) && one.kind !== "dead"),
    queues: of((one) => ["full", "lost"].includes(one.kind)),
    ledger: (status.bridges ?? []).every((row) => row.ledger_closes !== false) ? "ok" : "problem",
    dead: of((one) => one.kind === "dead"),
  };
}

/** Troubles by what they are about: ``{about, anchor, verdict, troubles}``, the worst first. */
function grouped(troubles) {
  const groups = new Map();
  for (const one of troubles) {
    if (!groups.has(one.about)) groups.set(one.about, { about: one.about, anchor: one.anchor, verdict: one.verdict, troubles: [] });
    groups.get(one.about).troubles.push(one);
  }
  return [...groups.values()];
}

function showGroup(item, group) {
  turnIcon(item.firstChild, group.verdict);
  setAll(item, { class: `s-${group.verdict}`, id: `trouble-${group.about}` });
  const [about, list] = item.children[1].children;
  setAll(about, { href: `#${group.anchor}` });
  keyed(list, group.troubles.map((one, at) => ({ ...one, key: at })), (one) => one.key, newTrouble, showTrouble);
}

function newTrouble() {
  return make("li", {}, make("p", { class: "what" }), make("p", { class: "facts" }), make("p", { class: "cure" }));
}

function showTrouble(item, one) {
  const [what, facts, cure] = item.children;
  say(what, `${one.text.charAt(0).toUpperCase()}${one.text.slice(1)}.`);
  say(facts, one.facts.join(" · "));
  facts.hidden = !one.facts.length;
  say(cure, one.cure ? `What to do: ${one.cure}` : "");
  cure.hidden = !one.cure;
}

/** accepted = delivered + queued + expired + dropped + purged + dead-lettered, of all bridges together. */
class Balance {
  constructor(host) {
    this.host = host;
    this.values = new Map();
    const list = make("dl", {});
    for (const [name, title] of TERMS) {
      const value = make("dd", {});
      this.values.set(name, value);
      list.append(make("div", { class: `term ${name}` }, make("dt", {}, title), value));
    }
    this.rest = make("p", { class: "rest" });
    this.since = make("p", { class: "fine" });
    this.parts = make("svg", { class: "proportion", preserveAspectRatio: "none", viewBox: "0 0 1000 10", "aria-hidden": "true" });
    this.wrong = make("p", { class: "wrong" }, icon("problem"), make("span", {}));
    host.append(make("h2", { class: "vh" }, "All bridges together"), list, this.rest, this.parts, this.wrong, this.since);
  }

  show({ bridges: rows = [], store }) {
    const ledger = ledgerOf(rows);
    for (const [name] of TERMS) say(this.values.get(name), count(ledger[name]));
    const gone = ledger.accepted - ledger.delivered;
    const replayed = bridgesOf({ bridges: rows }).reduce((sum, [, lanes]) => sum + (lanes[0].dead_letters?.replayed ?? 0), 0);
    say(this.rest, gone > 0 ? `The ${count(gone)} not delivered${replayed ? `; ${count(replayed)} of them died, were replayed, and count as accepted anew` : ""}` : "Everything that was accepted is delivered");
    this.parts.toggleAttribute("hidden", gone <= 0);
    const shares = ["queued", "expired", "dropped", "purged", "dead"].filter((name) => ledger[name] > 0);
    let at = 0;
    keyed(this.parts, shares, (name) => name, () => make("rect", { y: 0, height: 10 }), (rect, name) => {
      const wide = (1000 * ledger[name]) / Math.max(gone, 1);
      setAll(rect, { class: `part ${name}`, x: at.toFixed(1), width: wide.toFixed(1) });
      at += wide;
    });
    setAll(this.host, { class: `balance${ledger.closes ? "" : " differs"}` });
    this.wrong.hidden = ledger.closes;
    say(this.wrong.lastChild, "It does not add up: see the ledger of each bridge.");
    say(this.since, `Counted since each bridge's first message${store?.mode === "in-memory" ? " of this run" : ", restarts included"}; a message to two bridges counts for each.`);
    this.host.hidden = !rows.length;
  }
}

/** The ledger of each lane as a table, with what is beside it. */
export class Ledger {
  constructor(host) {
    this.columns = ["Bridge", "Accepted", "Delivered", "Queued", "Expired", "Dropped", "Purged", "Dead-lettered", "Adds up", "Refused"];
    this.body = make("tbody", {});
    const heads = this.columns.map((title, at) => make("th", { scope: "col", class: at && at !== 8 ? "number" : null }, title));
    const note = make("p", { class: "notes" }, "Refused is beside the sum: the publishers still have those.");
    host.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body)), note);
  }

  show({ status }) {
    const rows = status.bridges ?? [];
    const several = new Set(rows.filter((row) => row.lane !== 0).map((row) => row.name));
    keyed(this.body, rows, (row) => `${row.name}:${row.lane}`, (row) => this._create(row, several), (tr, row) => {
      const ledger = ledgerOf([row]);
      const values = TERMS.map(([name]) => count(ledger[name]));
      for (const [at, value] of values.entries()) say(tr.children[at + 1], value);
      const closes = tr.children[8];
      const verdict = row.ledger_closes === null ? "none" : row.ledger_closes ? "ok" : "problem";
      if (closes.dataset.verdict !== verdict) {
        closes.dataset.verdict = verdict;
        closes.replaceChildren(badge(verdict, { none: "Unknown", ok: "Yes", problem: "No" }[verdict]));
      }
      say(tr.children[9], count(row.refused));
    });
  }

  _create(row, several) {
    const name = several.has(row.name) ? `${row.name}:${row.lane}` : row.name;
    const cells = this.columns.slice(1).map((title, at) => make("td", { class: at === 7 ? "state" : "number", "data-label": title }));
    return make("tr", {}, make("td", { "data-label": "Bridge" }, make("bdi", {}, name)), ...cells);
  }
}
