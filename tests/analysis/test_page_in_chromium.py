"""The HTML page in a real Chromium: it draws, it reads on any screen, it sorts and filters, and hostile text stays text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.page.page import render
from analysis.page.text import shown
from analysis.reports.report_model import Cell, Column, Report, Section
from tests.analysis.report_builder import END_MS, Fleet
from tests.support.chromium import Chromium, chromium
from tests.support.contrast import faint_texts
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

__all__ = ["chromium"]

WIDTHS = (320, 375, 768, 1024, 1440, 2560)
HOSTILE = "<img src=x onerror=\"window.hacked=1\"></script><script>window.hacked=1</script>\u202e';window.hacked=1;'" + "x" * 300
REPORTS = {
    "one": Fleet(nodes=1, bad=0),
    "few": Fleet(nodes=3),
    "hostile": Fleet(nodes=3, hostile=HOSTILE),
    "many": Fleet(nodes=200, hours=12),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each of the reports as a file."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: _write(folder / f"{name}.html", fleet.report()) for name, fleet in REPORTS.items()}


@pytest.fixture(autouse=True)
def nothing_goes_wrong(chromium: Chromium) -> Iterator[None]:
    """A page under any test leaves no word in the console, and no dialogue opens."""
    yield
    assert chromium.console() == []
    assert chromium.ask("return window.hacked === undefined")


def _write(path: Path, report: Report) -> Path:
    path.write_text(render(report), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_loads_without_a_word_and_asks_for_nothing(chromium: Chromium, pages: dict[str, Path], name: str) -> None:
    chromium.open(pages[name])

    assert chromium.texts("h1")[0].strip()
    assert chromium.console() == []
    assert [url for url in chromium.requested() if not url.startswith("data:")] == [pages[name].as_uri()]


@pytest.mark.parametrize("name", REPORTS)
def test_every_plot_is_drawn_inside_its_frame(chromium: Chromium, pages: dict[str, Path], name: str) -> None:
    chromium.open(pages[name])

    drawn = chromium.ask(
        """
        const inside = (one, other) => one.left >= other.left - 2 && one.right <= other.right + 2
          && one.top >= other.top - 2 && one.bottom <= other.bottom + 2;
        const drawn = ".body path:not(.faint), .hbar .bar, .track .span";
        return Array.from(document.querySelectorAll("figure.plot"), (figure) => {
          const frame = figure.getBoundingClientRect();
          const shapes = Array.from(figure.querySelectorAll(drawn)).filter((one) => one.getClientRects().length);
          const boxes = shapes.map((one) => one.getBoundingClientRect());
          const lengths = shapes.filter((one) => one.getAttribute("d")).map((one) => one.getTotalLength());
          return { id: figure.id, shapes: shapes.length, inside: boxes.every((box) => inside(box, frame)),
                   size: Math.max(...boxes.map((box) => box.width)), lengths, frame: [frame.width, frame.height],
                   ticks: figure.querySelectorAll(".y, .x text").length };
        });
        """
    )

    assert len(drawn) == sum(len(section.charts) for section in REPORTS[name].report().sections)
    for plot in drawn:
        assert plot["shapes"] > 0, plot
        assert plot["inside"], plot
        assert plot["size"] > plot["frame"][0] / 20, plot
        assert all(length > 100 for length in plot["lengths"]), plot
        assert plot["ticks"] > 2 or "topics" in plot["id"] or plot["id"] == "p-backlog-1", plot


@pytest.mark.parametrize("name", ["few", "hostile"])
def test_nothing_is_wider_than_the_window(chromium: Chromium, pages: dict[str, Path], name: str) -> None:
    """Text that is clipped on purpose (long names) does not count, nor text that scrolls in a frame of its own (wide tables)."""
    chromium.open(pages[name], width=WIDTHS[0])

    for width in WIDTHS:
        chromium.resize(width)
        assert chromium.ask("return document.documentElement.scrollWidth") <= width
        cut = chromium.ask(
            """
            const meant = ".vh, .about, .scroll table, .skip, thead, .name bdi, .switch bdi";
            return Array.from(document.querySelectorAll("main *, header *")).filter((one) => {
              const box = one.getBoundingClientRect();
              return box.width && !one.closest(meant) && (box.right > innerWidth + 1 || box.left < -1);
            }).map((one) => one.outerHTML.slice(0, 120));
            """
        )
        assert cut == [], width


def test_labels_of_an_axis_do_not_run_into_each_other(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"], width=WIDTHS[0])

    for width in WIDTHS:
        chromium.resize(width)
        overlaps = chromium.ask(
            """
            const across = (one, other) => other.left < one.right + 3, down = (one, other) => other.top < one.bottom - 1;
            const clashes = (labels, begin, clash) => {
              const seen = labels.map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width);
              seen.sort(([, one], [, other]) => one[begin] - other[begin]);
              return seen.slice(1).filter(([, box], at) => clash(seen[at][1], box)).map(([text]) => text);
            };
            const all = (within, selector) => Array.from(within.querySelectorAll(selector));
            return all(document, ".axes, .axis").flatMap((one) =>
              [...clashes(all(one, ".x text"), "left", across), ...clashes(all(one, "text.y"), "top", down)]);
            """
        )
        assert overlaps == [], width


@pytest.mark.parametrize("plot", ["p-backlog-0", "p-latency-0", "p-throughput-1"])
def test_the_dots_under_the_cursor_lie_on_their_lines(chromium: Chromium, pages: dict[str, Path], plot: str) -> None:
    """The lines are drawn by Python, the dots by the page: both must mean the same place, on a logarithmic axis too."""
    chromium.open(pages["few"])

    far = chromium.ask(
        """
        const figure = document.getElementById(arguments[0]), stage = figure.querySelector(".stage");
        const press = (key) => stage.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        const away = [];
        for (let turn = 0; turn < 9; turn += 1) {
          press("PageUp");
          for (const dot of figure.querySelectorAll(".dot")) {
            const line = figure.querySelector(".body .line." + dot.classList[1]), matrix = line.getScreenCTM();
            const box = dot.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
            let low = 0, high = line.getTotalLength(); // a line goes from left to right: the place with this x is found by halving
            const point = (at) => line.getPointAtLength(at).matrixTransform(matrix);
            for (let half = 0; half < 24; half += 1) {
              if (point((low + high) / 2).x < x) low = (low + high) / 2; else high = (low + high) / 2;
            }
            const nearest = Math.min(...[-2, -1, 0, 1, 2].map((by) => Math.hypot(point(low + by).x - x, point(low + by).y - y)));
            away.push(nearest);
          }
        }
        return away;
        """,
        plot,
    )

    assert len(far) >= 9
    assert max(far) < 2


def test_the_pointer_and_the_keys_read_the_values_of_the_report(chromium: Chromium, pages: dict[str, Path]) -> None:
    chart = REPORTS["few"].report().section("throughput").charts[0]
    chromium.open(pages["few"])
    stage = chromium.find("#p-throughput-0-stage")

    stage.send_keys("\ue011")  # Home
    first = stage.get_attribute("aria-valuetext")
    stage.send_keys("\ue014\ue014")  # twice to the right
    third = stage.get_attribute("aria-valuetext")
    stage.send_keys("\ue010")  # End
    last = stage.get_attribute("aria-valuetext")

    for said, at in ((first, 0), (third, 2), (last, len(chart.x) - 1)):
        values = ", ".join(f"{one.name} {shown('per_s', one.values[at])}" for one in chart.series)
        assert said == f"{shown('time', chart.x[at])}: {values}"
    assert chromium.find("#p-throughput-0 .tip").is_displayed()
    stage.send_keys("\ue00c")  # Escape
    assert not chromium.find("#p-throughput-0 .tip").is_displayed()


def test_a_pointer_anywhere_on_a_plot_gives_the_nearest_value(chromium: Chromium, pages: dict[str, Path]) -> None:
    chart = REPORTS["few"].report().section("latency").charts[0]
    chromium.open(pages["few"])

    for at in (0, 30, 60, len(chart.x) - 1):
        said = chromium.ask(
            """
            const stage = document.getElementById("p-latency-0-stage"), box = stage.querySelector(".axes").getBoundingClientRect();
            const clientX = box.left + box.width * arguments[0];
            stage.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY: box.top + 5, bubbles: true }));
            return stage.querySelector(".tip .when").textContent;
            """,
            at / (len(chart.x) - 1),
        )
        assert said == shown("time", chart.x[at])


def test_a_timeline_is_read_by_key_and_says_what_was_when(chromium: Chromium, pages: dict[str, Path]) -> None:
    lane = REPORTS["few"].report().section("flapping").charts[0].series[1]
    chromium.open(pages["few"])
    track = chromium.all("#p-flapping-0 .track")[1]

    track.send_keys("\ue011")
    first = chromium.texts("#p-flapping-0 [role=status]")[0]
    track.send_keys("\ue014")
    second = chromium.texts("#p-flapping-0 [role=status]")[0]

    for said, span in zip((first, second), lane.spans, strict=False):
        assert said.startswith(f"{span.label}, {shown('time', span.start_ms)} to ")
        assert said.endswith(shown("duration_s", (span.stop_ms - span.start_ms) / 1000))


def test_a_line_is_hidden_and_shown_by_its_legend(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"])
    button = chromium.all("#p-latency-0 .switch")[2]
    line = chromium.find('#p-latency-0 .body [data-series="2"]')

    chromium.click(button)
    assert not line.is_displayed()
    assert button.get_attribute("aria-pressed") == "false"
    chromium.find("#p-latency-0-stage").send_keys("\ue010")
    assert "p99" not in chromium.find("#p-latency-0-stage").get_attribute("aria-valuetext")
    chromium.click(button)
    assert line.is_displayed()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(chromium: Chromium, pages: dict[str, Path], dark: bool) -> None:
    """At least 4.5 to 1, as WCAG 2.2 has it at level AA (1.4.3)."""
    chromium.open(pages["few"], dark=dark)

    pairs, faint = faint_texts(chromium)

    assert pairs > 8
    assert faint == []


_GROUND = "return getComputedStyle(document.body).backgroundColor"


def test_colours_follow_the_system_until_the_reader_chooses(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"], dark=False)
    light = chromium.ask(_GROUND)
    chromium.media("screen", dark=True)
    dark = chromium.ask(_GROUND)
    assert light != dark

    chromium.click('.themes [data-theme="light"]')
    assert chromium.ask(_GROUND) == light
    chromium.open(pages["few"], dark=True)  # it is kept
    assert chromium.ask(_GROUND) == light
    chromium.click('.themes [data-theme="dark"]')
    chromium.media("screen", dark=False)
    assert chromium.ask(_GROUND) == dark
    chromium.click('.themes [data-theme="auto"]')
    assert chromium.ask(_GROUND) == light


def test_on_paper_it_is_light_and_without_buttons(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"], dark=True)

    chromium.media("print", dark=True)

    assert chromium.ask(_GROUND) == "rgb(255, 255, 255)"
    assert chromium.seen(".top, .contents, .bar-of-tools, .pages") == 0
    chromium.resize(1000)  # a landscape page of A4
    wide = "return Array.from(document.querySelectorAll('table')).filter((one) => one.scrollWidth > innerWidth).length"
    assert chromium.ask(wide) == 0


def test_hostile_text_is_shown_as_it_is(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["hostile"])

    for selector in ("#t-backlog td:nth-child(3)", "#p-topics-0 .name", ".card h3", "#p-flapping-0 [data-lane] .name"):
        assert all(text.startswith("<img src=x onerror=") and "\\u202e" in text for text in chromium.texts(selector)), selector
        assert chromium.texts(selector), selector
    assert chromium.ask("return document.querySelectorAll('img, main script:not([type=\"application/json\"])').length") == 0
    assert chromium.ask("return window.hacked === undefined")


def test_the_policy_lets_nothing_run_that_is_not_the_pages_own(chromium: Chromium, pages: dict[str, Path], tmp_path: Path) -> None:
    """Were a text ever not escaped, it would still do nothing."""
    page = tmp_path / "holed.html"
    hole = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'><style>body{display:none}</style>"
    page.write_text(pages["few"].read_text(encoding="utf-8").replace("<h1", hole + "<h1", 1), encoding="utf-8")

    chromium.open(page)

    assert chromium.ask("return window.hacked === undefined && getComputedStyle(document.body).display === 'block'")
    complaints = chromium.console()
    assert len(complaints) >= 3
    assert all("Content Security Policy" in complaint or "ERR_FILE_NOT_FOUND" in complaint for complaint in complaints)


def _table(chromium: Chromium, name: str) -> list[list[str]]:
    script = """return Array.from(document.querySelectorAll("#" + arguments[0] + " tbody tr"),
      (row) => Array.from(row.children, (cell) => cell.textContent))"""
    rows: list[list[str]] = chromium.ask(script, name)
    return rows


def _shown(section: Section, rows: list[tuple[Cell, ...]]) -> list[list[str]]:
    return [[shown(column.kind, value) for column, value in zip(section.columns, row, strict=True)] for row in rows]


def _ordered(rows: list[tuple[Cell, ...]], column: int, numeric: bool, *, down: bool) -> list[tuple[Cell, ...]]:
    """Numbers by size; texts as people do, numbers in them by size."""

    def key(row: tuple[Cell, ...]) -> Any:
        return row[column] if numeric else [int(part) if part.isdigit() else part for part in str(row[column]).split("/")]

    return sorted(rows, key=key, reverse=down)


def test_a_table_sorts_by_value_both_ways_and_back(chromium: Chromium, pages: dict[str, Path]) -> None:
    section = REPORTS["few"].report().section("backlog")
    rows = list(section.rows)
    chromium.open(pages["few"])

    for column in range(len(section.columns)):
        head = chromium.all("#t-backlog th")[column]
        button = head.find_element("tag name", "button")
        numeric = section.columns[column].kind != "text"

        chromium.click(button)
        assert head.get_attribute("aria-sort") == ("descending" if numeric else "ascending")
        once = [cells[column] for cells in _table(chromium, "t-backlog")]
        chromium.click(button)
        twice = [cells[column] for cells in _table(chromium, "t-backlog")]
        chromium.click(button)
        assert head.get_attribute("aria-sort") is None

        assert once == [cells[column] for cells in _shown(section, _ordered(rows, column, numeric, down=numeric))[:10]]
        assert twice == [cells[column] for cells in _shown(section, _ordered(rows, column, numeric, down=not numeric))[:10]]
        assert _table(chromium, "t-backlog") == _shown(section, rows[:10])


def test_a_table_is_filtered_by_words_and_by_state_and_paged(chromium: Chromium, pages: dict[str, Path]) -> None:
    section = REPORTS["many"].report().section("reconciliation")
    rows = list(section.rows)
    chromium.open(pages["many"])

    def count() -> str:
        return chromium.texts("#t-reconciliation .count")[0]

    assert count() == f"{len(rows)} rows"
    words = chromium.find("#t-reconciliation .filter input")
    words.send_keys("CLOUD site-02")
    wanted = [row for row in rows if str(row[1]).startswith("site-02") and str(row[2]).startswith("cloud")]
    assert 5 < len(wanted) < 20
    assert count() == f"{len(wanted)} of {len(rows)} rows"
    assert _table(chromium, "t-reconciliation") == _shown(section, wanted[:10])
    words.clear()
    words.send_keys(" ")
    chromium.click("#t-reconciliation .chip.s-problem")
    assert _table(chromium, "t-reconciliation") == _shown(section, [row for row in rows if row[0] == "problem"])
    chromium.click("#t-reconciliation .chip.s-problem")
    chromium.click('#t-reconciliation [aria-label="Next page"]')
    assert _table(chromium, "t-reconciliation") == _shown(section, rows[10:20])
    assert chromium.texts("#t-reconciliation .pages span")[0] == f"11–20 of {len(rows)}"
    words.send_keys("no such row anywhere")
    assert "No row" in chromium.texts("#t-reconciliation tbody")[0]


def test_all_of_hundreds_of_nodes_or_one_of_them(chromium: Chromium, pages: dict[str, Path]) -> None:
    report = REPORTS["many"].report()
    chromium.open(pages["many"])
    assert chromium.ask("return document.querySelectorAll('tbody tr').length") < 200
    assert chromium.seen(".card") == 3
    assert chromium.seen(".square") == 200

    chromium.click('.square[data-node="site-123"]')

    assert chromium.seen(".card") == chromium.seen('.card[data-node="site-123"]') == 2
    wanted = [row for row in report.section("backlog").rows if row[0] == "site-123"]
    assert _table(chromium, "t-backlog") == _shown(report.section("backlog"), wanted)
    assert chromium.ask("return location.hash") == "#node=site-123"
    chromium.open(pages["many"], hash_="#node=site-007")
    assert {row[1] for row in _table(chromium, "t-reconciliation")} == {"site-007"}
    box = chromium.find("#node")
    box.clear()
    assert len({row[1] for row in _table(chromium, "t-reconciliation")}) > 1


def test_the_page_writes_values_as_python_does(chromium: Chromium, tmp_path: Path) -> None:
    """The first rows are written by Python, the others by the page; nobody can tell which are which."""
    chance = random.Random(11)
    kinds = ("count", "bytes", "duration_s", "percent", "per_s", "time", "text", "state")
    edges = [
        0,
        0.05,
        0.1,
        0.125,
        0.5,
        0.9994,
        0.9995,
        1,
        2.5,
        9.994,
        9.995,
        59.94,
        59.95,
        60,
        99.5,
        999.5,
        1000,
        1023,
        1024,
        3599.5,
        3600,
    ]
    numbers = [
        *edges,
        86_399.5,
        86_400,
        1_048_575,
        10**12,
        *(chance.uniform(0, 10 ** chance.randrange(-4, 12)) for _ in range(600)),
    ]
    values: list[tuple[str, Cell]] = [(kind, sign * number) for kind in kinds[:5] for number in numbers for sign in (1, -1)]
    values += [("time", END_MS + chance.randrange(-(10**12), 10**12)) for _ in range(50)]
    values += [("text", "a\u202eb"), ("state", "ok"), ("state", "problem"), ("count", None), ("time", None)]
    chromium.open(_write(tmp_path / "page.html", Fleet(nodes=1, bad=0).report()))

    said = chromium.ask(
        "return JSON.parse(arguments[0]).map(([kind, value]) => window.bascule.text(kind, value))", json.dumps(values)
    )

    ours = [shown(kind, value) if kind != "text" else str(value) for kind, value in values]
    assert [(v, a, b) for v, a, b in zip(values, said, ours, strict=True) if a != b] == []


def test_rows_saved_for_a_spreadsheet_start_no_formula(chromium: Chromium, tmp_path: Path) -> None:
    columns = (
        Column(name="topic", title="Topic", kind="text"),
        Column(name="n", title="N", kind="count"),
        Column(name="at", title="At", kind="time"),
    )
    rows = tuple((text, at - 3, END_MS + at) for at, text in enumerate(("=1+1", "+a", "-b", "@c", 'say "x", y', "plain", "grün")))
    section = Section(name="x", title="X", question="?", verdict="ok", summary="", columns=columns, rows=rows, rows_total=7)
    report = Fleet(nodes=1, bad=0).report()
    chromium.open(_write(tmp_path / "page.html", Report(**{**_fields(report), "sections": (section,)})))

    text = chromium.ask_later(
        """
        const done = arguments[0];
        URL.createObjectURL = (blob) => { blob.text().then(done); return "#"; };
        document.querySelector("#t-x .save").click();
        """
    )

    lines = text.split("\r\n")
    assert lines[:3] == ["topic,n,at", "'=1+1,-3,2026-11-21T10:00:00.000Z", "'+a,-2,2026-11-21T10:00:00.001Z"]
    assert lines[5].startswith('"say ""x"", y",1,')
    assert lines[7].startswith("grün,3,")


def _fields(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in type(report).__dataclass_fields__}


def test_without_scripts_the_answer_the_plots_and_the_first_rows_are_there(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"], script=False)

    visible = chromium.accessibility()

    names = [node.get("name", {}).get("value", "") for node in visible]
    assert any("does not add up" in name for name in names)
    assert sum(node["role"]["value"] == "row" for node in visible) > 30
    assert sum(node["role"]["value"] == "image" for node in visible) >= 4
    assert any("the others need a script" in name for name in names)
    chromium.open(pages["few"])  # the window is used again: scripts are allowed in it


def test_a_screen_reader_gets_names_values_and_headers(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["few"], height=6000)

    tree = chromium.accessibility()

    def named(role: str) -> list[str]:
        return [node.get("name", {}).get("value", "") for node in tree if node["role"]["value"] == role]

    for role in ("slider", "button", "table", "columnheader", "link", "heading", "searchbox", "combobox"):
        assert all(named(role)), role
    assert len(named("slider")) == 5
    assert "Accepted to delivered" in named("slider")
    assert {"banner", "navigation", "main", "contentinfo"} <= {node["role"]["value"] for node in tree}
    described = [node.get("description", {}).get("value", "") for node in tree if node["role"]["value"] == "slider"]
    assert all("lowest" in text and "highest" in text for text in described)
    levels = chromium.ask("return Array.from(document.querySelectorAll('h1,h2,h3,h4'), (one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1


def test_values_of_a_plot_are_a_table_on_request(chromium: Chromium, pages: dict[str, Path]) -> None:
    chart = REPORTS["few"].report().section("throughput").charts[1]
    chromium.open(pages["few"])

    chromium.click("#p-throughput-1 summary")
    wait_until(lambda: chromium.all("#p-throughput-1-values tbody tr"), 5, "no table of values")

    rows = _table(chromium, "p-throughput-1-values")
    assert rows == [
        [shown("time", at), shown("bytes", value)] for at, value in zip(chart.x[:10], chart.series[0].values[:10], strict=True)
    ]


def test_all_bars_and_all_cards_are_shown_on_request(chromium: Chromium, pages: dict[str, Path]) -> None:
    chromium.open(pages["many"])

    chromium.click("#p-topics-0 .show-more")
    assert chromium.seen("#p-topics-0 li") == 20
    chromium.click("#nodes-all > .show-more")
    assert chromium.seen(".card") == 24
