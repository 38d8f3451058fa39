"""Figures that ``scripts/bench`` makes of its measurements: /proc, percentiles, medians, ratios; and what it starts and refuses."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.node import ROOT
from tests.support.waiting import wait_until

FOLDER = ROOT / "scripts" / "benchmark"
MODULES = ("processes", "systems", "measure", "rates", "rates_report", "broker", "far_end", "snapshot", "main")

# comm holds what a program likes; then state, parent, group, session, ..., utime 7, stime 5, cutime 2, cstime 1, ..., rss 3
STAT = "41 (a) S 9 (b)) S 40 41 40 0 -1 4194560 1 0 0 0 7 5 2 1 20 0 3 0 100 1000 3 18446744073709551615 1 1 0 0"
STATUS = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the bench, which import each other by their plain names, as a script's do."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        del sys.modules[name]


def usage(bench: dict[str, ModuleType], **figures: Any) -> Any:
    plain = {"words": ("x",), "cpu_s": 0.0, "user_ticks": 0, "system_ticks": 0, "reaped_s": 0.0, "switches": {}, "rss_bytes": 0}
    return bench["processes"].Usage(**{**plain, **figures})


# --- /proc ---


def test_a_stat_line_is_read_whatever_the_program_is_called(bench: dict[str, ModuleType]) -> None:
    assert bench["processes"].parse_stat(STAT) == bench["processes"].Stat(
        parent=40, session=40, user_ticks=7, system_ticks=5, reaped_ticks=3, resident_pages=3
    )


def test_the_switches_of_a_thread_are_read(bench: dict[str, ModuleType]) -> None:
    assert bench["processes"].parse_switches(STATUS) == (12, 3)


def test_a_system_is_its_session_and_all_that_descend_from_it(bench: dict[str, ModuleType]) -> None:
    def stat(parent: int, session: int) -> Any:
        return bench["processes"].Stat(
            parent=parent, session=session, user_ticks=0, system_ticks=0, reaped_ticks=0, resident_pages=0
        )

    stats = {
        1: stat(0, 1),
        10: stat(5, 10),  # the leader
        11: stat(10, 10),
        12: stat(11, 12),  # in a session of its own
        13: stat(12, 12),
        14: stat(1, 10),  # its parent has ended
        20: stat(5, 5),
        21: stat(1, 1),
    }
    assert bench["processes"].family(stats, 10) == {10, 11, 12, 13, 14}


def test_what_was_used_is_exact_in_sum_and_parted_by_ticks(bench: dict[str, ModuleType]) -> None:
    before = usage(bench, cpu_s=1.0, user_ticks=60, system_ticks=40, switches={1: (10, 1), 2: (5, 5)})
    after = usage(bench, cpu_s=1.5, user_ticks=90, system_ticks=50, switches={1: (14, 2), 3: (7, 0)})
    spent = bench["processes"].spent(before, after)
    assert spent.user_s == pytest.approx(0.375)
    assert spent.system_s == pytest.approx(0.125)
    assert (spent.voluntary, spent.involuntary) == (11, 1)  # a thread that began meanwhile counts, one that ended does not


def test_less_than_a_tick_is_parted_as_the_whole_life_was(bench: dict[str, ModuleType]) -> None:
    before = usage(bench, cpu_s=1.0, user_ticks=30, system_ticks=10)
    spent = bench["processes"].spent(before, usage(bench, cpu_s=1.004, user_ticks=30, system_ticks=10))
    assert spent.user_s == pytest.approx(0.003)
    assert spent.system_s == pytest.approx(0.001)


def test_a_process_that_began_meanwhile_counts_whole(bench: dict[str, ModuleType]) -> None:
    spent = bench["processes"].spent(None, usage(bench, cpu_s=0.002, switches={1: (2, 1)}))
    assert (spent.user_s, spent.system_s, spent.voluntary, spent.involuntary) == (pytest.approx(0.002), 0.0, 2, 1)


def test_a_look_finds_a_grandchild_in_a_session_of_its_own_and_what_it_burns(bench: dict[str, ModuleType]) -> None:
    burn = "import os\nif not os.fork():\n os.setsid()\n while True: pass\nos.wait()"
    process = subprocess.Popen([sys.executable, "-c", burn], start_new_session=True)
    try:
        look = bench["processes"].usage_of_family
        wait_until(lambda: len(look(process.pid)) == 2, 20.0, "the child")
        child = next(pid for pid in look(process.pid) if pid != process.pid)
        before = look(process.pid)
        wait_until(lambda: look(process.pid)[child].cpu_s > before[child].cpu_s + 0.05, 60.0, "CPU of the child")
        after = look(process.pid)
        spent = bench["processes"].spent(before[child], after[child])
        assert spent.user_s + spent.system_s > 0.05
        assert bench["processes"].cpu_s(after) > bench["processes"].cpu_s(before)
        assert after[child].rss_bytes > 1 << 20
        waiting = bench["processes"].spent(before[process.pid], after[process.pid])
        assert waiting.user_s + waiting.system_s < 0.05
    finally:
        for pid in bench["processes"].usage_of_family(process.pid):
            os.kill(pid, 9)
        process.wait(20.0)
    assert bench["processes"].usage_of_family(process.pid) == {}


def test_processes_are_named_by_what_was_told_then_by_their_command_lines_and_no_two_alike(bench: dict[str, ModuleType]) -> None:
    words = {
        1: ("python", "-m", "supervisor.cli", "run", "x.yaml"),
        2: ("python", "-P", "-m", "actors.process.main", "--process", "bridge:b:0", "--epoch", "7"),
        3: ("/usr/bin/python3", "-P", "-m", "actors.process.template"),
        4: ("/usr/bin/python3", "-P", "-m", "actors.process.template"),
        5: ("/usr/sbin/mosquitto", "-c", "x"),
        6: ("",),
    }
    used = {pid: usage(bench, words=line) for pid, line in words.items()}
    names = bench["processes"].names(used, 1, {3: "store"})
    assert names == {1: "main", 2: "bridge:b:0", 3: "store", 4: "actors.process.template", 5: "mosquitto", 6: "child"}
    again = bench["processes"].names(used, 1)
    assert (again[3], again[4]) == ("actors.process.template", "actors.process.template 2")


# --- what a node tells ---


def status(*rows: tuple[int | None, str, int], commits: int = 0, **keys: Any) -> dict[str, Any]:
    actors = [{"pid": pid, "name": name, "mailbox": {"frames_sent": sent, "turns": 2 * sent}} for pid, name, sent in rows]
    return {"supervisor": {"pid": 1, "mailbox": {}}, "actors": actors, "store": {"commits": commits}, **keys}


def test_a_process_is_called_by_its_actors_or_as_the_node_calls_it(bench: dict[str, ModuleType]) -> None:
    named = bench["rates"].names_told
    told = status((7, "listener", 0), (7, "distributor", 0), (8, "queue_store", 0), (None, "forwarder:b:0", 0))
    assert named(told) == {1: "supervisor", 7: "listener+distributor", 8: "queue_store"}
    assert named({**told, "processes": [{"pid": 7, "name": "clients"}]}) == {1: "supervisor", 7: "clients"}
    assert named(None) == {}


def test_frames_are_those_of_the_process_however_many_actors_tell_them(bench: dict[str, ModuleType]) -> None:
    between = bench["rates"].frames_between
    before = status((7, "listener", 10), (7, "distributor", 10))
    after = status((7, "listener", 16), (7, "distributor", 16), (8, "queue_store", 3))
    assert between(before, after) == {7: {"frames_sent": 6, "turns": 12}, 8: {"frames_sent": 3, "turns": 6}}
    silent = {"supervisor": {"pid": 1}, "actors": [{"pid": 7, "name": "listener"}], "store": {}}
    assert between(silent, silent) == {}


def test_commits_are_unknown_where_nobody_counts_them(bench: dict[str, ModuleType]) -> None:
    between = bench["rates"].commits_between
    assert between(status(commits=5), status(commits=9)) == 4
    assert between(None, None) is None
    assert between({"store": {}}, {"store": {}}) is None


def test_the_whole_is_the_sum_of_the_processes_and_unknown_where_none_of_them_tells(bench: dict[str, ModuleType]) -> None:
    one = {"user_us": 3.0, "system_us": 1.0, "voluntary": 2.0, "involuntary": 0.5}
    whole = bench["rates"].whole_of({"a": {**one, "frames_sent": 4.0}, "b": one})
    assert (whole["cpu_us"], whole["switches"], whole["frames_sent"], whole["turns"]) == (8.0, 5.0, 4.0, None)


# --- percentiles, medians, ratios ---


def test_the_load_generators_percentiles_are_right_within_one_percent(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    source = tmp_path / "percentiles.c"
    source.write_text(
        '#include "histogram.h"\n'
        "int main(void) {\n"
        "  static struct histogram latency;\n"
        "  for (uint64_t us = 1; us <= 100000; us++) record(&latency, us * 1000);\n"
        '  printf("{\\"count\\": %lu", (unsigned long)latency.count); print_latency("ack", &latency); puts("}");\n'
        "  return 0;\n}\n"
    )
    subprocess.run([compiler, f"-I{FOLDER}", "-o", str(tmp_path / "percentiles"), str(source)], check=True)
    told = json.loads(subprocess.run([tmp_path / "percentiles"], capture_output=True, check=True).stdout)
    assert told["count"] == 100_000
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
        assert told[f"ack_{name}_us"] == pytest.approx(100_000 * share, rel=0.01), name


@pytest.mark.parametrize("qos", [1, 2])
def test_the_far_end_acknowledges_and_counts_what_comes_run_by_run(bench: dict[str, ModuleType], tmp_path: Path, qos: int) -> None:
    if shutil.which("cc") is None:
        pytest.skip("the bench compiles its load generator, and there is no C compiler")
    load = bench["measure"].compile_load(tmp_path)
    far, bridge = bench["systems"].FarEnd(load), bench["measure"].Bench(load=load, qos=qos)
    far.start()
    try:
        for publishers in (1, 3):
            far.expect(3000, publishers)
            sent = bridge.publish(far.port, messages=3000, connections=publishers, window=300)
            came = far.received()
            assert sent["acknowledged"] == came["distinct"] == 3000
            assert (came["duplicates"], came["out_of_order"], came["foreign"]) == (0, 0, 0)
    finally:
        far.stop()


def run(system: str, row: str, **figures: Any) -> dict[str, Any]:
    plain = {"cpu_us": 10.0, "user_us": 8.0, "system_us": 2.0, "voluntary": 1.0, "involuntary": 0.0, "switches": 1.0}
    plain |= {f"{name}_{share}_us": 100.0 for name in ("ack", "latency") for share in ("p50", "p99", "p999")}
    plain |= {"acknowledged_per_s": 100.0, "end_to_end_per_s": 100.0, "load_average": 0.5}
    counts = {"missing": 0, "duplicates": 0, "out_of_order": 0, "commits": None, "processes": {"main": dict(plain)}}
    return {"turn": 0, "system": system, "row": row, **plain, **counts, **figures}


def report(*runs: dict[str, Any], **keys: Any) -> dict[str, Any]:
    systems = list(dict.fromkeys(run["system"] for run in runs if run["system"] != "far broker alone"))
    return {"runs": list(runs), "systems": systems, "seconds": 2.0, "turns": 3, "beside": None, "lost": 0, **keys}


def test_medians_are_of_each_figure_and_what_went_wrong_is_summed_up(bench: dict[str, ModuleType]) -> None:
    runs = [
        run("bascule", "100/s", cpu_us=cpu, missing=1, commits=commits, processes={"store": {"user_us": cpu}})
        for cpu, commits in ((9.0, None), (1.0, 4.0), (5.0, 2.0))
    ]
    found = bench["rates_report"].median_of(runs)
    assert (found["cpu_us"], found["missing"], found["commits"]) == (5.0, 3, 3.0)
    assert found["processes"] == {"store": {"user_us": 5.0}}
    assert not {"turn", "system", "row"} & found.keys()


def test_ratios_are_ours_divided_by_each_other_systems_where_both_have_the_figure(bench: dict[str, ModuleType]) -> None:
    runs = [
        run("bascule", "100/s", cpu_us=5.0),
        run("together", "100/s", cpu_us=4.0),
        run("before", "100/s", cpu_us=10.0),
        run("mosquitto", "100/s", cpu_us=2.0, switches=0.0),
        run("bascule", "QoS 2, MQTT 3.1.1, 20 in flight", end_to_end_per_s=50.0),
        run("far broker alone", "QoS 2, MQTT 3.1.1, 20 in flight"),
    ]
    rows = bench["rates_report"].summed_up(report(*runs))["ratios"]
    assert [(row["row"], row["of"], row["beside"], row["cpu_us"]) for row in rows] == [
        ("100/s", "bascule", "before", 0.5),
        ("100/s", "bascule", "mosquitto", 2.5),
        ("100/s", "together", "before", 0.4),
        ("100/s", "together", "mosquitto", 2.0),
    ]
    assert "switches" not in rows[1]


def test_the_tables_have_every_row_mark_what_is_behind_its_rate_and_tell_fdatasyncs(bench: dict[str, ModuleType]) -> None:
    exchange = bench["rates"].EXCHANGES[0].title
    several = {name: {"user_us": 1.0, "system_us": 2.0, "voluntary": 3.0, "involuntary": 4.0} for name in ("store", "clients")}
    runs = [
        run("bascule", "100/s", processes=several),
        run("bascule", "2000/s", processes=several, acknowledged_per_s=1800.0),
        run("bascule", bench["rates"].LONE, processes=several, ack_fdatasyncs=2.9, fdatasync_p50_us=34.5),
        run("bascule", exchange, end_to_end_per_s=4321.0),
        run("before", "100/s", missing=7),
        run("before", "2000/s"),
        run("before", bench["rates"].LONE, ack_fdatasyncs=9.0, fdatasync_p50_us=34.5),
        run("before", exchange),
    ]
    text = "\n".join(bench["rates_report"].lines(bench["rates_report"].summed_up(report(*runs, beside="/x/y"))))
    for wanted in (
        "before: the code in /x/y",
        "bascule: CPU, user + system [us]",
        "  store ",
        "1 + 2",
        "3.00 + 4.00",
        "* behind its rate",
        "4,321",
        "ratio: bascule / before",
        "one in flight, bascule: acknowledged in 2.9 fdatasyncs",
        "before: 7 missing",
    ):
        assert wanted in text, text
    assert next(line for line in text.splitlines() if line.endswith(" *")).startswith("2000/s")


# --- what is started ---


def test_mosquitto_2_1_is_measured_where_the_environment_names_program_and_plug_in(
    bench: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    systems = bench["systems"]
    for name in (systems.SQLITE_PROGRAM, systems.SQLITE_PLUGIN):
        monkeypatch.delenv(name, raising=False)
    assert list(bench["rates"].systems(None)) == ["bascule", "together", "mosquitto"]
    program, plug_in = tmp_path / "mosquitto", tmp_path / "persist.so"
    program.touch()
    monkeypatch.setenv(systems.SQLITE_PROGRAM, str(program))
    with pytest.raises(systems.BenchError, match=systems.SQLITE_PLUGIN):
        bench["rates"].systems(None)
    plug_in.touch()
    monkeypatch.setenv(systems.SQLITE_PLUGIN, str(plug_in))
    starters = bench["rates"].systems(None)
    assert list(starters) == ["bascule", "together", "mosquitto", "mosquitto 2.1 sqlite"]
    words = starters["mosquitto 2.1 sqlite"](tmp_path / "data", 1884).command()
    assert words[0] == str(program)
    lines = Path(words[2]).read_text().splitlines()
    assert lines.index(f"plugin {plug_in}") < lines.index("plugin_opt_sync extra") < lines.index("connection bench")
    assert "persistence false" not in lines


def test_a_bridge_of_either_kind_has_the_protocol_and_the_window_that_were_asked_for(
    bench: dict[str, ModuleType], tmp_path: Path
) -> None:
    link = {"protocol": "mqtt5", "in_flight_max": 20}
    ours = bench["systems"].Bascule(tmp_path / "ours", 1884, **link).command()
    remote = json.loads(Path(ours[-1]).read_text())["bridges"][0]["remote"]
    assert (remote["protocol"], remote["receive_maximum"], remote["qos2_maximum"]) == ("mqtt5", 20, 20)
    together = bench["systems"].BasculeTogether(tmp_path / "together", 1884, **link).command()
    assert json.loads(Path(together[-1]).read_text())["supervision"] == {"placement": "together"}
    if shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"):
        theirs = bench["systems"].MosquittoBridge(tmp_path / "theirs", 1884, **link).command()
        lines = Path(theirs[-1]).read_text().splitlines()
        assert {"bridge_protocol_version mqttv50", "max_inflight_messages 20"} <= set(lines)


def test_another_checkout_is_started_by_its_own_environment_and_refused_where_there_is_none(
    bench: dict[str, ModuleType], tmp_path: Path
) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    with pytest.raises(bench["systems"].BenchError, match=str(python)):
        bench["systems"].BasculeBeside(tmp_path / "data", 1884, checkout=tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "supervisor").mkdir()
    (tmp_path / "supervisor" / "__init__.py").touch()
    other = bench["systems"].BasculeBeside(tmp_path / "data", 1884, checkout=tmp_path)
    assert other.command()[0] == str(python)
    assert other.root == tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["--beside", "."],
        ["--rates", "10", "--snapshot"],
        ["--rates", "10", "--clients"],
        ["--rates", "0"],
        ["--rates", "--seconds", "0"],
        ["--far-end", "--snapshot"],
        ["--rates", "--seconds", "1000"],
        ["--json", "no/such/folder/file"],
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_measured(
    bench: dict[str, ModuleType], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    begun_s = time.monotonic()
    with pytest.raises(SystemExit) as refused:
        bench["main"].main(words)
    assert refused.value.code == 2
    assert "error:" in capsys.readouterr().err
    assert time.monotonic() - begun_s < 20.0
