import { followSections } from "./contents.js";
import { every, icon, make } from "./dom.js";
import { bytes, duration, moment, rate, trimmed, UNKNOWN } from "./format.js";
import { followTheme } from "./theme.js";

document.documentElement.classList.add("js");

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const STATES = { ok: "OK", attention: "Attention", problem: "Problem", none: "Not judged" };

/** A value of a column's or an axis' kind, by the same rules as text.py. */
function text(kind, value) {
  if (value === null || value === undefined || (typeof value === "number" && !Number.isFinite(value))) return UNKNOWN;
  if (typeof value === "string") return kind === "state" && Object.hasOwn(STATES, value) ? STATES[value] : value;
  if (kind === "time") return moment(value);
  const sign = value < 0 ? "−" : "";
  const size = Math.abs(value);
  switch (kind) {
    case "bytes": return sign + bytes(size);
    case "duration_s": return sign + duration(size);
    case "percent": return sign + (size > 0 && size < 0.1 ? "<0.1 %" : trimmed(size, 1) + " %");
    case "per_s": return sign + rate(size);
    default: return sign + trimmed(size, size >= 1000 ? 0 : 2);
  }
}

// Tables

const NUMBERS = ["count", "bytes", "duration_s", "percent", "per_s"];
const collator = new Intl.Collator("en", { numeric: true });
const ORDER = { problem: 0, attention: 1, ok: 2, none: 3 };
const narrow = window.matchMedia("(max-width: 40rem)").matches;
const tables = [];
let onlyNode = "";

class Table {
  constructor(host, data) {
    this.host = host;
    this.columns = data.columns;
    this.rows = data.rows;
    this.total = data.total;
    this.size = narrow ? 5 : data.first;
    this.page = 0;
    this.sorted = { column: -1, down: false };
    this.words = "";
    this.state = "";
    this.node = data.columns.findIndex((one) => one.name === "node");
    this.stateColumn = data.columns.findIndex((one) => one.kind === "state");
    this.body = host.querySelector("tbody");
    this.heads = every("th", host);
    this.texts = null;
    for (const [at, head] of this.heads.entries()) {
      head.querySelector("button").addEventListener("click", () => this.sort(at));
    }
    this.tools();
    this.show();
  }

