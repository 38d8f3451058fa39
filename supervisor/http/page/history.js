// What the node has kept of its past: figures of each lane by period, asked for once and then once a minute.

import { Refused } from "./api.js";

const PERIOD_MS = 60000;

export class History {
  constructor(api) {
    this.api = api;
    this.lanes = new Map();
    this.atMs = [];
    this.stepMs = PERIOD_MS;
    this.dueMs = 0;
  }

  /** Ask for it if it is due; a node that keeps none, or cannot tell it now, leaves what there is. */
  async fetch(nowMs) {
    if (nowMs < this.dueMs) return;
    this.dueMs = nowMs + PERIOD_MS;
    try {
      const told = await this.api.get("history", { since: "24h" });
      this.atMs = told.at_ms;
      this.stepMs = told.step_s * 1000;
      this.lanes = new Map();
      for (const lane of told.lanes) {
        if (!this.lanes.has(lane.bridge)) this.lanes.set(lane.bridge, []);
        this.lanes.get(lane.bridge).push(lane);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }

  /** ``[at in ms, value]`` of a figure of ``bridge``, the oldest first; ``join`` makes one value of those that its lanes have. */
  points(bridge, figure, join = total) {
    const lanes = this.lanes.get(bridge) ?? [];
    return this.atMs.flatMap((ms, at) => {
      const known = lanes.map((lane) => lane[figure][at]).filter((value) => value !== null && value !== undefined);
      return known.length ? [[ms + this.stepMs, join(known)]] : [];
    });
  }
}

export const total = (values) => values.reduce((sum, one) => sum + one, 0);
export const most = (values) => Math.max(...values);
