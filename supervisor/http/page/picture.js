// The node as a picture: local clients, processes, remotes, and what flows between them. Wide it runs from left to right, narrow down.

import { keyed, make, say, setAll } from "./dom.js";
import { bytes, count, counted, lasting, rate } from "./format.js";
import { bridgesOf, processVerdict, remoteOf, stateOf, worst } from "./rows.js";

const WIDE = 720;
const BOX = 46;
const GAP = 16; // between rows
const LINE = 15; // of a title that takes several
const FONT = "600 13px"; // of titles
const PAD = 14; // between the node's frame and its processes
const LANES_MOST = 10;
const SIGNS = {
  ok: ["M-4-.2-1.3 2.6 4-3"],
  attention: ["M0-4.500V1", "M0 4v.1"],
  problem: ["M-3-3 3 3M3-3-3 3"],
  none: ["M-3.5 0h7"],
};

export class Picture {
  constructor(host) {
    this.svg = make("svg", { role: "group", "aria-label": "The node's processes, from local clients to remotes" });
    this.edges = make("g", { class: "edges", "aria-hidden": "true" });
    this.boxes = make("g", {});
    this.frame = make("rect", { class: "frame", rx: 14 });
    this.svg.append(this.frame, this.edges, this.boxes);
    this.rest = make("p", { class: "fine" });
    this.stage = make("div", {}, this.svg);
    host.append(this.stage, this.rest);
    this.table = new Processes(document.getElementById("processes"));
    new ResizeObserver(() => { if (this.state) this._draw(this.state); }).observe(this.stage);
  }

  show(state) {
    this.state = state;
    this._draw(state);
    this.table.show(state.status);
  }

  _draw(state) {
    const width = Math.floor(this.stage.clientWidth);
    if (!width) return;
    const model = modelOf(state);
    const { frame, boxes, edges, height } = width >= WIDE ? across(model, width) : down(model, width);
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height, class: width >= WIDE ? "across" : "down" });
    setAll(this.frame, frame);
    keyed(this.edges, edges, (edge) => edge.key, newEdge, showEdge);
    keyed(this.boxes, boxes, (box) => box.key, newBox, showBox);
    say(this.rest, model.more ? `${counted(model.more, "more bridge process", "more bridge processes")}, all of them well, below.` : "");
  }
}

/** What there is to draw: boxes with title, line below, verdict, and where they lead; pure. */
export function modelOf({ status, judgement }) {
  const processes = new Map((status.processes ?? []).map((row) => [row.name, row]));
  const verdictOf = (name) => processVerdict(processOf(processes, name)?.state ?? "stopped");
  const wordsOf = (name) => stateWords(name, processOf(processes, name));
  const listener = status.listener ?? {}, store = status.store ?? {};
  const box = (key, title, line, verdict, href, kind = "process") => ({ key, title, line, verdict, href, kind });
  const clients = box("clients", "clients", listener.accepting === false ? "does not listen" : wordsOf("clients"), listener.accepting === false ? "problem" : verdictOf("clients"), "#node");
  const local = box("local", "Local clients", `${count(listener.clients ?? 0)} connected`, "none", "#clients", "outside");
  const diskVerdict = store.state && store.state !== "running" ? "problem" : verdictOf("store");
  const free = store.disk_free_bytes === undefined || store.disk_free_bytes === null ? "" : `${bytes(store.disk_free_bytes)} free`;
  const storeBox = box("store", "store", store.state && store.state !== "running" ? store.state.replace("_", " ") : free || wordsOf("store"), diskVerdict, "#ledger");
  const supervisor = box("supervisor", "supervisor", `up ${lasting(status.supervisor.uptime_s)}`, status.ready ? "ok" : "attention", "#events");
  const helpers = [...processes.values()].filter((row) => !["supervisor", "clients", "store"].includes(row.name) && !row.name.startsWith("bridge:"));
  const beside = helpers.map((row) => box(row.name, row.name, row.name === "template" && row.state === "ready" ? "starts others" : stateWords(row.name, row), processVerdict(row.state), "#node", "helper"));
  const lanes = bridgesOf(status).flatMap(([name, rows]) => rows.map((row) => laneOf(name, row, rows.length, processes, judgement)));
  const shown = lanes.length <= LANES_MOST ? lanes : [...lanes].sort((one, other) => Number(one.well) - Number(other.well)).slice(0, LANES_MOST);
  const published = (status.bridges ?? []).reduce((sum, row) => sum + (row.rate_in ?? 0), 0);
  return { local, clients, store: storeBox, supervisor, beside, lanes: shown, more: lanes.length - shown.length, published };
}