  tools() {
    if (this.rows.length > 5) {
      const words = make("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", spellcheck: "false" });
      words.addEventListener("input", () => { this.words = words.value; this.page = 0; this.show(); });
      this.orderBox = make("select", { "aria-label": "Sort by" }, make("option", { value: "-1" }, "As reported"));
      for (const [at, column] of this.columns.entries()) {
        this.orderBox.append(make("option", { value: at + "u" }, column.title + " ↑"), make("option", { value: at + "d" }, column.title + " ↓"));
      }
      this.orderBox.addEventListener("change", () => {
        const chosen = this.orderBox.value;
        this.sorted = { column: parseInt(chosen, 10), down: chosen.endsWith("d") };
        this.page = 0;
        this.show();
      });
      this.count = make("span", { class: "count", role: "status" });
      const save = make("button", { type: "button", class: "chip save" }, "CSV");
      save.title = "Save the rows shown as a CSV file";
      save.addEventListener("click", () => this.save());
      this.host.prepend(make("div", { class: "bar-of-tools" }, make("div", { class: "filter" }, words),
        make("div", { class: "order" }, this.orderBox), this.chips(), save, this.count));
    }
    if (this.rows.length > this.size) {
      this.pages = make("div", { class: "pages" });
      this.host.append(this.pages);
    }
  }

  chips() {
    const box = make("div", { class: "chips" });
    if (this.stateColumn < 0) return box;
    for (const state of Object.keys(ORDER)) {
      const found = this.rows.filter((row) => row[this.stateColumn] === state).length;
      if (!found || found === this.rows.length) continue;
      const chip = make("button", { type: "button", class: "chip s-" + state, "aria-pressed": "false" }, icon(state), STATES[state] + " " + text("count", found));
      chip.addEventListener("click", () => {
        this.state = this.state === state ? "" : state;
        for (const other of every(".chip[aria-pressed]", box)) other.setAttribute("aria-pressed", String(other === chip && this.state !== ""));
        this.page = 0;
        this.show();
      });
      box.append(chip);
    }
    return box;
  }

  chosen() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && this.texts === null) {
      this.texts = this.rows.map((row) => row.map((value, at) => text(this.columns[at].kind, value)).join("\n").toLowerCase());
    }
    const found = [];
    for (const [at, row] of this.rows.entries()) {
      if (onlyNode && this.node >= 0 && row[this.node] !== onlyNode) continue;
      if (this.state && row[this.stateColumn] !== this.state) continue;
      if (words.length && !words.every((word) => this.texts[at].includes(word))) continue;
      found.push(row);
    }
    const { column, down } = this.sorted;
    if (column < 0) return found;
    const state = this.columns[column].kind === "state";
    const compare = (one, other) => {
      const a = one[column], b = other[column];
      if (a === null || b === null) return (a === null) - (b === null); // unknown values last, whichever way
      const sign = down ? -1 : 1;
      if (state) return sign * ((ORDER[a] ?? 4) - (ORDER[b] ?? 4));
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));
    };
    return found.sort(compare);
  }

  sort(column) {
    const numeric = NUMBERS.includes(this.columns[column].kind) || this.columns[column].kind === "time";
    const same = this.sorted.column === column;
    if (same && this.sorted.down !== numeric) this.sorted = { column: -1, down: false }; // third time: as reported
    else this.sorted = { column, down: same ? !this.sorted.down : numeric };
    this.page = 0;
    this.show();
  }

  show() {
    const found = this.chosen();
    const pages = Math.max(1, Math.ceil(found.length / this.size));
    this.page = clamp(this.page, 0, pages - 1);
    const first = this.page * this.size;
    const rows = found.slice(first, first + this.size).map((row) => this.row(row));
    if (!rows.length) rows.push(make("tr", { class: "none-left", role: "row" }, make("td", { colspan: this.columns.length, role: "cell" }, "No row is like that.")));
    this.body.replaceChildren(...rows);
    for (const [at, head] of this.heads.entries()) {
      if (at === this.sorted.column) head.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    if (this.orderBox) this.orderBox.value = this.sorted.column < 0 ? "-1" : this.sorted.column + (this.sorted.down ? "d" : "u");
    if (this.count) {
      const all = found.length === this.rows.length;
      const beyond = this.total > this.rows.length ? "; " + text("count", this.total) + " in the Parquet output" : "";
      this.count.textContent = (all ? text("count", found.length) + " rows" : text("count", found.length) + " of " + text("count", this.rows.length) + " rows") + beyond;
    }
    if (this.pages) this.pager(first, Math.min(first + this.size, found.length), found.length, pages);
  }

  row(values) {
    return make("tr", { role: "row" }, ...values.map((value, at) => {
      const { kind, title } = this.columns[at];
      const cell = make("td", { role: "cell", class: NUMBERS.includes(kind) ? "number" : kind, "data-label": title });
      const said = text(kind, value);
      if (said === UNKNOWN) cell.append(make("span", { class: "unknown" }, UNKNOWN));
      else if (kind === "state" && Object.hasOwn(STATES, value)) cell.append(make("span", { class: "badge s-" + value }, icon(value), said));
      else if (kind === "time" && typeof value === "number") cell.append(make("time", { datetime: new Date(value).toISOString() }, said));
      else if (kind === "text") cell.append(make("bdi", said.length > 90 ? { title: said } : {}, said));
      else cell.append(said);
      return cell;
    }));
  }

  pager(first, last, found, pages) {
    const turn = (label, by) => {
      const button = make("button", { type: "button", class: "quiet", "aria-label": label }, by < 0 ? "‹" : "›");
      button.disabled = this.page + by < 0 || this.page + by >= pages;
      button.addEventListener("click", () => {
        this.page += by;
        this.show();
        const again = this.pages.querySelector('[aria-label="' + label + '"]');
        (again.disabled ? this.pages.querySelector("button:not(:disabled)") : again)?.focus();
      });
      return button;
    };
    const sizes = make("select", {});
    for (const size of [5, 10, 50, 250]) sizes.append(make("option", { value: size }, String(size)));
    sizes.value = String(this.size);
    sizes.addEventListener("change", () => { this.size = Number(sizes.value); this.page = 0; this.show(); this.pages.querySelector("select").focus(); });
    this.pages.replaceChildren(turn("Page before", -1),
      make("span", {}, found ? text("count", first + 1) + "–" + text("count", last) + " of " + text("count", found) : "0"),
      turn("Next page", 1), make("label", { class: "sizes" }, "Rows a page", sizes));
  }

  save() {
    // A spreadsheet takes a text that begins like a formula for one: an apostrophe keeps it a text.
    const field = (value) => {
      if (value === null) return "";
      const plain = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
      return /[",\n\r]/.test(plain) ? '"' + plain.replaceAll('"', '""') + '"' : plain;
    };
    const stamp = (value, at) => this.columns[at].kind === "time" && typeof value === "number" ? new Date(value).toISOString() : value;
    const lines = [this.columns.map((one) => field(one.name)), ...this.chosen().map((row) => row.map((value, at) => field(stamp(value, at))))];
    const link = make("a", { download: this.host.id.replace(/^t-/, "") + ".csv" });
    link.href = URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }
}

for (const host of every(".table")) {
  tables.push(new Table(host, JSON.parse(document.getElementById(host.id + "-data").textContent)));
}

// Plots: what is under the cursor, by pointer or by key

const percent = (fraction) => (100 * clamp(fraction, 0, 1)).toFixed(2) + "%";
function placed([low, high, log], value) {
  return log ? (Math.log(Math.max(value, low)) - Math.log(low)) / (Math.log(high) - Math.log(low)) : (value - low) / (high - low);
}
function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle; else high = middle;
  }
  return value - sorted[low] <= sorted[high] - value ? low : high;
}
function putTip(tip, stage, x, y) {
  tip.hidden = false;
  const room = stage.clientWidth - tip.offsetWidth - 4;
  const left = x + 14 > room ? x - tip.offsetWidth - 14 : x + 14;
  tip.style.left = clamp(left, 4, Math.max(room, 4)) + "px";
  tip.style.top = y + "px";
}

