// What the page has seen over time: one row a poll, for small plots. Pure.

const KEPT = 300;

/** Figures of one bridge over time, at most ``KEPT`` of them; older ones give way. */
export class Series {
  constructor() {
    this.points = [];
  }

  /** Add what ``rows``, the lanes of one bridge, said at ``atS``, seconds of the node's own clock. */
  note(atS, rows) {
    const last = this.points.at(-1);
    if (last && atS <= last.atS) {
      if (atS === last.atS) return;
      this.points = []; // the node has begun anew
    }
    const point = { atS, depth: total(rows, "depth"), accepted: total(rows, "accepted"), delivered: total(rows, "delivered") };
    point.refused = total(rows, "refused") + rows.reduce((sum, row) => sum + droppedFor(row, (reason) => FULL.has(reason)), 0);
    point.lost = rows.reduce((sum, row) => sum + droppedFor(row, (reason) => !FULL.has(reason) && !INTENDED.has(reason)), 0);
    point.latency = merged(rows.map((row) => row.end_to_end_seconds).filter(Boolean));
    this.points.push(point);
    if (this.points.length > KEPT) this.points.shift();
  }

  /** ``[seconds ago, messages that wait]``. */
  depths() {
    return this._each((point) => point.depth);
  }

  /** ``[seconds ago, messages a second]`` of a counter. */
  rates(counter) {
    return this._between((before, after, tookS) => Math.max(0, after[counter] - before[counter]) / tookS);
  }

  /** ``[seconds ago, seconds]``: below which ``part`` of the messages stayed that were delivered since the point before. */
  latencies(part) {
    return this._between((before, after) => quantile(difference(before.latency, after.latency), part));
  }

  /** By how much ``figure`` has grown within the last ``periodS``: ``refused`` for want of room, or ``lost`` for another reason. */
  grownWithin(figure, periodS) {
    const last = this.points.at(-1);
    const first = this.points.find((point) => last.atS - point.atS <= periodS);
    return first ? last[figure] - first[figure] : 0;
  }

  _each(value) {
    const last = this.points.at(-1);
    return this.points.map((point) => [last.atS - point.atS, value(point)]);
  }

  _between(value) {
    const last = this.points.at(-1);
    return this.points.slice(1).map((point, at) => {
      const before = this.points[at];
      return [last.atS - point.atS, value(before, point, point.atS - before.atS)];
    });
  }
}

/** ``points``, ``[seconds ago, value]``, behind what the node has kept of before, ``[at in ms, value]``; at most ``spanS`` of both. */
export function withPast(past, points, nowMs, spanS) {
  const oldest = points[0]?.[0] ?? 0;
  const before = past.map(([ms, value]) => [Math.max(0, nowMs - ms) / 1000, value]).filter(([ago]) => ago > oldest);
  return [...before, ...points].filter(([ago]) => ago <= spanS);
}

function total(rows, name) {
  return rows.reduce((sum, row) => sum + (row[name] ?? 0), 0);
}

const FULL = new Set(["overflow", "qos0_memory"]); // reasons for which a queue drops what it has no room for
const INTENDED = new Set(["purged", "unchanged", "one_per", "superseded"]); // operators and rules want it so

/** What the queue has dropped by itself; what operators purged is counted apart. */
export const droppedOf = (row) => droppedFor(row, (reason) => reason !== "purged");

function droppedFor(row, wanted) {
  return Object.entries(row.dropped ?? {}).reduce((sum, [reason, number]) => sum + (wanted(reason) ? number : 0), 0);
}

/** Histograms with the same bounds as one; null where there is none. */
export function merged(histograms) {
  if (!histograms.length) return null;
  const counts = histograms[0].counts.map((_, at) => histograms.reduce((sum, one) => sum + one.counts[at], 0));
  return { bounds: histograms[0].bounds, counts, sum: histograms.reduce((sum, one) => sum + one.sum, 0) };
}

/** What was added to a histogram between two looks; all of it where the counts have begun anew. */
export function difference(before, after) {
  if (!before || !after) return after;
  const counts = after.counts.map((one, at) => one - before.counts[at]);
  return counts.some((one) => one < 0) ? after : { bounds: after.bounds, counts, sum: after.sum - before.sum };
}

/** The bound below which ``part`` of all lie, between two bounds in proportion; null of an empty histogram. */
export function quantile(histogram, part) {
  if (!histogram) return null;
  const { bounds, counts } = histogram;
  const all = counts.reduce((sum, one) => sum + one, 0);
  if (!all) return null;
  let below = 0;
  for (const [at, here] of counts.entries()) {
    if (here && below + here >= part * all) {
      if (at >= bounds.length) return bounds.at(-1);
      const low = at ? bounds[at - 1] : 0;
      return low + ((part * all - below) / here) * (bounds[at] - low);
    }
    below += here;
  }
  return bounds.at(-1);
}
