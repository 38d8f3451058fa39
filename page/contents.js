// Where the reader is: the link to the first section in view is marked in the contents.

import { every, setAll } from "./dom.js";

/** Follow the reader; ``moved`` is called after each change with the names of the sections that are in view. */
export function followSections(moved = () => {}) {
  const links = new Map(every(".contents a").map((link) => [link.getAttribute("href").slice(1), link]));
  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) visible[isIntersecting ? "add" : "delete"](target.id);
    const first = [...links.keys()].find((id) => visible.has(id));
    for (const [id, link] of links) setAll(link, { "aria-current": id === first ? "true" : null });
    moved(visible);
  }, { rootMargin: "-15% 0px -30% 0px" });
  for (const section of every("main > section")) watcher.observe(section);
}
