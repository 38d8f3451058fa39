"""The HTML page as text: what it allows, what it escapes, and how values and axes are written."""

from __future__ import annotations

import base64
import configparser
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.page.page import render
from analysis.page.plots import plot
from analysis.page.scale import times_axis, values_axis
from analysis.page.text import markup, script_json, shown, visible
from analysis.reports.report_model import Chart, Report, Series
from tests.analysis.report_builder import END_MS, Fleet

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\u0007\ud800"
EMPTY = Report(
    title="Bascule report",
    verdict="none",
    headline="No snapshot.",
    made_at_ms=END_MS,
    nodes=(),
    snapshots=(),
    cards=(),
    sections=(),
    problems=(),
)


class Elements(HTMLParser):
    """Every element with its attributes, and what scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag if tag in ("script", "style") else ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.raw.append((self._open, data))
            self._open = ""


def test_only_the_pages_own_style_and_script_are_allowed() -> None:
    elements = Elements(render(Fleet().report()))
    policy = next(str(attributes["content"]) for tag, attributes in elements.found if tag == "meta" and "http-equiv" in attributes)

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style = next(text for tag, text in elements.raw if tag == "style")
    script = [text for tag, text in elements.raw if tag == "script"][-1]
    assert f"style-src {allowed(style)};" in policy
    assert f"script-src {allowed(script)};" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_page_needs_nothing_from_anywhere() -> None:
    elements = Elements(render(Fleet().report()))

    for _, attributes in elements.found:
        assert not {"src", "srcset", "action", "style", "data", "poster"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert str(attributes.get("href", "#")).startswith(("#", "data:image/svg+xml,"))
    style = next(text for tag, text in elements.raw if tag == "style")
    assert "@import" not in style
    assert re.findall(r"url\((?!#)", style) == []


@pytest.mark.parametrize("text", [HOSTILE, "\x00\x1b[31m", "-->", "]]>", "${x}", "\u2028"])
def test_foreign_text_changes_no_element(text: str) -> None:
    """The same report with harmless and with hostile names has the same elements."""
    harmless = Elements(render(Fleet(hostile="x").report()))
    hostile_page = render(Fleet(hostile=text).report())
    hostile = Elements(hostile_page)

    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in harmless.found]
    assert [sorted(attributes) for _, attributes in hostile.found] == [sorted(attributes) for _, attributes in harmless.found]
    hostile_page.encode()  # no lone surrogate is left


def test_hostile_titles_headlines_and_notes_are_escaped_too() -> None:
    report = Fleet().report()
    sections = tuple(
        replace(
            one,
            title=HOSTILE,
            question=HOSTILE,
            summary=HOSTILE,
            notes=(HOSTILE,),
            columns=tuple(replace(c, title=HOSTILE) for c in one.columns),
        )
        for one in report.sections
    )

    harmless = Elements(render(report))
    hostile = Elements(render(replace(report, title=HOSTILE, headline=HOSTILE, sections=sections)))

    assert {tag for tag, _ in hostile.found} == {tag for tag, _ in harmless.found}
    assert "alert" not in "".join(str(attributes.keys()) for _, attributes in hostile.found)


def test_an_empty_report_is_a_page() -> None:
    page = render(EMPTY)

    assert "No snapshot." in page
    assert page.endswith("</html>\n")


def test_a_report_read_back_from_json_gives_the_same_page() -> None:
    report = Fleet(nodes=2).report()

    assert render(Report.from_json(report.to_json())) == render(report)


def test_the_page_is_the_same_every_time() -> None:
    assert render(Fleet(nodes=2).report()) == render(Fleet(nodes=2).report())


def test_ids_are_unique() -> None:
    ids = [attributes["id"] for _, attributes in Elements(render(Fleet(nodes=20).report())).found if "id" in attributes]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("count", 1_234_567, "1,234,567"),
        ("count", 0.5, "0.5"),
        ("count", None, "–"),
        ("count", float("nan"), "–"),
        ("bytes", 1023, "1,023 B"),
        ("bytes", 1536, "1.5 KiB"),
        ("bytes", 10 * 1024**3, "10 GiB"),
        ("duration_s", 0, "0 s"),
        ("duration_s", 0.0004, "0.4 ms"),
        ("duration_s", 0.0125, "13 ms"),
        ("duration_s", 0.99999, "1 s"),
        ("duration_s", 59.99, "1 min"),
        ("duration_s", 62, "1 min 2 s"),
        ("duration_s", 3 * 3600 + 720, "3 h 12 min"),
        ("duration_s", 86_400 * 9.5, "9 d 12 h"),
        ("duration_s", -1.5, "−1.5 s"),
        ("percent", 0.004, "<0.1 %"),
        ("percent", 99.95, "100 %"),
        ("per_s", 12.34, "12.3/s"),
        ("time", END_MS, "2026-11-21 10:00:00"),
        ("state", "attention", "Attention"),
        ("text", "a\u202eb", "a\\u202eb"),
    ],
)
def test_values_are_written_for_people(kind: str, value: str | float | None, text: str) -> None:
    assert shown(kind, value) == text


@given(st.text())
def test_what_cannot_be_seen_is_shown_as_its_code(text: str) -> None:
    seen = visible(text)

    assert seen.isprintable() or " " in seen or not any(one in seen for one in "\u202e\u2066\u0000\n\ud800")
    assert not any(one in seen for one in "\x00\n\u202e\u2066\u200b\u2028\ud800")


@given(st.text())
def test_markup_has_no_markup(text: str) -> None:
    assert not set(markup(text)) & set("<>\"'")


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_in_a_script_cannot_end_it_and_says_the_same(value: object) -> None:
    text = script_json(value)

    assert not set(text) & set("<>&")
    assert json.loads(text) == value


@given(
    st.sampled_from(["count", "bytes", "duration_s", "percent", "per_s"]),
    st.lists(st.floats(min_value=-1e12, max_value=1e12, allow_subnormal=False), min_size=1, max_size=20),
)
def test_an_axis_holds_all_values_and_has_a_few_ticks_in_order(unit: str, values: list[float]) -> None:
    values = [0.0 if abs(value) < 1e-9 else value for value in values]

    scale, ticks = values_axis(unit, values, log=False)

    span = scale.high - scale.low
    assert scale.low <= min(values) + span * 1e-6
    assert scale.high >= max(values) - span * 1e-6
    assert 2 <= len(ticks) <= 13
    assert [tick.at for tick in ticks] == sorted({tick.at for tick in ticks})
    assert len({tick.text for tick in ticks}) == len(ticks)


@given(st.sampled_from(["count", "duration_s"]), st.lists(st.floats(min_value=1e-6, max_value=1e9), min_size=1, max_size=20))
def test_a_logarithmic_axis_holds_all_values_and_has_ticks(unit: str, values: list[float]) -> None:
    scale, ticks = values_axis(unit, values, log=True)

    assert scale.log
    assert scale.low < min(values)
    assert scale.high > max(values)
    assert 1 <= len(ticks) <= 8


@given(st.integers(min_value=0, max_value=4_000_000_000_000), st.integers(min_value=0, max_value=3_000_000_000_00))
def test_ticks_of_times_are_on_the_clock(begin_ms: int, long_ms: int) -> None:
    scale, ticks = times_axis(begin_ms, begin_ms + long_ms)

    assert 1 <= len(ticks) <= 10
    for tick in ticks:
        at = datetime.fromtimestamp((scale.low + tick.at * (scale.high - scale.low)) / 1000, UTC)
        if tick.strong:
            assert tick.text == f"{at.day} {at:%b}"


def test_a_gap_in_a_line_stays_a_gap_and_a_lone_point_is_a_dot() -> None:
    hours = tuple(END_MS + at * 3_600_000 for at in range(5))
    chart = Chart(kind="lines", title="x", x=hours, series=(Series(name="a", values=(1.0, 2.0, None, 3.0, None)),))

    path = re.search(r'class="line c0" data-series="0" d="([^"]+)"', plot(chart, "p").html)

    assert path is not None
    assert path[1].count("M") == 2
    assert path[1].count("L") == 1


def test_points_taken_at_times_of_their_own_are_joined() -> None:
    hours = tuple(END_MS + at * 3_600_000 for at in range(5))
    nodes = (Series(name="a", values=(1, None, 2, None, 3)), Series(name="b", values=(None, 4, None, 5, None)))

    lines = re.findall(r'data-series="\d" d="([^"]+)"', plot(Chart(kind="lines", title="x", x=hours, series=nodes), "p").html)

    assert [(line.count("M"), line.count("L")) for line in lines] == [(1, 1), (1, 2)]  # the last is drawn first


def test_a_line_of_many_points_keeps_its_peak() -> None:
    times = tuple(END_MS + at * 1000 for at in range(50_000))
    values = tuple(100.0 if at == 31_337 else 1.0 for at in range(50_000))
    chart = Chart(kind="lines", title="x", x=times, series=(Series(name="a", values=values), Series(name="b", values=values)))

    page = plot(chart, "p").html

    assert len(page) < 100_000
    line = re.search(r'class="line c0" data-series="0" d="([^"]+)"', page)
    assert line is not None
    heights = [float(point.split("h")[0]) for point in re.findall(r"[ML][\d.]+ ([\d.]+)", line[1])]
    assert min(heights) == 0  # the top


def test_what_is_stacked_beyond_the_colours_is_summed_not_lost() -> None:
    times = tuple(END_MS + at * 3_600_000 for at in range(3))
    series = tuple(Series(name=f"cause {at}", values=(float(at), 1.0, None)) for at in range(20))
    drawn = plot(Chart(kind="stacked-bars", title="x", x=times, series=series), "p")

    assert drawn.figures is not None
    stacked = drawn.figures["series"]
    assert isinstance(stacked, list)
    assert sum(one["values"][0] for one in stacked) == sum(range(20))
    assert stacked[-1]["name"] == "15 others together"


def test_what_the_page_is_made_of_is_installed_with_it() -> None:
    root = Path(__file__).resolve().parents[2]
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    installed = setup["options.package_data"]

    for package, folder, within, assets in (
        ("page", "page", "", ("theme.css", "icons.svg", "themes.html", "dom.js", "format.js", "theme.js", "contents.js")),
        ("analysis.page", "analysis/page", "assets/", ("page.css", "page.js")),
    ):
        for asset in assets:
            assert (root / folder / within / asset).is_file()
            assert any(fnmatch(within + asset, pattern) for pattern in installed[package].split())
