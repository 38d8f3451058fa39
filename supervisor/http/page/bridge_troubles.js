// What is in trouble with one bridge: its link, its queue, its dead letters, its processes. Pure.

import { bytes, clock, count, counted, duration, lasting, listed, share } from "./format.js";
import { deathOf, failureOf } from "./reasons.js";
import { sentence, since, trouble, waitsOf } from "./rows.js";

const GRACE_S = 5; // a link that is being made is no trouble yet
const LOST_PERIOD_S = 300;
const OLD_S = 60;
const NEARLY_FULL = 0.8; // of 1
const RESTART_PERIOD_MS = 300000;

/** All of one bridge; ``rows`` are its lanes. withSite: whether the process that its lanes share is told already. */
export function bridgeTroubles(name, rows, events, series, nowMs, withSite = false) {
  const found = together(rows.map((row) => [row, [...linkTroubles(row, nowMs, withSite), ...queueTroubles(row)]]));
  found.push(...fullTroubles(name, rows, events, series, nowMs), ...lostTroubles(series));
  found.push(...deadTroubles(name, rows[0], events, nowMs), ...restartTroubles(name, rows, events, nowMs));
  return found;
}

/** The troubles of ``lanes``, ``[row, troubles]`` each: what several lanes have is told once, with the facts of all of them. */
function together(lanes) {
  const groups = new Map();
  for (const [row, troubles] of lanes) {
    for (const one of troubles) {
      const key = JSON.stringify([one.verdict, one.text, one.cure]);
      if (!groups.has(key)) groups.set(key, { ...one, rows: [] });
      groups.get(key).rows.push(row);
    }
  }
  return [...groups.values()].map(({ rows, facts, text, ...one }) => {
    const which = rows.length === lanes.length ? "" : `${rows.length === 1 ? "lane" : "lanes"} ${listed(rows.map((row) => String(row.lane)))}: `;
    return { ...one, text: `${which}${text}`, facts: facts(rows) };
  });
}

/** As ``trouble``, of one lane; ``facts`` makes those of all lanes that have it. */
const ofLane = (verdict, text, cure = "", facts = () => []) => trouble(verdict, text, facts, cure);

const most = (rows, value) => rows.reduce((all, row) => Math.max(all, value(row) ?? 0), 0);

function linkTroubles(row, nowMs, withSite) {
  const paused = (row.paused_since_ms ?? null) !== null;
  if (paused) {
    const facts = (rows) => [since((nowMs - rows[0].paused_since_ms) / 1000, nowMs), ...waitsOf(rows)];
    return [ofLane("attention", "paused by an operator", "Resume it when the remote may have its messages again.", facts)];
  }
  if (row.state === "connected") return connectedTroubles(row);
  if (row.state === "closed") return [];
  const downFacts = (rows) => factsOfDown(rows, nowMs);
  if (["connecting", "backoff"].includes(row.state)) {
    const { words, detail, address } = failureOf(row.reason || row.last_error);
    if (!words && row.state === "connecting" && (downOf(row) ?? 0) < GRACE_S) return [ofLane("attention", "connecting", "", downFacts)];
    const cure = row.cure ? `${sentence(row.cure)}.` : "";
    const text = `${words || "it has no connection to its remote"}${detail ? `: ${detail}` : ""}`;
    return [ofLane("problem", text, cure, (rows) => [...(address ? [`at ${address}`] : []), ...downFacts(rows)])];
  }
  if (withSite) return [];
  const text = `its process is ${row.state}${row.reason ? `: ${row.reason}` : ""}`;
  if (row.state === "starting" || row.state === "stopping") return [ofLane("attention", text, "", downFacts)];
  const cure = row.state === "restarting" ? "It starts again by itself; if it goes on ending, the reason is in the node's log." : "Mend what is named, and restart the node.";
  return [ofLane("problem", text, cure, downFacts)];
}

const downOf = (row) => row.down_s ?? row.since_s;

function factsOfDown(rows, nowMs) {
  const facts = [since(most(rows, downOf), nowMs), ...waitsOf(rows)];
  const attempts = rows.reduce((sum, row) => sum + (row.attempts ?? 0), 0);
  if (attempts) facts.push(`${counted(attempts, "attempt")} failed`);
  const next = rows.map((row) => row.next_attempt_s ?? null).filter((one) => one !== null);
  if (next.length) facts.push(`next attempt in ${lasting(Math.min(...next))}`);
  return facts;
}

function connectedTroubles(row) {
  const found = [];
  const link = row.link ?? {};
  const first = link.first_address ?? {};
  if (first.address) {
    const why = first.error ? ` (${first.error})` : "";
    found.push(ofLane("attention", `connected to a later address, ${link.address}, since ${first.address} does not serve${why}`, "Mend the first address; the bridge goes back to it by itself."));
  } else if (link.note) found.push(ofLane("attention", link.note));
  for (const one of link.suspects ?? []) {
    found.push(ofLane("attention", `the remote closes the connection on message ${one.seq} (${one.topic})`, "After a few times on_refusal decides what becomes of it.", () => [counted(one.closed, "time")]));
  }
  for (const one of (link.lacks ?? []).filter((lack) => lack.learnt)) {
    found.push(ofLane("attention", `the remote was seen to take no ${one.what}`, `Write ${one.key}; or let it take that, and pause and resume the bridge.`));
  }
  const refused = Object.entries(row.remote_subscriptions?.refused ?? {});
  if (refused.length) {
    const names = listed(refused.map(([filter, code]) => `${filter} (${code})`));
    found.push(ofLane("attention", `the remote refuses the subscription to ${names}`, "Give the bridge's user the right to read it, or remove it."));
  }
  if ((row.oldest_age_s ?? 0) > OLD_S) found.push(behind(row));
  return found;
}

