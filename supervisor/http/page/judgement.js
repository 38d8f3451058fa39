// What is in trouble, why, since when, and what to do: from one answer to ``status``, the events and what was seen before. Pure.

import { bytes, count, counted, duration, lasting, listed } from "./format.js";
import { droppedOf } from "./samples.js";

const RANK = { problem: 0, attention: 1, none: 2, ok: 3 };
const GRACE_S = 5; // a link that is being made is no trouble yet
const LOST_PERIOD_S = 300;
const OLD_S = 60;
const RESTART_PERIOD_MS = 300000;

// The step at which an attempt to connect failed stands in the reason, behind the address.
const STEP = /(?:^|: )(credentials|name|tcp|tls|websocket|connack): /;
const CURES = {
  credentials: "Mend the file that is named, or its permissions.",
  name: "Check the host name, and the machine's resolver (getent hosts NAME).",
  tcp: "Check address and port, that a broker listens there, and what a firewall lets through.",
  tls: "Check tls.ca_file, tls.server_name, and that transport and port belong together.",
  websocket: "Check websocket_path, and that the port speaks WebSocket.",
  connack: "Check username, password_file and client_id of this bridge against what the broker allows.",
};
const STEPS_IN_WORDS = {
  credentials: "its credentials cannot be read",
  name: "the remote's name is not known",
  tcp: "the remote cannot be reached",
  tls: "TLS with the remote fails",
  websocket: "the remote speaks no WebSocket there",
  connack: "the remote does not let it in",
};
const DISK_CURE = "Make room on the disk of data_dir, or purge what is not wanted; intake goes on by itself.";

// Why a message died, as the store names it, and the reason codes of MQTT 5 among that.
const DEATHS = { connection_closed: "the remote closes the connection on them", too_large: "larger than the remote takes" };
const REFUSALS = {
  "0x80": "no reason given",
  "0x83": "refused by the remote's own rules",
  "0x87": "not authorized",
  "0x90": "topic name invalid",
  "0x91": "packet identifier in use",
  "0x97": "quota exceeded",
  "0x99": "payload format invalid",
};

/** What dead letters died of, in words, and as the store names it. */
export function deathOf(reason) {
  const code = /^remote_(0x[0-9a-f]{2})$/.exec(reason)?.[1];
  if (code) return `refused by the remote: ${REFUSALS[code] ?? "reason code"} (${code})`;
  return DEATHS[reason] ?? reason.replaceAll("_", " ");
}

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

/** When the link of a lane went down (UTC milliseconds), as far as events tell; null while none of them does. */
export function downSince(row, events) {
  let since = null;
  for (const event of events) {
    if (event.kind === "node.started") since = event.at_ms;
    if (event.bridge !== row.name || event.lane !== row.lane) continue;
    if (event.kind === "link.down") since = event.at_ms;
    else if (event.kind === "link.up") since = null;
    else if (event.kind === "process.ended" && since === null) since = event.at_ms;
  }
  return since;
}

/**
 * Everything worth telling. ``events`` are by time, ``series`` has a ``Series`` for each bridge's name.
 *
 * Returns ``{verdict, headline, lead, troubles, bridges}``; a trouble is ``{verdict, about, anchor, text, facts, cure}``, and
 * ``bridges`` has ``{verdict, word, text, facts, cure}`` by name.
 */
export function judge(status, events, series, nowMs) {
  const bridges = new Map();
  const troubles = nodeTroubles(status);
  for (const [name, rows] of bridgesOf(status)) {
    const found = bridgeTroubles(name, rows, events, series.get(name), nowMs).sort((one, other) => RANK[one.verdict] - RANK[other.verdict]);
    troubles.push(...found.map((one) => ({ about: name, anchor: `b-${name}`, bridge: name, ...one })));
    const state = stateOf(rows);
    bridges.set(name, { verdict: worst(found.map((one) => one.verdict)), word: state, troubles: found });
  }
  troubles.sort((one, other) => RANK[one.verdict] - RANK[other.verdict]);
  return { verdict: worst(troubles.map((one) => one.verdict)), ...headlineOf(status, troubles, bridges), troubles, bridges };
}

/** The remote of a lane: the address in use, or the one that was tried last; empty while there is neither. */
export function remoteOf(row) {
  return row.link?.address || /^(\S+:\d+): /.exec(row.last_error || row.reason || "")?.[1] || "";
}

/** One word for all lanes of a bridge: that of the one that is worst off. */
export function stateOf(rows) {
  const states = rows.map((row) => (row.paused_since_ms !== null && row.paused_since_ms !== undefined ? "paused" : row.state));
  return states.find((one) => one !== "connected") ?? "connected";
}

