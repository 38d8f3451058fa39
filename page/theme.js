// The switch between light, dark and what the system prefers; a choice is kept for the next visit.

import { every } from "./dom.js";

const THEME = "bascule-theme";

export function followTheme() {
  const buttons = every(".themes button");
  const choose = (theme, keep) => {
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.theme === theme));
    try { if (keep) localStorage.setItem(THEME, theme); } catch { /* some browsers keep nothing for files */ }
  };
  for (const one of buttons) one.addEventListener("click", () => choose(one.dataset.theme, true));
  let kept = "auto";
  try { kept = localStorage.getItem(THEME) ?? "auto"; } catch { /* as above */ }
  choose(["light", "dark"].includes(kept) ? kept : "auto", false);
}