function behind(row) {
  const cure = row.drain_s === null ? "More comes than the remote takes: see its load and receive_maximum, or use more lanes." : "Nothing: it catches up by itself.";
  return ofLane("attention", "behind", cure, (rows) => {
    const slow = row.drain_s === null ? ["it grows, or does not move"] : row.drain_s ? [`done in about ${duration(most(rows, (one) => one.drain_s))}`] : [];
    return [`the oldest message has waited ${lasting(most(rows, (one) => one.oldest_age_s))}`, ...waitsOf(rows), ...slow];
  });
}

function queueTroubles(row) {
  const found = [];
  if (row.ledger_closes === false) found.push(ofLane("problem", "its ledger does not add up", "Make a snapshot and a report (bascule snapshot make CONFIG, bascule report SNAPSHOT), and tell us."));
  if ((row.waits_for_lanes ?? []).length) {
    found.push(ofLane("attention", `waits for ${listed(row.waits_for_lanes.map((one) => `lane ${one}`))} to send what came before the change of lanes`));
  }
  return found;
}

function fullTroubles(name, rows, events, series, nowMs) {
  const lost = series?.points.length ? series.grownWithin("refused", LOST_PERIOD_S) : 0;
  const began = overflowOf(name, events);
  if (!lost && !began) return nearlyFullTroubles(name, rows, nowMs);
  const room = roomsOf(rows).sort(([one], [other]) => other.used / other.most - one.used / one.most)[0]?.[0];
  const facts = [];
  if (lost) facts.push(`${counted(lost, "message")} refused or dropped in the last minutes`);
  facts.push(...waitsOf(rows));
  if (began && room?.full_for_s) facts.push(`full ${since(room.full_for_s, nowMs)}`);
  if (room) facts.push(`while it is full, ${room.when_full}`);
  const policy = !room && began?.reason ? ` (overflow: ${began.reason})` : "";
  const words = began ? `its queue is full${room ? `: ${usedOf(room)}` : policy}` : "its queue was full within the last minutes";
  return [trouble(lost || began ? "problem" : "attention", words, facts, cureOf(room), "full")];
}

function lostTroubles(series) {
  const lost = series?.points.length ? series.grownWithin("lost", LOST_PERIOD_S) : 0;
  return lost ? [trouble("problem", "messages were dropped within the last minutes", [counted(lost, "message")], "All figures of the bridge have the reason, under dropped.", "lost")] : [];
}

function nearlyFullTroubles(name, rows, nowMs) {
  return roomsOf(rows).filter(([room]) => room.used >= NEARLY_FULL * room.most).map(([room, sharing]) => {
    const leftS = sharing[0].full_s ?? null;
    const when = leftS === null ? "it does not grow just now; once it is full," : `full at about ${clock(nowMs + leftS * 1000, nowMs)}, in ${lasting(leftS)}, if it goes on like this; then`;
    const facts = [`${when} ${room.when_full}`];
    const oldestS = most(sharing, (row) => row.oldest_age_s);
    if (oldestS >= 1) facts.push(`the oldest message has waited ${lasting(oldestS)}`);
    const which = room.name === name ? "its queue" : `its queue ${room.name}`;
    return trouble("attention", `${which} is ${share(room.used / room.most)} full: ${usedOf(room)}`, facts, cureOf(room), "full");
  });
}

/** What limits the queue of the bridge, or of each class with limits of its own, and the lanes for which that holds. */
function roomsOf(rows) {
  const rooms = new Map();
  for (const row of rows.filter((one) => one.room?.most)) {
    if (!rooms.has(row.room.name)) rooms.set(row.room.name, [row.room, []]);
    rooms.get(row.room.name)[1].push(row);
  }
  return [...rooms.values()];
}

const usedOf = ({ limit, used, most: all }) => (limit === "max_bytes" ? `${bytes(used)} of ${bytes(all)}` : `${count(used)} of ${counted(all, "message")}`);
const cureOf = (room) => (room ? `${sentence(room.cure)}.` : "Get its link up, or raise limits.");

/** In how many seconds the bridge loses messages or refuses publishers: 0 if it does, Infinity if nothing says so. */
export function losesIn(rows, troubles) {
  if (troubles.some(({ kind, verdict }) => ["full", "lost"].includes(kind) && verdict === "problem")) return 0;
  return Math.min(...rows.map((row) => row.full_s ?? Infinity));
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

function deadTroubles(name, row, events, nowMs) {
  const dead = row.dead_letters ?? {};
  if (!dead.held) return [];
  const found = Object.entries(dead.reasons ?? {});
  const reasons = listed(found.map(([reason, number]) => `${found.length > 1 ? `${count(number)} ` : ""}${deathOf(reason)}`));
  return [trouble("attention", `${counted(dead.held, "dead letter")}${reasons ? `: ${reasons}` : ""}`, [...deadTimes(name, events, nowMs), bytes(dead.bytes)], "Mend what they are refused for, then replay them below; or purge them.", "dead")];
}

/** When there were dead letters since the last ones were purged, as far as ``events`` go back. */
function deadTimes(name, events, nowMs) {
  const own = events.filter((one) => one.bridge === name);
  const purged = own.map((one) => one.kind === "queue.purged" && one.reason === "dead_letters").lastIndexOf(true);
  const times = own.slice(purged + 1).filter((one) => one.kind === "messages.dead").map((one) => clock(one.at_ms, nowMs));
  if (!times.length) return [];
  const [first, last] = [times[0], times.at(-1)];
  return [first === last ? `since ${first}` : `since ${first}, the last at ${last}`];
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
