"""How well the texts of a page in Chromium stand out from what is behind them, by the formula of WCAG 2.2 (1.4.3)."""

from __future__ import annotations

from tests.support.chromium import Chromium

LEAST = 4.5  # to 1: level AA, for text of any size

_COLOURS = """
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const bytes = (text) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      return Array.from(canvas.getImageData(0, 0, 1, 1).data);
    };
    const behind = (one) => {
      const box = one instanceof SVGElement && one.closest(".box")?.querySelector("rect");
      if (box) return bytes(getComputedStyle(box).fill);
      for (let at = one; at; at = at.parentElement) {
        const colour = bytes(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return [255, 255, 255, 255];
    };
    const meant = "script, .vh, .about, .switch[aria-pressed=false], .said:not(.shown)"; // not seen, or faint on purpose
    const found = new Map();
    for (const one of document.querySelectorAll("body *")) {
      const own = Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
      if (!own || !one.getClientRects().length || one.closest(meant)) continue;
      const style = getComputedStyle(one), svg = one instanceof SVGElement;
      const pair = [bytes(svg ? style.fill : style.color), behind(one)];
      found.set(JSON.stringify(pair), [...pair, one.outerHTML.slice(0, 100)]);
    }
    return Array.from(found.values());
"""


def faint_texts(chromium: Chromium) -> tuple[int, list[object]]:
    """How many pairs of a text's colour and its ground the page has, and those that stand out too little, each with an example."""
    colours = chromium.ask(_COLOURS)
    low: list[object] = []
    for text, ground, where in colours:
        one, other = sorted((_luminance(text), _luminance(ground)))
        contrast = (other + 0.05) / (one + 0.05)
        if contrast < LEAST:
            low.append((round(contrast, 2), text, ground, where))
    return len(colours), low


def _luminance(colour: list[float]) -> float:
    parts = [value / 255 for value in colour[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
