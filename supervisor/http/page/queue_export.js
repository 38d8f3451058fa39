// All messages of a queue or of dead letters, as the file that an export by command is. Nothing is taken out of any queue.

import { part } from "./api.js";
import { bytes, count } from "./format.js";

const PAGE = 500;
const MOST_BYTES = 64 << 20; // of what a tab keeps until it is saved

/** Saves what was exported so far once it is all, or enough; ``told`` hears how far it is. */
export class QueueExport {
  constructor(api, told) {
    this.api = api;
    this.told = told;
    this.stopped = false;
  }

  /** End at the next page, and save nothing. */
  stop() {
    this.stopped = true;
  }

  /**
   * The messages at ``{bridge, lane}``, with ``held`` those that rules hold too, or at ``{bridge, dead: true}``; what became of it, in words.
   *
   * What is held is looked through after the queue, and what has entered that meanwhile before it is written.
   */
  async run({ bridge, lane = null, dead = false, held = false }) {
    this.lines = [];
    this.size = this.number = 0;
    const place = { bridge, lane, dead };
    let from = await this._pages(place, 0);
    if (held && !this._ended()) {
      const before = this.lines;
      this.lines = [];
      await this._pages({ ...place, held: true }, 0);
      const late = this.lines;
      this.lines = before;
      if (!this._ended()) from = await this._pages(place, from);
      this.lines.push(...late);
    }
    if (this.stopped) return "stopped; nothing was saved";
    this._save(`${bridge}${dead ? "-dead" : `-${lane}`}.jsonl`);
    const command = dead ? `bascule queue export CONFIG ${bridge} --dead --to FILE` : `bascule queue export CONFIG ${bridge} --to FILE`;
    return `${count(this.number)} exported (${bytes(this.size)})${this.size < MOST_BYTES ? "" : `; that is as much as a tab saves, and ${command} has all`}`;
  }

  _ended() {
    return this.stopped || this.size >= MOST_BYTES;
  }

  /** Take page by page from ``from`` on, up to what was the newest at the first; where that ended. */
  async _pages({ bridge, lane, dead, held = false }, from) {
    let tail = null;
    while (from !== null && (tail === null || from < tail) && !this._ended()) {
      const page = await this.api.get(`queues/${part(bridge)}/messages`, { ...(dead ? { dead } : { lane }), ...(held ? { held } : {}), whole: true, from, count: PAGE });
      tail ??= page.tail;
      for (const one of page.messages) {
        const line = `${JSON.stringify(one)}\n`;
        this.lines.push(line);
        this.size += line.length;
      }
      this.number += page.messages.length;
      this.told(`${count(this.number)} so far`);
      from = page.next;
    }
    return tail ?? 0;
  }

  _save(name) {
    const url = URL.createObjectURL(new Blob(this.lines, { type: "application/x-ndjson" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    this.lines = [];
  }
}
