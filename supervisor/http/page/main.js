// Asks the server for the node's figures, again and again, and has each part of the page show them.

import { Access } from "./access.js";
import { Answer, Ledger } from "./answer.js";
import { Api, Refused, Unreachable } from "./api.js";
import { BridgeForm } from "./bridge_form.js";
import { Bridges } from "./bridges.js";
import { DeadLetters } from "./dead_letters.js";
import { followSections } from "./contents.js";
import { every, make, say, setAll } from "./dom.js";
import { EventLog, EventTable } from "./events.js";
import { lasting, moment } from "./format.js";
import { History } from "./history.js";
import { judge } from "./judgement.js";
import { bridgesOf } from "./rows.js";
import { Login } from "./login.js";
import { Orphans } from "./orphans.js";
import { Picture } from "./picture.js";
import { Queues } from "./queues.js";
import { Reload } from "./reload.js";
import { Series } from "./samples.js";
import { Sessions } from "./sessions.js";
import { followTheme } from "./theme.js";
import { Topics } from "./topics.js";
import { Traces } from "./traces.js";

const PERIOD_MS = 2000;
const HIDDEN_PERIOD_MS = 10000; // of a tab that nobody sees
const LATE_MS = 7000;
const ROLES = ["view", "operate", "admin"];
const SAID_MS = 8000;

class App {
  constructor() {
    this.api = new Api();
    this.role = "view";
    this.series = new Map();
    this.log = new EventLog(this.api);
    this.history = new History(this.api);
    this.state = null;
    this.heardMs = null;
    this.lost = "";
    this.visible = new Set();
    this.answer = new Answer();
    const by = (id) => document.getElementById(id);
    this.parts = [this.answer, new Picture(by("picture")), new Bridges(this), new Ledger(by("ledger-rows")), new EventTable(by("event-rows")),
      new Orphans(this, by("orphans")), new Reload(this, by("configuration")), new Traces(this, by("traces"))];
    this.queues = new Queues(this, by("queue"));
    this.bridgeForm = new BridgeForm(this, by("bridge-form"));
    this.wanted = [["queues", this.queues], ["access", new Access(this, by("rights"))], ["dead", new DeadLetters(this, by("dead-letters"))], ["clients", new Sessions(this, by("sessions"))], ["topics", new Topics(this, by("flow"))]];
    this.login = new Login(this.api, () => this._entered(), () => this._ask(""));
    followSections((visible) => {
      this.visible = visible;
      if (this.state) for (const [section, one] of this.wanted) if (visible.has(section)) one.show(this.state, true);
    });
  }