function laneOf(name, row, lanes, processes, judgement) {
  const process = processOf(processes, `bridge:${name}:${row.lane}`);
  const title = lanes > 1 ? `${name}:${row.lane}` : name;
  const own = processVerdict(process?.state ?? "stopped");
  const state = stateOf([row]);
  const link = { connected: "ok", closed: "ok", paused: "attention", connecting: "attention" }[state] ?? "problem";
  const waits = row.depth ? `${count(row.depth)} wait` : "nothing waits";
  const href = `#b-${name}`;
  const remote = remoteOf(row) || "remote";
  return {
    bridge: { key: `bridge:${name}:${row.lane}`, title, line: own === "ok" ? waits : process?.state ?? "stopped", verdict: worst([own, row.ledger_closes === false ? "problem" : "ok"]), href, kind: "process" },
    remote: { key: `remote:${name}:${row.lane}`, title: remote, line: state === "connected" ? rate(row.rate_out) : state === "closed" ? "closed" : failed(row), verdict: own === "ok" ? link : "none", href, kind: "outside" },
    into: row.rate_in, out: row.rate_out, state, well: own === "ok" && link === "ok" && judgement.bridges.get(name)?.verdict === "ok",
  };
}

function failed(row) {
  if (row.paused_since_ms) return "paused";
  const next = row.next_attempt_s ?? null;
  return next === null ? "no link" : next < 1 ? "tries now" : `retry in ${lasting(next)}`;
}

/** The process that has the child: its own, or the one that it shares. */
const processOf = (processes, child) => processes.get(child) ?? processes.get("site");

const stateWords = (name, row) => (row === undefined ? "does not run" : row.state !== "ready" ? row.state : row.name === name ? `${bytes(row.pss_bytes)}` : `in ${row.name}`);

/** ``box`` in a place that is ``w`` wide: its title whole, in as many lines as that takes. */
function placed(box, x, y, w) {
  const titles = lined(box.title, w - textLeft(box) - 8);
  return { ...box, x, y, w, titles, h: BOX + LINE * (titles.length - 1) };
}

/** From left to right: clients, store, bridges, remotes; the supervisor above. */
function across(model, width) {
  const gap = Math.max(34, Math.min(64, (width - 5 * 150) / 4));
  const wide = (width - 4 * gap) / 5;
  const x = (column) => column * (wide + gap);
  const place = (box, column, y) => placed(box, x(column), y, wide);
  const above = [place(model.supervisor, 1, PAD), ...model.beside.map((box, at) => place(box, 2 + at, PAD))];
  const top = PAD + Math.max(...above.map((box) => box.h)) + 24;
  const lanes = model.lanes.map((lane) => [lane, place(lane.bridge, 3, 0), place(lane.remote, 4, 0)]);
  const highs = lanes.map(([, bridge, remote]) => Math.max(bridge.h, remote.h));
  const needed = highs.reduce((sum, high) => sum + high + GAP, -GAP);
  const least = Math.max(needed, 2 * BOX + GAP), middle = top + least / 2 - BOX / 2;
  const local = place(model.local, 0, middle), clients = place(model.clients, 1, middle), store = place(model.store, 2, middle);
  const boxes = [...above, local, clients, store];
  const edges = [edge(local, clients, model.published), edge(clients, store, model.published)];
  let y = top + (least - needed) / 2;
  for (const [at, [lane, bridge, remote]] of lanes.entries()) {
    for (const box of [bridge, remote]) box.y = y + (highs[at] - box.h) / 2;
    y += highs[at] + GAP;
    boxes.push(bridge, remote);
    edges.push(edge(store, bridge, lane.into), edge(bridge, remote, lane.out, lane.state));
  }
  const height = top + least + PAD;
  const frame = { x: x(1) - PAD, y: 0.5, width: 3 * wide + 2 * gap + 2 * PAD, height: height - 1 };
  return { frame, boxes, edges, height };
}

/** From top to bottom, two boxes wide, for a phone. */
function down(model, width) {
  const gap = 26, wide = (width - gap) / 2, apart = 12;
  let y = 2;
  const boxes = [], edges = [];
  /** Two boxes, or one, beside each other; ``y`` goes on below them. */
  const row = (...pair) => {
    const set = pair.map((box, at) => placed(box, at * (wide + gap), y, wide));
    const high = Math.max(...set.map((box) => box.h));
    for (const box of set) box.y += (high - box.h) / 2;
    boxes.push(...set);
    y += high + apart;
    return set;
  };
  const tops = [model.supervisor, ...model.beside];
  for (let at = 0; at < tops.length; at += 2) row(...tops.slice(at, at + 2));
  y += 18;
  const [local, clients] = row(model.local, model.clients);
  y += 14;
  const store = placed(model.store, wide + gap, y, wide);
  boxes.push(store);
  edges.push(edge(local, clients, model.published), { ...edge(clients, store, model.published), path: `M${clients.x + wide / 2} ${clients.y + clients.h}V${store.y}` });
  y += store.h + 32;
  const below = y;
  for (const lane of model.lanes) {
    const [bridge, remote] = row(lane.bridge, lane.remote);
    edges.push(edge(bridge, remote, lane.out, lane.state));
  }
  if (model.lanes.length) edges.push({ key: "spine", path: `M${store.x} ${store.y + store.h / 2}H${wide / 2}V${below}`, busy: model.published > 0, state: "connected" });
  return { frame: { x: 0, y: 0, width: 0, height: 0 }, boxes, edges, height: y };
}

