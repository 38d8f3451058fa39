// What is in trouble, why, since when, and what to do: from one answer to ``status``, the events and what was seen before. Pure.

import { bridgeTroubles } from "./bridge_troubles.js";
import { counted, listed } from "./format.js";
import { nodeTroubles } from "./node_troubles.js";
import { bridgesOf, RANK, sentence, stateOf, worst } from "./rows.js";

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

function headlineOf(status, troubles, bridges) {
  const bad = troubles.filter((one) => one.verdict === "problem");
  if (bad.length === 1) return { headline: `${bad[0].about}: ${bad[0].short ?? withoutBrackets(bad[0].text)}.`, lead: leadOf(bad[0]) };
  if (bad.length > 1) {
    const names = [...new Set(bad.map((one) => one.about))];
    const of = names.every((name) => bridges.has(name)) ? `${names.length} of ${counted(bridges.size, "bridge")} in trouble` : "In trouble";
    const besides = [...new Set(troubles.map((one) => one.about))].filter((name) => !names.includes(name));
    return { headline: `${of}: ${listed(names)}.`, lead: besides.length ? `Worth a look too: ${listed(besides)}.` : "" };
  }
  if (!status.ready && !troubles.length) return { headline: "The node is not ready yet.", lead: "" };
  if (status.replication?.role === "standby" && !troubles.length) {
    const { leader } = status.replication;
    return { headline: `This node stands by: ${leader ? `${leader} leads` : "nobody leads"}.`, lead: "" };
  }
  const waiting = (status.bridges ?? []).reduce((sum, row) => sum + (row.depth ?? 0), 0);
  const lead = !bridges.size ? "A broker alone: no bridge is configured." : waiting ? `${counted(waiting, "message")} on the way.` : "Nothing waits.";
  if (!troubles.length) return { headline: bridges.size ? `All is well: ${counted(bridges.size, "bridge")} connected.` : "All is well.", lead };
  const names = [...new Set(troubles.map((one) => one.about))];
  return { headline: `Messages flow; worth a look: ${listed(names)}.`, lead };
}

const withoutBrackets = (text) => text.replace(/ \([^()]*(?:\([^()]*\)[^()]*)*\)$/, "");

const leadOf = (one) => sentence(one.facts.join(", ")) + (one.facts.length ? "." : "");