class Plot {
  constructor(figure, data) {
    this.data = data;
    this.figure = figure;
    this.stage = figure.querySelector(".stage");
    this.svg = this.stage.querySelector(".axes");
    this.shown = data.series.map((one) => one.colour !== "");
    this.at = -1;
    this.mark = make("g", { class: "cursor" });
    this.svg.insertBefore(this.mark, data.w ? this.svg.querySelector(".body") : null);
    this.tip = make("div", { class: "tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.stage.append(this.tip);
    this.listen();
    for (const button of every(".switch", figure)) button.addEventListener("click", () => this.toggle(button));
    this.valuesTable();
  }

  listen() {
    const { stage } = this;
    stage.tabIndex = 0;
    stage.setAttribute("role", "slider");
    stage.setAttribute("aria-valuemin", "0");
    stage.setAttribute("aria-valuemax", String(this.data.x.length - 1));
    stage.setAttribute("aria-valuenow", "0");
    stage.setAttribute("aria-valuetext", "Use the arrow keys to read the values");
    stage.addEventListener("pointermove", (event) => this.point(event));
    stage.addEventListener("pointerdown", (event) => this.point(event));
    stage.addEventListener("pointerleave", () => { if (document.activeElement !== stage) this.leave(); });
    stage.addEventListener("blur", () => this.leave());
    stage.addEventListener("keydown", (event) => {
      const last = this.data.x.length - 1;
      const far = Math.max(1, Math.round(last / 10));
      const from = this.at < 0 ? (event.key === "ArrowLeft" ? last + 1 : -1) : this.at;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowDown: from - 1, ArrowUp: from + 1, Home: 0, End: last, PageUp: from + far, PageDown: from - far }[event.key];
      if (event.key === "Escape") this.leave();
      if (to === undefined) return;
      event.preventDefault();
      this.look(clamp(to, 0, last));
    });
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const [low, high] = this.data.across;
    const value = low + (event.clientX - box.left) / box.width * (high - low);
    this.look(nearest(this.data.x, value - (this.data.w || 0) / 2));
  }

  look(at) {
    const { x, across, up, ux, uy, w } = this.data;
    this.at = at;
    const centre = placed(across, x[at] + (w || 0) / 2);
    const marks = w
      ? [make("rect", { class: "cursor-band", x: percent(placed(across, x[at])), width: percent(w / (across[1] - across[0])), y: 0, height: "100%" })]
      : [make("line", { class: "cursor-line", x1: percent(centre), x2: percent(centre), y1: 0, y2: "100%" })];
    const rows = [];
    let beyond = 0, low = Infinity, high = -Infinity;
    for (const [number, one] of this.data.series.entries()) {
      const value = one.values[at];
      if (one.colour === "") {
        if (value !== null) { beyond += 1; low = Math.min(low, value); high = Math.max(high, value); }
        continue;
      }
      if (!this.shown[number]) continue;
      rows.push([one, text(uy, value)]);
      if (!w && value !== null && !(up[2] && value <= 0)) {
        marks.push(make("circle", { class: "dot " + one.colour, cx: percent(centre), cy: percent(1 - placed(up, value)), r: 4 }));
      }
    }
    this.mark.replaceChildren(...marks);
    if (beyond) rows.push([{ name: beyond + " others", colour: "" }, low === high ? text(uy, low) : text(uy, low) + " to " + text(uy, high)]);
    const when = w ? text(ux, x[at]) + " to " + text(ux, x[at] + w).slice(11) : text(ux, x[at]);
    const named = this.data.series.length > 1;
    this.tip.replaceChildren(make("div", { class: "when" }, when), ...rows.map(([one, said]) =>
      make("div", { class: "row " + one.colour }, make("i"), make("bdi", {}, named ? one.name : ""), make("b", {}, said))));
    this.stage.setAttribute("aria-valuenow", String(at));
    this.stage.setAttribute("aria-valuetext", when + ": " + rows.map(([one, said]) => (named ? one.name + " " : "") + said).join(", "));
    const svg = this.svg.getBoundingClientRect(), stage = this.stage.getBoundingClientRect();
    putTip(this.tip, this.stage, svg.left - stage.left + centre * svg.width, 6);
  }

  leave() {
    this.at = -1;
    this.mark.replaceChildren();
    this.tip.hidden = true;
  }

  toggle(button) {
    const number = Number(button.dataset.series);
    this.shown[number] = !this.shown[number];
    button.setAttribute("aria-pressed", String(this.shown[number]));
    for (const path of every('.body [data-series="' + number + '"]', this.figure)) path.style.display = this.shown[number] ? "" : "none";
  }

  valuesTable() {
    const { data } = this;
    const details = make("details", { class: "values" }, make("summary", {}, "Values as a table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector(".table")) return;
      const columns = [{ name: "x", title: data.ux === "time" ? "Time (UTC)" : "At", kind: data.ux },
        ...data.series.slice(0, 12).map((one, at) => ({ name: "s" + at, title: one.name, kind: data.uy }))];
      const rows = data.x.map((x, at) => [x, ...data.series.slice(0, 12).map((one) => one.values[at])]);
      details.append(newTable(this.figure.id + "-values", columns, rows));
    });
    this.figure.append(details);
  }
}

function newTable(id, columns, rows) {
  const arrow = () => make("svg", { class: "arrow", "aria-hidden": "true", viewBox: "0 0 10 12" },
    make("path", { class: "up", d: "M1.5 5 5 1.5 8.5 5" }), make("path", { class: "down", d: "M1.5 7 5 10.5 8.5 7" }));
  const heads = columns.map((one) => make("th", { scope: "col", role: "columnheader", class: NUMBERS.includes(one.kind) ? "number" : one.kind },
    make("button", { type: "button", class: "sort" }, one.title, arrow())));
  const host = make("div", { class: "table", id }, make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Values" },
    make("table", { role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads)), make("tbody", { role: "rowgroup" }))));
  new Table(host, { columns, rows, total: rows.length, first: 10 });
  return host;
}

