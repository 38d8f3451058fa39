// Elements from text. Nothing here makes markup from text: every text becomes a text node or an attribute.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "use", "path", "line", "rect", "circle", "text", "tspan", "svg:a"]);

/** An element with attributes and children; ``false`` and ``null`` leave an attribute out. */
export function make(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag.replace("svg:", "")) : document.createElement(tag);
  setAll(element, attributes);
  element.append(...children);
  return element;
}

/** Set attributes that differ; ``false`` and ``null`` remove. */
export function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) {
      if (element.hasAttribute(name)) element.removeAttribute(name);
    } else {
      const text = value === true ? "" : String(value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
}

/** Set a text that differs, so that what did not change is not read out again, nor loses a selection. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const every = (selector, within = document) => Array.from(within.querySelectorAll(selector));

/** The sign of a verdict: ok, attention, problem, none. */
export function icon(verdict) {
  const use = make("use", { href: `#i-${verdict}` });
  return make("svg", { class: `icon s-${verdict}`, "aria-hidden": "true", viewBox: "0 0 16 16" }, use);
}

/** Turn ``element``, made by ``icon``, into another verdict's. */
export function turnIcon(element, verdict) {
  setAll(element, { class: `icon s-${verdict}` });
  setAll(element.firstChild, { href: `#i-${verdict}` });
}

export function badge(verdict, text) {
  return make("span", { class: `badge s-${verdict}` }, icon(verdict), make("span", {}, text));
}

/** A button that does ``act``; the least role that may is on it, and ``allow`` shows or hides it by that. */
export function button(text, act, { kind = "quiet", role = null, label = null } = {}) {
  const made = make("button", { type: "button", class: kind, "data-role": role, "aria-label": label }, text);
  made.addEventListener("click", act);
  return made;
}

/**
 * Make the children of ``host`` those of ``items``, one each, in order. An element stays as long as its key does, with its focus.
 * ``create`` makes one for a key that is new, ``update`` is told of every item.
 */
export function keyed(host, items, keyOf, create, update) {
  const old = new Map(Array.from(host.children, (child) => [child.dataset.key, child]));
  let before = host.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let element = old.get(key);
    if (element === undefined) {
      element = create(item);
      element.dataset.key = key;
    }
    old.delete(key);
    if (element === before) before = before.nextElementSibling;
    else host.insertBefore(element, before);
    update(element, item);
  }
  for (const element of old.values()) element.remove();
}
