"""``bascule check`` and ``bascule doctor`` say the same of topics that come back: without end is a fault, once more a warning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.config.loading import load
from supervisor.doctor import circles
from supervisor.doctor.rules import examine_circles
from supervisor.doctor.running_node import spoken
from tests.supervisor.doctor.test_machine_checks import bridge, written
from wire.figure import of_map
from wire.routing.topic_mapping import TopicTemplate
from wire.status.node_status import Status

SHARED = 'local_subscriptions: [{filters: ["x/#"], max_qos: 1}], remote_subscriptions: [{filters: ["x/#"], shared: g}]'
BOTH = 'local_subscriptions: [{filters: ["x/#"]}], remote_subscriptions: [{filters: ["x/+/y"]}]'
OLD, AUTO = ", protocol: mqtt311", ", protocol: auto"
NOTHING, FAULT, WARNING = (0, 0), (1, 0), (0, 1)  # faults and warnings


def told(path: Path, words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """How many faults and warnings with ``words`` ``check`` and ``doctor`` have of the file ``path``, the same of both."""
    status = main(["check", str(path)])
    said = capsys.readouterr()
    faults, warnings = said.err.splitlines(), [line for line in said.out.splitlines() if "  warning: " in line]
    assert status == (78 if faults else 0)
    assert all(words in line and f"{path}:5:" in line for line in (*faults, *warnings)), said
    findings = [(one.verdict, words in one.found) for one in examine_circles(load(path))]
    assert findings == [("fail", True)] * len(faults) + [("warn", True)] * (0 if faults else len(warnings))
    return len(faults), len(warnings)


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (f"{BOTH}, loop_prevention: {{enabled: false}}", FAULT),
        (f"{BOTH}, loop_prevention: {{max_hops: 2}}", NOTHING),
        (BOTH, NOTHING),
        (f"{BOTH.replace('x/+/y', 'y/#')}, loop_prevention: {{enabled: false}}", NOTHING),
    ],
)
def test_rules_that_send_a_message_round_without_end_are_found(
    rules: str, found: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = written(tmp_path, bridge("broker.example:1883", rules=rules, remote=OLD))

    assert told(path, "goes round without end", capsys) == found


@pytest.mark.parametrize(
    ("rules", "remote", "found"),
    [
        (f"{BOTH}, lanes: 2", OLD, WARNING),
        (f"{BOTH.replace(']}]', '], priority: urgent}]', 1)}", OLD, WARNING),
        (f"{BOTH}, backlog: live-first", OLD, WARNING),
        (f"{SHARED}, lanes: 2", OLD, WARNING),
        (SHARED, OLD, NOTHING),
        (f"{BOTH}, lanes: 2", "", NOTHING),
        (f"{BOTH}, lanes: 2", AUTO, WARNING),
        (f"{BOTH}, lanes: 2, loop_prevention: {{echo_window: 0s}}", OLD, NOTHING),
        (f"{BOTH.replace('x/+/y', 'y/#')}, lanes: 2", OLD, NOTHING),
        (f"{BOTH.replace(']}]', '], excludes: [x/+/y]}]', 1)}, lanes: 2", OLD, NOTHING),
    ],
)
def test_echoes_that_come_by_another_lane_than_they_went_are_found(
    rules: str, remote: str, found: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = written(tmp_path, bridge("broker.example:1883", rules=rules, remote=remote))

    assert told(path, "by another lane", capsys) == found
    if found != NOTHING:
        path.write_text(path.read_text() + "rings: {window: 30s}\n")
        assert told(path, "by another lane", capsys) == NOTHING


@pytest.mark.parametrize(
    ("out", "back", "found"),
    [
        ("{#}", "{#}", NOTHING),
        ("edge/{#}", "{2-#}", NOTHING),
        ("{#}", "cloud/{#}", WARNING),
        ("edge/{#}", "cloud/{2-#}", WARNING),
    ],
)
def test_rings_do_for_echoes_whose_topic_is_the_same_again(
    out: str, back: str, found: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = "edge/#" if out != "{#}" else "x/#"
    rules = f'local_subscriptions: [{{filters: ["x/#"], destination: "{out}"}}], remote_subscriptions: [{{filters: ["{there}"], '
    rules += f'destination: "{back}"}}], lanes: 2'
    path, _ = written(tmp_path, bridge("broker.example:1883", rules=rules, remote=OLD), more="rings: {window: 30s}")

    assert told(path, "write protocol: mqtt5, or loop_prevention.echo_window", capsys) == found


@pytest.mark.parametrize(
    ("levels", "found"), [((), [True]), ((0, 0), [True]), ((5, 5), []), ((4, 4), [False]), ((5, 4), [True])], ids=str
)
def test_where_the_remote_decides_the_version_a_running_node_knows_it(
    levels: tuple[int, ...], found: list[bool], tmp_path: Path
) -> None:
    path, _ = written(tmp_path, bridge("broker.example:1883", rules=f"{BOTH}, lanes: 2", remote=AUTO))
    settings = load(path)
    rows = [{"name": "a", "lane": lane, "link": {"protocol": level}} for lane, level in enumerate(levels)]

    findings = list(examine_circles(settings, spoken(of_map(Status, {"bridges": rows}))))

    assert ["where the remote speaks MQTT 3.1.1" in finding.found for finding in findings] == found
    assert all(finding.verdict == "warn" for finding in findings)


# --- how much work it is ---


def many(folder: Path, rules: int) -> Path:
    """Two bridges to one remote, of whose rules none takes what another sends."""
    folder.mkdir()
    sends, brings = (", ".join(f'{{filters: ["{side}{number}/#"]}}' for number in range(rules)) for side in "ab")
    both = f"local_subscriptions: [{sends}], remote_subscriptions: [{brings}], loop_prevention: {{max_hops: 2}}"
    made = (bridge("broker.example:1883", name=name, rules=both, remote=OLD).replace(": edge", f": {name}") for name in "ab")
    return written(folder, *made)[0]


def calls(of: object, name: str, work: Callable[[], object]) -> int:
    """How often ``work`` calls the function ``name`` of ``of``."""
    called, function = 0, getattr(of, name)

    def counted(*args: object) -> object:
        nonlocal called
        called += 1
        return function(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of, name, counted)
        work()
    return called


def test_with_twice_the_rules_it_is_four_times_the_work_and_not_eight(tmp_path: Path) -> None:
    few, more = (load(many(tmp_path / str(rules), rules)) for rules in (8, 16))

    first = calls(circles, "overlap", lambda: list(examine_circles(few)))

    assert 0 < calls(circles, "overlap", lambda: list(examine_circles(more))) <= 4 * first


def test_a_destination_is_parsed_once_however_many_rules_have_it(tmp_path: Path) -> None:
    settings = load(many(tmp_path / "many", 8))

    assert calls(TopicTemplate, "parse", lambda: list(examine_circles(settings))) <= 1


@pytest.mark.parametrize("words", [["check"], ["doctor", "--offline"]])
def test_circles_are_looked_for_once(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = many(tmp_path / "many", 2)

    assert calls(circles, "_leads_here", lambda: main([*words, str(path)])) == 2, "once for the address of each bridge"


# --- two bridges to one remote ---


def pair(
    sends: str = '{filters: ["x/#"]}',
    brings: str = '{filters: ["#"]}',
    *,
    at: tuple[str, str] = ("broker.example:1883", "Broker.example:1883"),
    remotes: tuple[str, str] = (OLD, OLD),
    loops: tuple[str, str] = ("", ""),
) -> tuple[str, str]:
    """The bridge b, which brings, in line 5, and the bridge a, which sends."""
    bringing, sending = (f", loop_prevention: {{{each}}}" if each else "" for each in loops)
    return (
        bridge(at[0], name="b", rules=f"remote_subscriptions: [{brings}]{bringing}", remote=remotes[0]).replace(": edge", ": b"),
        bridge(at[1], name="a", rules=f"local_subscriptions: [{sends}]{sending}", remote=remotes[1]),
    )


@pytest.mark.parametrize(
    ("bridges", "found"),
    [
        (pair(), WARNING),
        (pair(remotes=(OLD, "")), WARNING),
        (pair(remotes=("", OLD)), WARNING),
        (pair(remotes=(AUTO, AUTO)), WARNING),
        (pair(remotes=("", "")), NOTHING),
        (pair(at=("broker.example:1883", "other.example:1883")), NOTHING),
        (pair(at=("broker.example:1883", "broker.example:1884")), NOTHING),
        (pair(brings='{filters: ["y/#"]}'), NOTHING),
        (pair(brings='{filters: ["#"], excludes: ["x/#"]}'), NOTHING),
        (pair(sends='{filters: ["#"], excludes: ["y/#"]}', brings='{filters: ["y/#"]}'), NOTHING),
        (pair(sends='{filters: ["#"]}', brings='{filters: ["#"], destination: "cloud/{#}"}'), NOTHING),
        (pair(sends='{filters: ["x/#"], destination: "edge/{#}"}', brings='{filters: ["x/#"]}'), NOTHING),
        (pair(sends='{filters: ["x/#"], destination: "edge/{#}"}', brings='{filters: ["edge/#"]}'), NOTHING),
        (
            pair(sends='{filters: ["+/t"], destination: "edge/{1}"}', brings='{filters: ["edge/#"], destination: "{2}/t"}'),
            WARNING,
        ),
        (pair(loops=("echo_window: 0s", "")), NOTHING),
    ],
)
def test_what_one_bridge_sends_and_another_brings_back_is_found(
    bridges: tuple[str, str], found: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = written(tmp_path, *bridges)

    assert told(path, "broker.example:1883, where bridge a sends", capsys) == found
    path.write_text(path.read_text() + "rings: {window: 30s}\n")
    assert told(path, "broker.example:1883, where bridge a sends", capsys) == NOTHING


@pytest.mark.parametrize(
    ("bridges", "found"),
    [
        (pair(loops=("", "max_hops: 2")), FAULT),
        (pair(loops=("", "enabled: false")), FAULT),
        (pair(loops=("enabled: false", "")), FAULT),
        (pair(loops=("", "max_hops: 2"), remotes=(AUTO, AUTO)), WARNING),
        (pair(loops=("", "max_hops: 2"), remotes=(AUTO, OLD)), FAULT),
        (pair(loops=("", "max_hops: 2"), remotes=("", "")), NOTHING),
        (pair(loops=("enabled: false", ""), remotes=("", "")), NOTHING),
        (pair(loops=("enabled: false", "enabled: false"), remotes=("", "")), FAULT),
        (pair(loops=("", "max_hops: 2"), brings='{filters: ["#"], destination: "y/{#}"}'), NOTHING),
        (pair(loops=("", "max_hops: 2"), sends='{filters: ["#"]}', brings='{filters: ["#"], destination: "y/{#}"}'), FAULT),
    ],
)
def test_two_bridges_that_send_a_message_round_without_end_are_found_and_rings_do_not_end_it(
    bridges: tuple[str, str], found: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = written(tmp_path, *bridges)

    assert told(path, "goes round without end", capsys) == found
    path.write_text(path.read_text() + "rings: {window: 30s}\n")
    assert told(path, "goes round without end", capsys) == found