/** The verdict of a process's or an actor's state. */
export function processVerdict(state) {
  if (state === "ready") return "ok";
  return ["damaged", "misconfigured", "stopped", "restarting"].includes(state) ? "problem" : "attention";
}

// --- bridges ---

function bridgeTroubles(name, rows, events, series, nowMs) {
  const found = [];
  const lane = (row) => (rows.length > 1 ? `lane ${row.lane}: ` : "");
  for (const row of rows) found.push(...linkTroubles(row, lane(row), events, nowMs), ...queueTroubles(row, lane(row)));
  found.push(...fullTroubles(name, rows, events, series));
  found.push(...deadTroubles(rows[0]), ...restartTroubles(name, rows, events, nowMs));
  return found;
}

function linkTroubles(row, lane, events, nowMs) {
  const waits = waitsOf(row);
  if (row.paused_since_ms !== null && row.paused_since_ms !== undefined) {
    if (row.lane > 0) return [];
    return [trouble("attention", "paused by an operator", [since((nowMs - row.paused_since_ms) / 1000), ...waits], "Resume it when the remote may have its messages again.")];
  }
  if (row.state === "connected") return connectedTroubles(row, lane, waits);
  const at = downSince(row, events);
  const downS = at === null ? row.since_s : (nowMs - at) / 1000;
  const facts = [since(downS), ...waits];
  if (row.next_attempt_s !== null && row.next_attempt_s !== undefined) facts.push(`next attempt in ${lasting(row.next_attempt_s)}`);
  if (["connecting", "backoff"].includes(row.state)) {
    const why = row.reason || row.last_error;
    const step = STEP.exec(why)?.[1];
    if (!step && row.state === "connecting" && (downS ?? 0) < GRACE_S) return [trouble("attention", `${lane}connecting`, facts, "")];
    const words = step ? STEPS_IN_WORDS[step] : "it has no connection to its remote";
    return [trouble("problem", `${lane}${words}${why ? ` (${why})` : ""}`, facts, CURES[step] ?? "See the broker's log; bascule doctor tries each remote with the bridge's own credentials.")];
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
  const refused = Object.entries(row.remote_subscriptions?.refused ?? {});
  if (refused.length) {
    const names = listed(refused.map(([filter, code]) => `${filter} (${code})`));
    found.push(trouble("attention", `${lane}the remote refuses the subscription to ${names}`, [], "Give the bridge's user the right to read it, or remove it."));
  }
  if ((row.oldest_age_s ?? 0) > OLD_S) {
    const slow = row.drain_s === null ? "it grows, or does not move" : row.drain_s ? `done in about ${duration(row.drain_s)}` : "";
    found.push(trouble("attention", `${lane}behind: the oldest message has waited ${lasting(row.oldest_age_s)}`, [...waits, ...(slow ? [slow] : [])], row.drain_s === null ? "More comes than the remote takes: see its load and receive_maximum, or use more lanes." : ""));
  }
  return found;
}

function queueTroubles(row, lane) {
  const found = [];
  if (row.ledger_closes === false) found.push(trouble("problem", `${lane}its ledger does not add up`, [], "Make a snapshot and a report (bascule snapshot, bascule report), and tell us."));
  if ((row.waits_for_lanes ?? []).length) {
    found.push(trouble("attention", `${lane}waits for ${listed(row.waits_for_lanes.map((one) => `lane ${one}`))} to send what came before the change of lanes`, [], ""));
  }
  return found;
}

function fullTroubles(name, rows, events, series) {
  const held = rows.reduce((sum, row) => sum + (row.held_back ?? 0), 0);
  const lost = series?.points.length ? series.lostWithin(LOST_PERIOD_S) : 0;
  const began = overflowOf(name, events);
  if (!held && !lost && !began) return [];
  const policy = began?.reason ? ` (overflow: ${began.reason})` : "";
  const facts = [];
  if (held) facts.push(`${counted(held, "message")} held back with ${held === 1 ? "its publisher" : "their publishers"}`);
  if (lost) facts.push(`${counted(lost, "message")} refused or dropped in the last minutes`);
  const waits = rows.reduce((sum, row) => sum + (row.depth ?? 0), 0);
  facts.push(`${counted(waits, "message")} of ${bytes(rows.reduce((sum, row) => sum + (row.bytes ?? 0), 0))} wait`);
  const words = began || held ? `its queue is full${policy}` : "its queue was full within the last minutes";
  return [trouble(lost || held ? "problem" : "attention", words, facts, "Get its link up, or raise limits.max_messages and limits.max_bytes, or purge.")];
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
  const ended = events.filter((one) => one.kind === "process.ended" && one.bridge === name && nowMs - one.at_ms < RESTART_PERIOD_MS);
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

// --- the node ---

function nodeTroubles(status) {
  const found = [];
  const add = (verdict, about, anchor, text, facts, cure) => found.push({ about, anchor, ...trouble(verdict, text, facts, cure) });
  const store = status.store ?? {};
  if (store.state && store.state !== "running") {
    const words = { disk_low: "less room on the disk than min_free_disk", disk_full: "the disk is full", disk_error: "the disk reports errors" };
    const error = store.error ? ` (${store.error})` : "";
    add("problem", "Disk", "node", `${words[store.state] ?? store.state}${error}: nothing is taken from clients`, [`${bytes(store.disk_free_bytes)} free`], store.state === "disk_error" ? "See the kernel's log; copy the data before anything else." : DISK_CURE);
  }
  if (store.damaged_files) add("attention", "Store", "node", `damaged files were put aside in ${store.damaged_files}`, [], "Copy them before anything else; bascule report says what they held.");
  const listener = status.listener ?? {};
  if (listener.accepting === false) {
    add("problem", "Clients", "clients", `the listener accepts nobody${listener.error ? `: ${listener.error}` : ""}`, [], "Free the address that is named, or change listeners in the configuration.");
  }
  for (const row of status.processes ?? []) {
    if (row.name.startsWith("bridge:")) continue; // told with its bridge
    const verdict = processVerdict(row.state);
    if (verdict !== "ok") add(verdict, row.name, "node", `the process is ${row.state}${row.last_cause ? `: ${row.last_cause}` : ""}`, [], "");
    else if (row.last_cause && listener.accepting !== false) add("attention", row.name, "node", row.last_cause, [], "");
  }
  for (const key of ["failure", "ship_failure"]) {
    const why = status.snapshots?.[key];
    if (why) add("attention", "Snapshots", "node", key === "failure" ? `the last snapshot was not made: ${why}` : `the last snapshot was not copied: ${why}`, [], "");
  }
  for (const one of status.unserved ?? []) {
    add("attention", one.queue, "ledger", "messages wait, and no bridge of the configuration serves them", [`${counted(one.depth, "message")} of ${bytes(one.bytes)}`], "Put the bridge back, or purge its queue.");
  }
  return found;
}

// --- words ---

function trouble(verdict, text, facts, cure, kind = "") {
  return { verdict, text, facts, cure, kind };
}

const since = (seconds) => `for ${lasting(seconds)}`;

function waitsOf(row) {
  if (!row.depth) return ["nothing waits"];
  return [`${counted(row.depth, "message")} (${bytes(row.bytes)}) ${row.depth === 1 ? "waits" : "wait"}`];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function headlineOf(status, troubles, bridges) {
  const bad = troubles.filter((one) => one.verdict === "problem");
  if (bad.length === 1) return { headline: `${bad[0].about}: ${withoutBrackets(bad[0].text)}.`, lead: leadOf(bad[0]) };
  if (bad.length > 1) {
    const names = [...new Set(bad.map((one) => one.about))];
    const of = names.every((name) => bridges.has(name)) ? `${names.length} of ${counted(bridges.size, "bridge")} in trouble` : "In trouble";
    return { headline: `${of}: ${listed(names)}.`, lead: "" };
  }
  if (!status.ready && !troubles.length) return { headline: "The node is not ready yet.", lead: "" };
  const waiting = (status.bridges ?? []).reduce((sum, row) => sum + (row.depth ?? 0), 0);
  const lead = !bridges.size ? "A broker alone: no bridge is configured." : waiting ? `${counted(waiting, "message")} on the way.` : "Nothing waits.";
  if (!troubles.length) return { headline: bridges.size ? `All is well: ${counted(bridges.size, "bridge")} connected.` : "All is well.", lead };
  const names = [...new Set(troubles.map((one) => one.about))];
  return { headline: `Messages flow; worth a look: ${listed(names)}.`, lead };
}

const withoutBrackets = (text) => text.replace(/ \([^()]*(?:\([^()]*\)[^()]*)*\)$/, "");

const leadOf = (one) => sentence(one.facts.join(", ")) + (one.facts.length ? "." : "");

/** The sum of all lanes' ledgers: accepted = delivered + queued + expired + dropped + dead-lettered. */
export function ledgerOf(rows) {
  const sum = (name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
  const ledger = { accepted: sum("accepted"), delivered: sum("delivered"), queued: sum("depth"), expired: sum("expired") };
  ledger.dropped = rows.reduce((all, row) => all + droppedOf(row), 0);
  ledger.dead = sum("dead_lettered");
  ledger.closes = rows.every((row) => row.ledger_closes !== false);
  return ledger;
}
