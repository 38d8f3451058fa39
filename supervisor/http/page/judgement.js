// What is in trouble, why, since when, and what to do: from one answer to ``status``, the events and what was seen before. Pure.

import { bridgeTroubles, losesIn } from "./bridge_troubles.js";
import { counted, listed } from "./format.js";
import { nodeTroubles } from "./node_troubles.js";
import { bridgesOf, processVerdict, RANK, stateOf, worst } from "./rows.js";

const FAR_S = 3600; // who is full later stays in the configuration's order

/**
 * Everything worth telling, of equal weight what loses messages or refuses publishers soonest first. ``events`` are by time, ``series`` has a ``Series`` for each bridge's name.
 *
 * Returns ``{verdict, headline, lead, troubles, bridges}``; a trouble is ``{verdict, about, anchor, text, facts, cure}``, and
 * ``bridges`` has ``{verdict, word, troubles}`` by name.
 */
export function judge(status, events, series, nowMs) {
  const bridges = new Map();
  const soonS = new Map(); // by bridge
  const troubles = nodeTroubles(status);
  const withSite = (status.processes ?? []).some((row) => row.name === "site" && processVerdict(row.state) !== "ok");
  for (const [name, rows] of bridgesOf(status)) {
    const found = bridgeTroubles(name, rows, events, series.get(name), nowMs, withSite).sort((one, other) => RANK[one.verdict] - RANK[other.verdict]);
    troubles.push(...found.map((one) => ({ about: name, anchor: `b-${name}`, bridge: name, ...one })));
    soonS.set(name, losesIn(rows, found));
    const state = stateOf(rows);
    bridges.set(name, { verdict: worst(found.map((one) => one.verdict)), word: state, troubles: found });
  }
  const soon = (one) => Math.min(soonS.get(one.bridge) ?? 0, FAR_S);
  troubles.sort((one, other) => RANK[one.verdict] - RANK[other.verdict] || soon(one) - soon(other));
  return { verdict: worst(troubles.map((one) => one.verdict)), ...headlineOf(status, troubles, bridges), troubles, bridges };
}

/** One sentence that names who is in trouble, and a second one where nobody is: reasons are told with each trouble, and there alone. */
function headlineOf(status, troubles, bridges) {
  const bad = namesOf(troubles.filter((one) => one.verdict === "problem"));
  if (bad.length) {
    const all = counted(bridges.size, "bridge");
    const headline = bad.every((name) => bridges.has(name)) ? `${bad.length} of ${all} ${bad.length === 1 ? "is" : "are"} in trouble: ${listed(bad)}.` : `In trouble: ${listed(bad)}.`;
    return { headline, lead: alsoOf(namesOf(troubles).filter((name) => !bad.includes(name)), bridges) };
  }
  if (troubles.length) return { headline: alsoOf(namesOf(troubles), bridges), lead: "" };
  if (!status.ready) return { headline: "The node is not ready yet.", lead: "" };
  if (status.replication?.role === "standby") {
    const { leader } = status.replication;
    return { headline: `This node stands by: ${leader ? `${leader} leads` : "nobody leads"}.`, lead: "" };
  }
  const waiting = (status.bridges ?? []).reduce((sum, row) => sum + (row.depth ?? 0), 0);
  const closed = [...bridges.values()].filter((one) => one.word === "closed").length, connected = bridges.size - closed;
  const how = [...(connected ? [`${counted(connected, "bridge")} connected`] : []), ...(closed ? [`${connected ? closed : counted(closed, "bridge")} closed by choice`] : [])];
  const lead = !bridges.size ? "A broker alone: no bridge is configured." : waiting ? `${counted(waiting, "message")} ${closed ? (waiting === 1 ? "waits" : "wait") : "on the way"}.` : "Nothing waits.";
  return { headline: how.length ? `All is well: ${how.join(", ")}.` : "All is well.", lead };
}

/** Who is paused, and who else is worth a look, of ``names``; empty if there are none. */
function alsoOf(names, bridges) {
  const paused = names.filter((name) => bridges.get(name)?.word === "paused");
  const others = names.filter((name) => !paused.includes(name));
  return [["Paused", paused], ["Worth a look", others]].filter(([, which]) => which.length).map(([word, which]) => `${word}: ${listed(which)}.`).join(" ");
}

const namesOf = (troubles) => [...new Set(troubles.map((one) => one.about))];