class Timeline {
  constructor(figure, data) {
    this.data = data;
    this.stage = figure.querySelector(".timeline");
    this.figure = figure;
    this.tip = make("div", { class: "tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.stage.style.position = "relative";
    this.stage.append(this.tip);
    this.said = make("p", { class: "vh", role: "status" });
    this.stage.append(this.said);
    every(".lane[data-lane]", this.stage).forEach((lane, number) => this.listen(lane, number));
    this.valuesTable();
  }

  listen(lane, number) {
    const track = lane.querySelector(".track");
    const { spans } = this.data.lanes[number];
    const shapes = every(".span", track);
    let at = -1;
    const look = (to) => {
      at = to;
      shapes.forEach((shape, one) => shape.classList.toggle("now", one === at));
      if (at < 0) { this.tip.hidden = true; return; }
      this.look(lane, track, spans[at]);
    };
    track.setAttribute("tabindex", "0");
    track.addEventListener("pointermove", (event) => {
      const box = track.getBoundingClientRect();
      const [low, high] = this.data.across;
      const value = low + (event.clientX - box.left) / box.width * (high - low);
      const reach = (high - low) / box.width * 5; // a moment, or a span of less than a pixel, is found from 5 pixels away
      let best = -1, far = Infinity;
      for (const [one, [start, stop]] of spans.entries()) {
        const away = value < start ? start - value : value >= stop ? value - stop : 0;
        const rank = away + (stop > start ? stop - start : 0) * 1e-6;
        if (away <= reach && rank < far) { best = one; far = rank; }
      }
      look(best);
    });
    track.addEventListener("pointerleave", () => look(-1));
    track.addEventListener("blur", () => look(-1));
    track.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: (at < 0 ? spans.length : at) - 1, ArrowRight: at + 1, Home: 0, End: spans.length - 1 }[event.key];
      if (event.key === "Escape") look(-1);
      if (to === undefined) return;
      event.preventDefault();
      look(clamp(to, 0, spans.length - 1));
    });
  }

  look(lane, track, [start, stop, label, verdict]) {
    const long = stop > start ? duration((stop - start) / 1000) : "";
    const when = stop > start ? moment(start) + " to " + moment(stop).slice(moment(start).slice(0, 10) === moment(stop).slice(0, 10) ? 11 : 0) : moment(start);
    this.tip.replaceChildren(make("div", { class: "when" }, when), make("div", { class: "row s-" + verdict }, make("bdi", {}, label), make("b", {}, long)));
    this.said.textContent = label + ", " + when + (long ? ", " + long : "");
    const stage = this.stage.getBoundingClientRect(), box = track.getBoundingClientRect();
    const middle = placed(this.data.across, (start + stop) / 2) * box.width + box.left - stage.left;
    putTip(this.tip, this.stage, middle - 14, box.bottom - stage.top + 5);
    if (box.bottom + this.tip.offsetHeight + 10 > window.innerHeight) this.tip.style.top = box.top - stage.top - this.tip.offsetHeight - 5 + "px";
  }

  valuesTable() {
    const details = make("details", { class: "values" }, make("summary", {}, "Values as a table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector(".table")) return;
      const columns = [["verdict", "Verdict", "state"], ["name", "Of", "text"], ["start", "From (UTC)", "time"], ["stop", "To (UTC)", "time"],
        ["long", "Lasted", "duration_s"], ["label", "What", "text"]].map(([name, title, kind]) => ({ name, title, kind }));
      const rows = this.data.lanes.flatMap((lane) => lane.spans.map(([start, stop, label, verdict]) => [verdict, lane.name, start, stop, (stop - start) / 1000, label]));
      details.append(newTable(this.figure.id + "-values", columns, rows));
    });
    this.figure.append(details);
  }
}