  /** Ask without end; a tab that nobody sees asks less often. */
  async run() {
    setInterval(() => this._age(), 500);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.now(); });
    for (;;) {
      await this.poll();
      await new Promise((resolve) => {
        this.now = resolve;
        setTimeout(resolve, document.hidden ? HIDDEN_PERIOD_MS : PERIOD_MS);
      });
    }
  }

  now() {}

  /** One look at the node. What goes wrong is said on the page, and the figures there are stay. */
  async poll() {
    if (this.locked) return;
    try {
      if (this.state === null) await this._askRole();
      const status = await this.api.get("status");
      await this.log.fetch(status.store?.events);
      await this.history.fetch(Date.now());
      if (this.locked) return; // the token was forgotten meanwhile
      this._show(status);
      this._found();
    } catch (error) {
      if (!this.locked) this._lost(error);
    }
    this._age();
  }

  async _askRole() {
    try {
      this.role = (await this.api.get("caller")).role;
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      this.role = "admin";
    }
  }

  _show(status) {
    const nowMs = Date.now();
    for (const [name, rows] of bridgesOf(status)) {
      if (!this.series.has(name)) this.series.set(name, new Series());
      this.series.get(name).note(status.supervisor.uptime_s, rows);
    }
    const judgement = judge(status, this.log.events, this.series, nowMs);
    const first = this.state === null;
    this.state = { status, judgement, series: this.series, history: this.history, events: this.log.events, atMs: nowMs, nowMs };
    this.heardMs = nowMs;
    document.getElementById("layout").hidden = false;
    say(document.getElementById("node-name"), status.node);
    for (const one of this.parts) one.show(this.state);
    for (const [section, one] of this.wanted) one.show(this.state, this.visible.has(section));
    this.allow();
    if (first && location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  }

  // --- what the parts ask for ---

  /** Whether the token's role may do what wants ``role``. */
  may(role) {
    return ROLES.indexOf(this.role) >= ROLES.indexOf(role);
  }

  /** Leave out what the role may not do, and disable everything while the node is lost. */
  allow() {
    for (const one of every("[data-role]")) {
      setAll(one, { "data-barred": !this.may(one.dataset.role) });
      one.disabled = this.lost !== "";
    }
  }

  /** Carry out ``order``, say what came of it, and look at the node again. */
  async act(about, order) {
    try {
      const answer = await order();
      this.say(`${about}: ${typeof answer === "string" ? answer : "done"}.`);
    } catch (error) {
      this.say(`${about}: ${error.message}.`, true);
    }
    await this.poll();
  }

  /** A line at the bottom, which a screen reader reads out too. */
  say(text, wrong = false) {
    const host = document.getElementById("said");
    say(host, text);
    setAll(host, { class: wrong ? "said shown wrong" : "said shown" });
    clearTimeout(this.saidFor);
    this.saidFor = setTimeout(() => setAll(host, { class: "said" }), SAID_MS);
  }

  /**
   * Ask before something that cannot be undone: false if it is not meant, and ``{option}`` if it is.
   *
   * typed: what has to be written first. option: what may be wanted besides. details: a list behind the text.
   */
  confirm(title, text, yes, { typed = "", option = "", details = [] } = {}) {
    const dialog = document.getElementById("confirm");
    const accept = document.getElementById("confirm-yes"), cancel = document.getElementById("confirm-no");
    say(document.getElementById("confirm-title"), title);
    say(document.getElementById("confirm-text"), text);
    say(accept, yes);
    const { field, tick } = demand(accept, typed, option, details);
    this.undecided?.(false);
    return new Promise((resolve) => {
      const decide = (sure) => (resolve(sure && { option: tick.checked }), dialog.close());
      this.undecided = resolve;
      accept.onclick = () => decide(true);
      cancel.onclick = () => decide(false);
      dialog.onclose = () => dialog.open || resolve(false); // by Escape; the end of a question before may be told only now
      dialog.showModal();
      (typed ? field : cancel).focus();
    });
  }

  // --- the server, lost and found ---

  _lost(error) {
    if (error instanceof Refused && error.status === 401) {
      this._ask(this.api.token ? "This token is not known, or has been withdrawn." : "");
      return;
    }
    if (!(error instanceof Refused || error instanceof Unreachable)) {
      this.lost = `This page has a fault (${error.message}); load it anew, and tell us.`;
      console.error(error);
      return;
    }
    const who = !(error instanceof Refused) ? "The server does not answer" : error.status === 503 ? "The node does not answer" : "The server refuses";
    const why = error instanceof Refused ? `: ${error.message}` : "";
    this.lost = `${who}${why}.`;
    this.allow();
  }

  _found() {
    this.lost = "";
    document.getElementById("lost").hidden = true;
    this.allow();
  }

  /** How old the figures are, twice a second. */
  _age() {
    const host = document.getElementById("lost"), pulse = document.getElementById("pulse");
    const ageMs = this.heardMs === null ? null : Date.now() - this.heardMs;
    const late = this.lost !== "" || (ageMs !== null && ageMs > LATE_MS && !document.hidden);
    setAll(pulse, { class: `pulse${this.heardMs === null ? "" : late ? " late" : " live"}` });
    const age = ageMs === null ? "no figures yet" : late ? `${lasting(ageMs / 1000)} old` : "live";
    say(document.getElementById("age"), age);
    setAll(document.getElementById("layout"), { class: late ? "layout old" : "layout" });
    if (this.lost) {
      say(host, `${this.lost} ${this.heardMs === null ? "There are no figures yet." : `What you see is of ${moment(this.heardMs).slice(11)} UTC.`} The page goes on asking.`);
      host.hidden = false;
    }
  }

  // --- tokens ---

  _entered() {
    this.locked = false;
    this.state = null;
    this.now();
  }

  _ask(why) {
    this.locked = true;
    this.lost = "";
    this.heardMs = null;
    this.login.ask(why);
  }
}

/** Have the question want what it wants before ``accept`` can be pressed; the inputs of it. */
function demand(accept, typed, option, details) {
  const [list, written, box] = ["details", "typed", "option"].map((name) => document.getElementById(`confirm-${name}`));
  list.replaceChildren(...details.map((one) => make("li", {}, make("bdi", {}, one))));
  list.hidden = !details.length;
  say(written.querySelector("b"), typed);
  say(box.querySelector("span"), option);
  written.hidden = !typed;
  box.hidden = !option;
  const field = written.querySelector("input"), tick = box.querySelector("input");
  field.value = "";
  tick.checked = false;
  const weigh = () => { accept.disabled = field.value.trim() !== typed; };
  field.oninput = weigh;
  field.onkeydown = (event) => { if (event.key === "Enter" && !accept.disabled) accept.click(); };
  weigh();
  return { field, tick };
}

followTheme();
const app = new App();
app.run();