function edge(from, to, perSecond, state = "connected") {
  const x1 = from.x + from.w, y1 = from.y + from.h / 2, x2 = to.x, y2 = to.y + to.h / 2, bend = (x2 - x1) / 2;
  return { key: `${from.key}>${to.key}`, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, busy: state === "connected" && perSecond > 0, state };
}

function newEdge() {
  return make("g", {}, make("path", { class: "way" }), make("path", { class: "flow" }));
}

function showEdge(element, one) {
  setAll(element, { class: one.busy ? "busy" : { connected: "idle", closed: "paused", paused: "paused" }[one.state] ?? "cut" });
  for (const path of element.children) setAll(path, { d: one.path });
}

function newBox(box) {
  const sign = make("g", { class: "sign" }, make("circle", { r: 8 }), make("path", { class: "on" }));
  const link = make("svg:a");
  link.append(make("rect", { rx: box.kind === "outside" ? 23 : 9 }), sign, make("text", { class: "name" }), make("text", { class: "below" }));
  return link;
}

function showBox(element, box) {
  const [rect, sign, name, line] = element.children;
  setAll(element, { href: box.href, class: `box ${box.kind} s-${box.verdict}`, "aria-label": `${box.title}: ${box.line}${box.verdict === "none" ? "" : `, ${{ ok: "well", attention: "worth a look", problem: "in trouble" }[box.verdict]}`}` });
  setAll(rect, { x: box.x + 0.5, y: box.y + 0.5, width: Math.max(0, box.w - 1), height: box.h - 1 });
  setAll(sign, { transform: `translate(${box.x + inset(box)} ${box.y + box.h / 2})`, visibility: hasSign(box) ? null : "hidden" });
  setAll(sign.lastChild, { d: SIGNS[box.verdict].join("") });
  const x = box.x + textLeft(box);
  keyed(name, box.titles.map((text, at) => ({ text, at })), (one) => one.at, () => make("tspan"), (tspan, { text, at }) => {
    say(tspan, text);
    setAll(tspan, { x, y: box.y + BOX / 2 - 3 + at * LINE });
  });
  setAll(line, { x, y: box.y + box.h - BOX / 2 + 13 });
  say(line, box.line);
}

const hasSign = (box) => box.kind !== "outside" || box.verdict !== "none";
const inset = (box) => (box.kind === "outside" ? 17 : 18);
const textLeft = (box) => (hasSign(box) ? inset(box) + 13 : 16);

let pen = null;

/** ``text`` in lines of at most ``room``, broken where a reader expects it if that can be, and else anywhere; nothing is left out. */
function lined(text, room) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${FONT} ${getComputedStyle(document.body).fontFamily}`;
  const fits = (part) => pen.measureText(part).width <= room;
  const lines = [];
  let rest = text;
  while (!fits(rest) && rest.length > 1) {
    let most = 1;
    while (most < rest.length && fits(rest.slice(0, most + 1))) most += 1;
    const kind = rest.slice(0, most).search(/[-.:/_@ ][^-.:/_@ ]*$/);
    const cut = kind > most / 3 ? kind + 1 : most;
    lines.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  return [...lines, rest];
}

/** The processes as a table. */
class Processes {
  constructor(host) {
    const titles = ["Process", "State", "pid", "Restarts", "Memory", "Processor time", "Last cause"];
    this.titles = titles;
    const heads = titles.map((title, at) => make("th", { scope: "col", class: at > 1 && at < 6 ? "number" : null }, title));
    this.body = make("tbody", {});
    host.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), this.body)));
  }

  show(status) {
    keyed(this.body, status.processes ?? [], (row) => row.name, () => make("tr", {}, ...this.titles.map((title, at) => make("td", { class: at > 1 && at < 6 ? "number" : "text", "data-label": title }, make("bdi", {})))), (tr, row) => {
      const cpu = row.cpu_s === null ? "–" : `${row.cpu_s.toFixed(1)} s`;
      const values = [row.name, row.state, row.pid === null ? "–" : String(row.pid), count(row.restarts), bytes(row.pss_bytes), cpu, row.last_cause];
      for (const [at, value] of values.entries()) say(tr.children[at].firstChild, value);
    });
  }
}