for (const block of every("script.figures")) {
  for (const [id, data] of Object.entries(JSON.parse(block.textContent))) {
    const figure = document.getElementById(id);
    if (data.kind === "timeline") new Timeline(figure, data); else new Plot(figure, data);
  }
}

// More of it: named bars and rows of a timeline beyond the first, cards beyond the first

for (const button of every(".show-more")) {
  button.addEventListener("click", () => {
    for (const one of every(".more", button.parentElement)) one.classList.add("shown");
    button.remove();
  });
}

const cards = every(".card");
const cardsBox = document.querySelector(".cards");
let cardsShown = cardsBox ? Number(cardsBox.dataset.first) : 0;
const moreCards = make("button", { type: "button", class: "show-more" });
moreCards.addEventListener("click", () => { cardsShown = Math.max(cardsShown * 4, 24); showCards(); });
if (cardsBox) cardsBox.after(moreCards);
function showCards() {
  const wanted = cards.filter((card) => !onlyNode || card.dataset.node === onlyNode);
  const shown = new Set(wanted.slice(0, onlyNode ? 60 : cardsShown));
  for (const card of cards) card.hidden = !shown.has(card);
  const left = wanted.length - shown.size;
  moreCards.hidden = left === 0;
  const next = Math.min(left, Math.max(cardsShown * 4, 24) - cardsShown);
  moreCards.textContent = "Show " + text("count", next) + " more" + (next < left ? " of " + text("count", left) : "");
}

