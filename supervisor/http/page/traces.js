// One message followed through the node: the next one whose topic matches a filter, step by step, with times.

import { Refused } from "./api.js";
import { button, make, say } from "./dom.js";
import { duration, moment } from "./format.js";

const PERIOD_MS = 500;
const UNDER_WAY = ["waiting", "following"];
const STEPS = {
  taken: "taken from its publisher",
  denied: "denied by the access list",
  routed: "routed to its queues",
  committed: "committed to disk",
  refused: "refused by a full queue",
  acknowledged: "acknowledged to its publisher",
  handed_out: "handed out to the bridge",
  waits: "waits at the bridge",
  sent: "sent to the remote",
  received: "received by the remote (PUBREC)",
  answered: "acknowledged by the remote",
  settled: "settled: it has left the queue",
};

export class Traces {
  constructor(app, host) {
    this.app = app;
    this.field = make("input", { id: "trace-filter", type: "text", placeholder: "plant/#", spellcheck: "false", autocomplete: "off", required: true });
    this.follow = button("Follow the next message", () => {}, { role: "operate" });
    this.follow.type = "submit";
    this.stop = button("Stop", () => this._end("Stopped."));
    this.stop.hidden = true;
    this.note = make("p", { class: "fine", role: "status" });
    this.steps = make("ol", { class: "steps" });
    this.form = make("form", { class: "bar-of-tools" }, make("label", { for: "trace-filter" }, "Topic filter"), make("div", { class: "filter" }, this.field), this.follow, this.stop);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this._begin(this.field.value.trim());
    });
    host.append(make("h3", {}, "Follow one message"), this.form, this.note, this.steps);
    this.run = 0;
    this.host = host;
  }

  show() {
    this.host.hidden = !this.app.may("operate");
  }

  async _begin(topic) {
    const run = (this.run += 1);
    this.steps.replaceChildren();
    try {
      const { number } = await this.app.api.post("traces", { topic });
      this.stop.hidden = false;
      for (;;) {
        const trace = await this.app.api.get(`traces/${number}`);
        if (run !== this.run) return;
        this._show(trace);
        if (!UNDER_WAY.includes(trace.state)) break;
        await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
        if (run !== this.run) return;
      }
      this.stop.hidden = true;
    } catch (error) {
      const unable = error instanceof Refused && [404, 501].includes(error.status);
      if (run === this.run) this._end(unable ? "This node cannot follow messages." : `It cannot be followed: ${error.message}.`);
    }
  }

  _end(why) {
    this.run += 1;
    this.stop.hidden = true;
    say(this.note, why);
  }

  _show({ state, note, steps }) {
    say(this.note, `${note.charAt(0).toUpperCase()}${note.slice(1)}${state === "waiting" ? "; it is waited for." : "."}`);
    this.steps.replaceChildren(...steps.map((one) => {
      const place = one.queue || one.actor;
      const more = Object.entries(one.details).map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
      return make("li", {}, make("time", { title: `${moment(one.at_ms)} UTC` }, `+${duration(one.after_ms / 1000)}`),
        make("div", {}, make("b", {}, STEPS[one.step] ?? one.step), " ", make("bdi", { class: "soft" }, place), make("bdi", { class: "fine" }, more)));
    }));
  }
}
