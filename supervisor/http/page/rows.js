// What the rows of ``status`` come to: bridges and their lanes, states as verdicts, the ledger, and the words for a trouble. Pure.

import { bytes, clock, counted, lasting } from "./format.js";
import { droppedOf } from "./samples.js";

export const RANK = { problem: 0, attention: 1, none: 2, ok: 3 };

/** The worst of some verdicts. */
export function worst(verdicts) {
  return verdicts.reduce((one, other) => (RANK[other] < RANK[one] ? other : one), "ok");
}

/** The lanes of each bridge, in the configuration's order: ``[[name, rows]]``. */
export function bridgesOf(status) {
  const found = new Map();
  for (const row of status.bridges ?? []) {
    if (!found.has(row.name)) found.set(row.name, []);
    found.get(row.name).push(row);
  }
  return [...found];
}

/** The remote of a lane: the address in use, or the one that is tried first; empty until its process has told it. */
export function remoteOf(row) {
  return row.link?.address || "";
}

/** One word for all lanes of a bridge: that of the one that is worst off. */
export function stateOf(rows) {
  const states = rows.map((row) => (row.paused_since_ms !== null && row.paused_since_ms !== undefined ? "paused" : row.state));
  return states.find((one) => !["connected", "closed"].includes(one)) ?? states.find((one) => one !== "connected") ?? "connected";
}

/** The verdict of a process's or an actor's state. */
export function processVerdict(state) {
  if (state === "ready") return "ok";
  return ["damaged", "misconfigured", "stopped", "restarting"].includes(state) ? "problem" : "attention";
}

/** The sum of all lanes' ledgers: accepted = delivered + queued + expired + dropped + purged + dead-lettered. */
export function ledgerOf(rows) {
  const sum = (name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
  const ledger = { accepted: sum("accepted"), delivered: sum("delivered"), queued: sum("depth"), expired: sum("expired") };
  ledger.dropped = rows.reduce((all, row) => all + droppedOf(row), 0);
  ledger.purged = rows.reduce((all, row) => all + (row.dropped?.purged ?? 0), 0);
  ledger.dead = sum("dead_lettered");
  ledger.closes = rows.every((row) => row.ledger_closes !== false);
  return ledger;
}

/** Something worth telling; ``kind``: ``full`` and ``lost`` of a queue, ``dead`` of dead letters. */
export function trouble(verdict, text, facts, cure, kind = "") {
  return { verdict, text, facts, cure, kind };
}

/** How long it lasts, and since when; ``nowMs`` is the node's time. */
export const since = (seconds, nowMs) => `for ${lasting(seconds)}, since ${clock(nowMs - seconds * 1000, nowMs)}`;

/** What waits in the lanes ``rows``, as a fact. */
export function waitsOf(rows) {
  const sum = (name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
  const depth = sum("depth");
  return [depth ? `${counted(depth, "message")} (${bytes(sum("bytes"))}) ${depth === 1 ? "waits" : "wait"}` : "nothing waits"];
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