// One node only

const box = document.getElementById("node");
const names = new Set(every("#node-names option").map((one) => one.value));
const squares = every(".square");
function choose(node) {
  onlyNode = node;
  for (const square of squares) square.setAttribute("aria-pressed", String(square.dataset.node === node));
  if (box) { box.value = node; box.classList.remove("no-such"); }
  showCards();
  for (const table of tables) { table.page = 0; table.show(); }
  for (const lanes of every(".timeline")) {
    const all = every(".lane[data-lane]", lanes);
    const own = all.filter((lane) => node && lane.querySelector(".name").textContent.split(/[\s,:/·]+/).includes(node));
    for (const lane of all) { lane.hidden = own.length > 0 && !own.includes(lane); lane.classList.toggle("chosen", own.includes(lane)); }
  }
  const address = node ? "#node=" + encodeURIComponent(node) : location.pathname + location.search;
  try { history.replaceState(null, "", address); } catch { /* a page that was not loaded from an address has none */ }
}
for (const square of squares) square.addEventListener("click", () => choose(square.dataset.node === onlyNode ? "" : square.dataset.node));
if (box) {
  const typed = () => {
    if (box.value === onlyNode) box.classList.remove("no-such");
    else if (box.value === "" || names.has(box.value)) choose(box.value);
    else box.classList.add("no-such");
  };
  for (const event of ["input", "change"]) box.addEventListener(event, typed);
}
let asked = "";
if (location.hash.startsWith("#node=")) {
  try { asked = decodeURIComponent(location.hash.slice(6)); } catch { asked = ""; }
}
if (names.has(asked)) choose(asked); else showCards();

followTheme();
followSections();
window.bascule = Object.freeze({ text });
