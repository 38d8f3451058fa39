// What is in trouble with one bridge: its link, its queue, its dead letters, its processes. Pure.

import { bytes, count, counted, duration, lasting, listed, share } from "./format.js";
import { deathOf, failureOf } from "./reasons.js";
import { sentence, since, trouble, waitsOf } from "./rows.js";

const GRACE_S = 5; // a link that is being made is no trouble yet
const LOST_PERIOD_S = 300;
const OLD_S = 60;
const NEARLY_FULL = 0.8; // of 1
const RESTART_PERIOD_MS = 300000;

/** All of one bridge; ``rows`` are its lanes. */
export function bridgeTroubles(name, rows, events, series, nowMs) {
  const found = [];
  const lane = (row) => (rows.length > 1 ? `lane ${row.lane}: ` : "");
  for (const row of rows) found.push(...linkTroubles(row, lane(row), nowMs), ...queueTroubles(row, lane(row)));
  found.push(...fullTroubles(name, rows, events, series));
  found.push(...deadTroubles(rows[0]), ...restartTroubles(name, rows, events, nowMs));
  return found;
}

function linkTroubles(row, lane, nowMs) {
  const waits = waitsOf(row);
  if (row.paused_since_ms !== null && row.paused_since_ms !== undefined) {
    if (row.lane !== 0) return [];
    return [trouble("attention", "paused by an operator", [since((nowMs - row.paused_since_ms) / 1000), ...waits], "Resume it when the remote may have its messages again.")];
  }
  if (row.state === "connected") return connectedTroubles(row, lane, waits);
  const downS = row.down_s ?? row.since_s;
  const facts = [since(downS), ...waits];
  if (row.attempts) facts.push(`${counted(row.attempts, "attempt")} failed`);
  if (row.next_attempt_s !== null && row.next_attempt_s !== undefined) facts.push(`next attempt in ${lasting(row.next_attempt_s)}`);
  if (["connecting", "backoff"].includes(row.state)) {
    const why = row.reason || row.last_error;
    const { words, detail, address } = failureOf(why);
    const cure = row.cure ? `${sentence(row.cure)}.` : "";
    if (!words && row.state === "connecting" && (downS ?? 0) < GRACE_S) return [trouble("attention", `${lane}connecting`, facts, "")];
    const short = `${lane}${words || "it has no connection to its remote"}`;
    return [{ ...trouble("problem", `${short}${detail ? `: ${detail}` : ""}`, [...(address ? [`at ${address}`] : []), ...facts], cure), short }];
  }
  const why = row.reason ? `: ${row.reason}` : "";
  if (row.state === "starting" || row.state === "stopping") return [trouble("attention", `${lane}its process is ${row.state}${why}`, facts, "")];
  const cure = row.state === "restarting" ? "It starts again by itself; if it goes on ending, the reason is in the node's log." : "Mend what is named, and restart the node.";
  return [trouble("problem", `${lane}its process is ${row.state}${why}`, facts, cure)];
}

function connectedTroubles(row, lane, waits) {
  const found = [];
  const link = row.link ?? {};
  const first = link.first_address ?? {};
  if (first.address) {
    const why = first.error ? ` (${first.error})` : "";
    found.push(trouble("attention", `${lane}connected to a later address, ${link.address}, since ${first.address} does not serve${why}`, [], "Mend the first address; the bridge goes back to it by itself."));
  } else if (link.note) found.push(trouble("attention", `${lane}${link.note}`, [], ""));
  for (const one of link.suspects ?? []) {
    found.push(trouble("attention", `${lane}the remote closes the connection on message ${one.seq} (${one.topic})`, [counted(one.closed, "time")], "After a few times on_refusal decides what becomes of it."));
  }
  for (const one of (link.lacks ?? []).filter((lack) => lack.learnt)) {
    found.push(trouble("attention", `${lane}the remote was seen to take no ${one.what}`, [], `Write ${one.key}; or let it take that, and pause and resume the bridge.`));
  }
  const refused = Object.entries(row.remote_subscriptions?.refused ?? {});
  if (refused.length) {
    const names = listed(refused.map(([filter, code]) => `${filter} (${code})`));
    found.push(trouble("attention", `${lane}the remote refuses the subscription to ${names}`, [], "Give the bridge's user the right to read it, or remove it."));
  }
  if ((row.oldest_age_s ?? 0) > OLD_S) {
    const slow = row.drain_s === null ? "it grows, or does not move" : row.drain_s ? `done in about ${duration(row.drain_s)}` : "";
    found.push(trouble("attention", `${lane}behind: the oldest message has waited ${lasting(row.oldest_age_s)}`, [...waits, ...(slow ? [slow] : [])], row.drain_s === null ? "More comes than the remote takes: see its load and receive_maximum, or use more lanes." : "Nothing: it catches up by itself."));
  }
  return found;
}

