// The switch between light, dark and what the system prefers; a choice is kept for the next visit.

import { all } from "./dom.js";

const KEPT = "bascule-theme";

export function followTheme() {
  const buttons = all(".themes button");
  const choose = (theme) => {
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.theme === theme));
    localStorage.setItem(KEPT, theme);
  };
  for (const one of buttons) one.addEventListener("click", () => choose(one.dataset.theme));
  const kept = localStorage.getItem(KEPT);
  choose(["light", "dark"].includes(kept) ? kept : "auto");
}
