// Values as text. Pure.

export const UNKNOWN = "–";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const missing = (value) => value === null || value === undefined || Number.isNaN(value) || value === Infinity;

function grouped(text) {
  const [whole, part] = text.split(".");
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${groups}.${part}` : groups;
}

export function trimmed(value, digits) {
  const text = value.toFixed(digits);
  return grouped(text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);
}

export const count = (value) => (missing(value) ? UNKNOWN : trimmed(value, 0));

/** ``1 message``, ``2 messages``. */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function bytes(size) {
  if (missing(size)) return UNKNOWN;
  let unit = 0;
  for (; size >= 1024 && unit < UNITS.length - 1; unit += 1) size /= 1024;
  return `${trimmed(size, unit === 0 ? 0 : size < 10 ? 2 : size < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

/** A part of 1 as whole percent; never 100 % of what is not all. */
export const share = (part) => (missing(part) ? UNKNOWN : part > 0 && part < 0.01 ? "below 1 %" : `${Math.floor(part * 100)} %`);

export function rate(perSecond) {
  return missing(perSecond) ? UNKNOWN : `${trimmed(perSecond, perSecond >= 100 ? 0 : perSecond >= 10 ? 1 : 2)}/s`;
}

const two = (more, moreUnit, less, lessUnit) => `${grouped(String(more))} ${moreUnit}${less ? ` ${less} ${lessUnit}` : ""}`;

export function duration(seconds) {
  if (missing(seconds)) return UNKNOWN;
  if (seconds === 0) return "0 s";
  if (seconds < 0.9995) {
    const ms = seconds * 1000;
    return `${trimmed(ms, ms < 1 ? 2 : ms < 10 ? 1 : 0)} ms`;
  }
  if (seconds < 59.95) return `${trimmed(seconds, seconds < 9.995 ? 2 : 1)} s`;
  const whole = Math.floor(seconds + 0.5);
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  if (whole >= 86400000) return `${trimmed(whole / 31557600, 0)} years`;
  return two(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

/** A time that runs on while it is looked at: whole seconds, and nothing below one. */
export const lasting = (seconds) => (missing(seconds) ? UNKNOWN : seconds < 1 ? "less than 1 s" : duration(Math.floor(seconds)));

/** A point in time (UTC milliseconds) as ``2026-01-31 12:00:00``. */
export function moment(ms) {
  if (missing(ms)) return UNKNOWN;
  const at = new Date(Math.floor(ms / 1000) * 1000);
  return Number.isNaN(at.getTime()) ? UNKNOWN : at.toISOString().slice(0, 19).replace("T", " ");
}

/** The time of day alone, where the day is today's. */
export const clock = (ms, nowMs) => (moment(ms).slice(0, 10) === moment(nowMs).slice(0, 10) ? moment(ms).slice(11) : moment(ms));

/** ``a``, ``a and b``, ``a, b and c``; after ``most`` of them how many more. */
export function listed(names, most = 4) {
  const shown = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} more`] : names;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown[shown.length - 1]}`;
}