function queueTroubles(row, lane) {
  const found = [];
  if (row.ledger_closes === false) found.push(trouble("problem", `${lane}its ledger does not add up`, [], "Make a snapshot and a report (bascule snapshot CONFIG, bascule report SNAPSHOT), and tell us."));
  if ((row.waits_for_lanes ?? []).length) {
    found.push(trouble("attention", `${lane}waits for ${listed(row.waits_for_lanes.map((one) => `lane ${one}`))} to send what came before the change of lanes`, [], ""));
  }
  return found;
}

function fullTroubles(name, rows, events, series) {
  const lost = series?.points.length ? series.lostWithin(LOST_PERIOD_S) : 0;
  const began = overflowOf(name, events);
  if (!lost && !began) return nearlyFullTroubles(rows);
  const policy = began?.reason ? ` (overflow: ${began.reason})` : "";
  const facts = [];
  if (lost) facts.push(`${counted(lost, "message")} refused or dropped in the last minutes`);
  const waits = rows.reduce((sum, row) => sum + (row.depth ?? 0), 0);
  facts.push(`${counted(waits, "message")} of ${bytes(rows.reduce((sum, row) => sum + (row.bytes ?? 0), 0))} wait`);
  const words = began ? `its queue is full${policy}` : "its queue was full within the last minutes";
  return [trouble(lost || began ? "problem" : "attention", words, facts, "Get its link up, or raise limits.max_messages and limits.max_bytes, or purge.")];
}

function nearlyFullTroubles(rows) {
  const full = rows[0].full ?? 0; // of the whole bridge
  if (full < NEARLY_FULL) return [];
  const leftS = rows[0].full_s ?? null;
  const facts = leftS === null ? ["it does not grow just now"] : [`full in about ${lasting(leftS)} if it goes on like this`];
  return [trouble("attention", `its queue is ${share(full)} full`, facts, "Mend what holds it up, or raise limits.max_messages and limits.max_bytes. limits.overflow says what gives way once it is full.")];
}

/** The beginning of an overflow that has not ended. */
function overflowOf(name, events) {
  let began = null;
  for (const event of events) {
    if (event.kind === "node.started") began = null;
    if (event.bridge !== name) continue;
    if (event.kind === "overflow.began") began = event;
    else if (event.kind === "overflow.ended") began = null;
  }
  return began;
}

function deadTroubles(row) {
  const dead = row.dead_letters ?? {};
  if (!dead.held) return [];
  const found = Object.entries(dead.reasons ?? {});
  const reasons = listed(found.map(([reason, number]) => `${found.length > 1 ? `${count(number)} ` : ""}${deathOf(reason)}`));
  return [trouble("attention", `${counted(dead.held, "dead letter")}${reasons ? `: ${reasons}` : ""}`, [bytes(dead.bytes)], "Mend what they are refused for, then replay them below; or purge them.", "dead")];
}

function restartTroubles(name, rows, events, nowMs) {
  const ended = events.filter((one) => one.kind === "process.ended" && one.reason !== "ordered" && one.bridge === name && nowMs - one.at_ms < RESTART_PERIOD_MS);
  if (!ended.length || rows.some((row) => ["restarting", "starting", "stopping"].includes(row.state))) return [];
  const last = ended.at(-1);
  const times = ended.length > 1 ? `${count(ended.length)} times, ` : "";
  const words = `its process ended ${times}last ${lasting((nowMs - last.at_ms) / 1000)} ago (${causeOf(last)}), and was started again`;
  return [trouble("attention", words, [], ended.length > 2 ? "If it goes on, the reason is in the node's log." : "Nothing to do: it has recovered.")];
}

function causeOf(event) {
  const status = event.details?.status;
  return status < 0 ? `signal ${-status}` : event.reason || "unknown cause";
}
