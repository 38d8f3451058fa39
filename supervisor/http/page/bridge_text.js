// A bridge as the text of its file, and the faults that the node finds in it by the keys of a form. Pure.

/** ``bridge``, key by key, as YAML; strings are written as JSON has them, which YAML reads too. */
export function textOf(bridge) {
  return `bridges:\n  - ${yaml(bridge, "    ").trimStart()}`;
}

const flat = (value) => value === null || typeof value !== "object" || (Array.isArray(value) ? value.every(flat) : !Object.keys(value).length);
const inline = (value) => (Array.isArray(value) ? `[${value.map(inline).join(", ")}]` : JSON.stringify(value));
const keyed = (key) => (/^[A-Za-z_][\w-]*$/.test(key) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(key) ? key : JSON.stringify(key));

function yaml(map, indent) {
  return Object.entries(map).map(([key, value]) => {
    if (flat(value)) return `${indent}${keyed(key)}: ${inline(value)}\n`;
    if (!Array.isArray(value)) return `${indent}${keyed(key)}:\n${yaml(value, `${indent}  `)}`;
    const items = value.map((item) => (flat(item) ? `${indent}  - ${inline(item)}\n` : Array.isArray(item) ? `${indent}  - ${JSON.stringify(item)}\n` : `${indent}  - ${yaml(item, `${indent}    `).trimStart()}`));
    return `${indent}${keyed(key)}:\n${items.join("")}`;
  }).join("");
}

/** The value at ``path``, such as ``remote.client_id`` or ``local_subscriptions.0.filters``; undefined where there is none. */
export function valueAt(map, path) {
  return path.split(".").reduce((value, key) => value?.[key], map);
}

/** Have ``value`` at ``path``; undefined removes it, and what encloses it as long as that is empty then. */
export function putAt(map, path, value) {
  const [key, ...rest] = path.split(".");
  if (rest.length) {
    if (map[key] === undefined && value === undefined) return;
    map[key] ??= /^\d+$/.test(rest[0]) ? [] : {};
    putAt(map[key], rest.join("."), value);
    if (value === undefined && !Object.keys(map[key]).length) delete map[key];
  } else if (value !== undefined) map[key] = value;
  else if (Array.isArray(map)) map.splice(Number(key), 1);
  else delete map[key];
}

/**
 * The lines of a refusal, ``FILE:LINE:COLUMN: bridges[4].remote.client_id: MESSAGE``, by the path of the form that each is about.
 *
 * Returns ``{fields, others}``: the messages by path, of ``paths``, and those that are about none of these, with their line.
 */
export function faultsOf(message, paths) {
  const fields = new Map(), others = [];
  for (const line of message.split("\n").filter(Boolean)) {
    const [, at, key = "", text] = /^.*?:(\d+):\d+: (?:(?:bridges\[\d+\]\.?)((?:[\w-]+|\[\d+\]|\.)*): )?([^]*)$/.exec(line) ?? [null, null, "", line];
    const dotted = key.replace(/\[(\d+)\]/g, ".$1");
    const path = paths.find((one) => dotted === one || dotted.startsWith(`${one}.`));
    if (path) fields.set(path, [...(fields.get(path) ?? []), text]);
    else others.push({ line: at === null ? null : Number(at), text: `${dotted ? `${dotted}: ` : ""}${text}` });
  }
  return { fields, others };
}
