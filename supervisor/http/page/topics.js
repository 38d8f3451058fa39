// What flows by topic, the busiest first. The node counts only while somebody asks, so nothing is asked until it is wanted.

import { Refused } from "./api.js";
import { button, keyed, make, say, setAll } from "./dom.js";
import { bytes, count, lasting, rate } from "./format.js";

const SHOWN = 20;

export class Topics {
  constructor(app, host) {
    this.app = app;
    this.switch = button("Watch", () => this._turn(!this.on), { role: "operate" });
    setAll(this.switch, { "aria-pressed": "false" });
    this.said = make("p", { class: "fine", role: "status" });
    this.note = make("p", { class: "fine" }, "Counting costs the node a little, so it counts only while somebody watches.");
    this.list = make("ol", { class: "bars" });
    this.nobody = make("p", { class: "nothing" }, "To see topics a token wants the role operate.");
    host.append(make("div", { class: "bar-of-tools" }, this.switch), this.nobody, this.said, this.note, this.list);
    this.on = false;
    this.asking = false;
    this.before = null;
  }

  _turn(on, why = "Stopped; the figures are those of the last look.") {
    this.on = on;
    this.before = null;
    setAll(this.switch, { "aria-pressed": String(on) });
    say(this.switch, on ? "Stop watching" : "Watch");
    say(this.said, on ? "" : why);
    if (on) this.show(null, true);
  }

  async show(_, visible) {
    this.nobody.hidden = this.app.may("operate");
    if (!this.on || !visible || this.asking) return;
    this.asking = true;
    try {
      const answer = await this.app.api.get("topics");
      if (this.on) this._rows(answer);
    } catch (error) {
      const unable = error instanceof Refused && [404, 501].includes(error.status);
      if (error instanceof Refused) this._turn(false, unable ? "This node does not count topics." : `They cannot be seen: ${error.message}.`);
    } finally {
      this.asking = false;
    }
  }

  _rows({ since_s: sinceS, topics, others = 0 }) {
    const rates = this._rates(sinceS, topics);
    const shown = topics.slice(0, SHOWN);
    const rest = topics.slice(SHOWN).reduce((sum, one) => sum + one.messages, others);
    say(this.note, topics.length ? `Counted for ${lasting(sinceS)}.${rest ? ` ${count(rest)} more went by other topics.` : ""}` : `Nothing has flown in the ${lasting(sinceS)} that it was watched.`);
    const most = Math.max(...shown.map((one) => one.messages), 1);
    keyed(this.list, shown, (one) => one.topic, newTopic, (item, one) => {
      say(item.children[1], `${rate(rates.get(one.topic))} · ${count(one.messages)} (${bytes(one.bytes)})`);
      setAll(item.children[2].firstChild, { width: ((1000 * one.messages) / most).toFixed(0) });
    });
  }

  /** Messages a second by topic since the look before, or since counting began. */
  _rates(sinceS, topics) {
    const counted = new Map(topics.map((one) => [one.topic, one.messages]));
    const before = this.before && this.before.sinceS < sinceS ? this.before : { sinceS: 0, counted: new Map() };
    this.before = { sinceS, counted };
    const tookS = Math.max(sinceS - before.sinceS, 0.001);
    return new Map([...counted].map(([topic, messages]) => [topic, Math.max(0, messages - (before.counted.get(topic) ?? 0)) / tookS]));
  }
}

function newTopic({ topic }) {
  return make("li", {}, make("bdi", { class: "name", title: topic }, topic), make("span", { class: "value" }),
    make("svg", { class: "hbar", viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" }, make("rect", { class: "bar c0", height: 8 })));
}
