// What flows by topic, the busiest first. The node counts only while somebody asks, so nothing is asked until it is wanted.

import { Refused } from "./api.js";
import { keyed, make, say, setAll } from "./dom.js";
import { bytes, count, lasting, rate } from "./format.js";

const SHOWN = 20;

export class Topics {
  constructor(app, host) {
    this.app = app;
    this.switch = make("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Watch");
    this.switch.addEventListener("click", () => this._turn(!this.on));
    this.note = make("p", { class: "fine", role: "status" }, "Counting costs the node a little, so it counts only while somebody watches.");
    this.list = make("ol", { class: "bars" });
    host.append(make("div", { class: "bar-of-tools" }, this.switch), this.note, this.list);
    this.on = false;
    this.asking = false;
  }

  _turn(on) {
    this.on = on;
    setAll(this.switch, { "aria-pressed": String(on) });
    say(this.switch, on ? "Stop watching" : "Watch");
    if (on) this.show(null, true);
    else say(this.note, "Stopped; the figures are those of the last look.");
  }

  async show(_, visible) {
    if (!this.on || !visible || this.asking) return;
    this.asking = true;
    try {
      this._rows(await this.app.api.get("topics"));
    } catch (error) {
      if (error instanceof Refused) this._turn(false);
      const unable = error instanceof Refused && [404, 501].includes(error.status);
      say(this.note, unable ? "This node does not count topics." : `It cannot be seen: ${error.message}.`);
    } finally {
      this.asking = false;
    }
  }

  _rows({ since_s, topics }) {
    const shown = topics.slice(0, SHOWN);
    const more = topics.length > shown.length ? ` The first ${SHOWN} of ${count(topics.length)}.` : "";
    say(this.note, topics.length ? `Counted for ${lasting(since_s)}.${more}` : `Nothing has flown in the ${lasting(since_s)} that it was watched.`);
    const most = Math.max(...shown.map((one) => one.rate), 0.001);
    keyed(this.list, shown, (one) => one.topic, (one) => make("li", {}, make("bdi", { class: "name", title: one.topic }, one.topic), make("span", { class: "value" }),
      make("svg", { class: "hbar", viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" }, make("rect", { class: "bar c0", height: 8 }))), (item, one) => {
      say(item.children[1], `${rate(one.rate)} · ${count(one.messages)} (${bytes(one.bytes)})`);
      setAll(item.children[2].firstChild, { width: ((1000 * one.rate) / most).toFixed(0) });
    });
  }
}
