"""Output for a person."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from supervisor.terminal.message_text import Message
from supervisor.terminal.view import briefly, paragraph, print_messages, progress, size, status_view
from supervisor.tree.status_figures import Rates, full_s, lane_row, room_of, store_part, unserved_rows
from tests.support.settings import node
from wire.figure import of_map, to_map
from wire.frames.names import actors_of
from wire.status.bridges import ConnectionFigures, Tier2Figures
from wire.status.client_figures import DistributorFigures, ListenerFigures
from wire.status.node_status import ActorRow, Status
from wire.status.store import StoreReport

KINDS: dict[str, Any] = {
    "queue_store": StoreReport,
    "connection": ConnectionFigures,
    "forwarder": Tier2Figures,
    "listener": ListenerFigures,
    "distributor": DistributorFigures,
}
PROCESSES = ("store", "bridge:a:0", "clients")


def status(
    figures: dict[str, dict[str, Any]] | None = None,
    states: dict[str, str] | None = None,
    *,
    lanes: int = 1,
    cause: str = "",
    rates: dict[str, Rates] | None = None,
    down_s: dict[str, float | None] | None = None,
    full_for_s: float | None = None,
) -> dict[str, Any]:
    """The answer of a node; ``states`` are of those that are not ready, ``cause`` is the store's."""
    named = [name for name in PROCESSES if lanes or not name.startswith("bridge")]
    state_of = {**dict.fromkeys(named, "ready"), **(states or {})}
    reports = {actor: of_map(KINDS[actor.partition(":")[0]], told) for actor, told in (figures or {}).items()}
    actors = {
        actor: of_map(ActorRow, {"name": actor, "pid": 7, "state": state_of.get(actor, state_of[process])})
        for process in named
        for actor in actors_of(process)
    }
    processes = [{"name": "supervisor", "pid": 1, "state": "ready"}]
    for name in named:
        taken = {"pss_bytes": 33 << 20, "cpu_s": 123.44, "restarts": 3, "last_cause": cause if name == "store" else ""}
        processes.append({"name": name, "pid": 7, "state": state_of[name], "actors": actors_of(name), **taken})
    limits = replace(node().limits, max_messages=10_000_000, max_bytes=10 << 30)
    store = reports.get("queue_store")
    queue, rate = store.queues.get("bridge:a:0") if store is not None else None, (rates or {}).get("bridge:a:0", Rates())
    room = room_of("a", [queue], limits)
    room = None if room is None else replace(room, full_for_s=full_for_s)
    row = (
        lane_row(
            "a",
            0,
            actors=actors,
            reports=reports,
            rates=rate,
            room=room,
            full_s=full_s((queue and queue.depth) or 0, [rate], room),
            paused_since_ms=None,
            down_s=(down_s or {}).get("connection:a:0"),
        )
        if lanes
        else None
    )
    return {
        "node": "n",
        "ready": True,
        "supervisor": {"pid": 1, "uptime_s": 1.0},
        "actors": [to_map(row) for row in actors.values()],
        "processes": processes,
        "bridges": [to_map(row)] if row is not None else [],
        "store": {} if store is None else to_map(store_part(store)),
        "replication": {} if store is None or store.replication is None else to_map(store.replication),
        "unserved": to_map(unserved_rows([("a", 0)] * lanes, {} if store is None else store.queues)),
        "control": control(),
        **{part: to_map(reports[part]) for part in ("listener", "distributor") if part in reports},
    }


def control(**figures: Any) -> dict[str, Any]:
    """Of the control sockets; ``figures`` are those that are not as of a node that nobody troubles."""
    refused = {"malformed": 0, "role": 0, "key": 0, "handshake": 0, "too_many": 0, **figures.pop("refused", {})}
    plain = {"requests": 1, "endpoint": "", "error": "", "public_key": "", "connections": 0, "keys": 0, "problems": []}
    return {**plain, "refused": refused, **figures}


def lines(status: dict[str, Any], width: int = 200, *, bridge: str | None = None, wide: bool = False) -> list[str]:
    """The output about it, on the first day of 1970 at 00:16:40."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(status_view(of_map(Status, status), bridge=bridge, wide=wide, now_ms=1_000_000))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0 s"), (59.4, "59 s"), (3_599, "59 min"), (7_300, "2 h"), (200_000, "2 d")])
def test_in_a_narrow_column_durations_have_one_unit(seconds: float, text: str) -> None:
    assert briefly(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1048576.0 TiB")]
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_one_table_shows_the_processes_who_lives_in_each_and_what_it_takes() -> None:
    shown = lines(status(cause="it was killed by SIGKILL"), width=80)

    assert shown[shown.index("process     state  pid  restarts    memory      CPU  actors") :] == [
        "process     state  pid  restarts    memory      CPU  actors",
        "supervisor  ready    1         0         -        -",
        "store       ready    7         3  33.0 MiB  123.4 s  queue_store",
        "bridge:a:0  ready    7         3  33.0 MiB  123.4 s  forwarder, connection",
        "clients     ready    7         3  33.0 MiB  123.4 s  distributor, listener",
        "store it was killed by SIGKILL",
    ]


def test_an_actor_that_is_not_as_its_process_is_is_told_of() -> None:
    (row,) = [line.split() for line in lines(status(states={"clients": "starting", "distributor": "ready"})) if "clients" in line]
    assert row[-3:] == ["distributor", "ready,", "listener"]
    assert row[1] == "starting"


def test_the_tables_show_bridges_and_an_open_ledger() -> None:
    retained = {"messages": 17, "bytes": 3072}
    queue = {"accepted": 5, "depth": 1, "delivered": 3, "bytes": 2048, "oldest_age_s": 70.0, "retained": retained}
    queue |= {"waits_for_lanes": [1, 2], "refused": 12, "ledger_closes": False}
    queue["former_rules"] = [{"rule": "b/#", "destination": "x/{#}", "messages": 4}]
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"queues": {"bridge:a:0": queue}},
        "connection:a:0": {"link": {"state": "backoff"}},
    }
    text = "\n".join(lines(status(figures), wide=True))
    for wanted in (
        "a:0",
        "backoff",
        "2.0 KiB",
        "1 min",
        "OPEN",
        "a:0 17 messages, 3.0 KiB",
        "the change of lanes: a:0 for 1, 2",
        "ledger OPEN: a:0; see -o wide, and tell us",
        "refused for want of room: a:0 12",
        "former rules, whose messages still go where they said: a:0 b/# -> x/{#} (at most 4 messages)",
    ):
        assert wanted in text


def test_what_most_ask_for_fits_into_80_columns_and_says_why_a_bridge_waits() -> None:
    queue = {"accepted": 123_456_789, "depth": 1_234_567, "delivered": 122_222_222, "bytes": 5 << 30, "oldest_age_s": 90_000.0}
    link = {
        "state": "backoff",
        "reason": "connection refused",
        "fault": "nobody_listens",
        "since_s": 1.0,
        "attempts": 9,
        "next_attempt_s": 4.2,
        "error": "connection refused",
        "in_flight": 0,
    }
    figures: dict[str, dict[str, Any]] = {"queue_store": {"queues": {"bridge:a:0": queue}}, "connection:a:0": {"link": link}}

    shown = lines(status(figures, rates={"bridge:a:0": Rates(10.25, 1250.0)}, down_s={"connection:a:0": 61.0}), width=80)

    assert shown[0].startswith("node n  ready  pid 1")
    assert shown[2:6] == [
        "bridge  state      depth     size  full  oldest  in flight  in/s  out/s   drain",
        "a:0     backoff  1234567  5.0 GiB  50 %     1 d          0  10.2   1250  16 min",
        "a:0 down for 1 min 1 s, 9 attempts failed, next in 4.2 s: connection refused",
        "  -> check the port in remote.addresses, and that a broker listens there",
    ]
    assert all(len(line) <= 80 for line in shown)


def test_a_link_that_is_down_says_when_its_queue_is_full_and_how_long_it_then_takes() -> None:
    queue = {"accepted": 9, "depth": 2_500_000, "bytes": 1 << 30}
    link = {"state": "backoff", "reason": "x", "attempts": 1}
    figures: dict[str, dict[str, Any]] = {"queue_store": {"queues": {"bridge:a:0": queue}}, "connection:a:0": {"link": link}}

    shown = lines(status(figures, rates={"bridge:a:0": Rates(100.0, 0.0, 600.0)}), width=80)

    assert "full, as fast as it grows: a at about 1970-01-01 21:06:40Z, in 20 h 50 min" in shown
    assert "drained, at the best rate so far, in: a:0 1 h 23 min" in shown
    shown = lines(status(figures, rates={"bridge:a:0": Rates(0.1, 0.0, 600.0)}), width=80)
    assert not [line for line in shown if "as fast as it grows" in line], "not for years"


def test_dead_letters_and_drops_are_told_by_reason_and_what_operators_did_is_no_trouble() -> None:
    queue = {"accepted": 30, "delivered": 7, "dead_lettered": 8, "expired": 2, "dropped": {"overflow": 4, "purged": 9}}
    letters = {
        "held": 3,
        "reasons": {"remote_0x87": 2, "packet_too_large": 1},
        "replayed": 4,
        "purged": 1,
        "evicted": 0,
        "damaged": 0,
    }
    told = status({"queue_store": {"queues": {"bridge:a:0": queue}, "dead_letters": {"a": letters}}})

    shown = lines(told)

    assert "dead letters: a 3 (remote_0x87 2, packet_too_large 1); bascule queue peek CONFIG BRIDGE --dead shows them" in shown
    assert "dropped so far: a:0 overflow 4, expired 2" in shown
    assert "by operators: a:0 9 purged; a 4 dead letters replayed; a 1 dead letters purged" in shown
    after = status({"queue_store": {"queues": {"bridge:a:0": {"accepted": 9, "dropped": {"purged": 9}}}}})
    assert not any(line.startswith(("dropped", "dead")) for line in lines(after))


@pytest.mark.parametrize("width", [60, 80])
def test_on_a_narrow_terminal_no_sentence_is_cut_off(width: int) -> None:
    queue = {"accepted": 30, "depth": 21, "bytes": 1 << 20, "dropped": {"overflow": 4, "qos0_memory": 5}}
    link = {"state": "backoff", "reason": "10.20.30.40:8883: tls: unable to get local issuer certificate", "attempts": 12}
    link["fault"] = "certificate_authority"
    figures: dict[str, dict[str, Any]] = {"queue_store": {"queues": {"bridge:a:0": queue}}, "connection:a:0": {"link": link}}

    shown = " ".join(line.strip() for line in lines(status(figures, down_s={"connection:a:0": 10_000.0}), width=width))

    assert "down for 2 h 46 min, 12 attempts failed" in shown
    assert "give the authority that signed the remote's certificate as tls.ca_file" in shown
    assert "overflow 4, qos0_memory 5" in shown


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_cell_of_a_table_is_cut_off_and_what_is_left_out_is_named(width: int) -> None:
    queue = {"accepted": 123_456_789, "depth": 1_234_567, "delivered": 122_222_222, "bytes": 5 << 30, "oldest_age_s": 90_000.0}
    rates = {"bridge:a:0": Rates(10.25, 1250.0)}
    refused = {"plant/with/a/long/name/#": "0x87", "other/+/filter": "0x8f"}
    remote = {"filters": 3, "granted": 1, "received": 5, "duplicates": 6, "waiting": 7, "refused": refused}
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"queues": {"bridge:a:0": queue}},
        "connection:a:0": {"link": {"state": "connected"}, "remote_subscriptions": remote},
    }

    shown = lines(status(figures, rates=rates), width=width)

    assert all(len(line) <= width for line in shown)
    assert not [line for line in shown if "…" in line]
    (at,) = (place for place, line in enumerate(shown) if line.startswith("bridge  state"))
    table = shown[at : shown.index("", at)]
    assert table[1].split()[:3] == ["a:0", "connected", "1234567"]
    assert " ".join((table[0], *table[2:])).replace(",", "").replace("too narrow for:", "").split() == (
        ["bridge", "state", "depth", "size", "full", "oldest", "in", "flight", "in/s", "out/s", "drain"]
    )
    at = next(place for place, line in enumerate(shown) if line.startswith("from remote"))
    folded = "".join(line[shown[at].index("refused") :] for line in shown[at + 1 : at + 5])
    assert folded.replace(" ", "").startswith("plant/with/a/long/name/#(0x87),other/+/filter(0x8f)")


def test_a_full_queue_says_so_before_anything_is_refused() -> None:
    queue = {"accepted": 10_000_000, "depth": 10_000_000, "bytes": 1 << 30}

    shown = lines(status({"queue_store": {"queues": {"bridge:a:0": queue}}}, full_for_s=100.0), width=80)

    assert "100 %" in shown[3]
    at = next(number for number, line in enumerate(shown) if line.startswith("queue of a: full"))
    told = " ".join(shown[at : at + 5])
    assert told.startswith("queue of a: full since 1970-01-01 00:15:00Z, 10000000 of 10000000 messages:")
    assert "nothing acknowledged is lost" in told
    assert "raise limits.max_messages and reload: that applies at once" in told


@pytest.mark.parametrize("width", [60, 80])
def test_a_queue_that_is_nearly_full_says_when_it_will_be_and_says_so_once(width: int) -> None:
    figures = {"queue_store": {"queues": {"bridge:a:0": {"accepted": 9_000_000, "depth": 9_000_000, "bytes": 1 << 30}}}}

    shown = lines(status(figures, rates={"bridge:a:0": Rates(1000.0, 0.0, 600.0)}), width)

    told = " ".join(shown)
    assert "queue of a: 90 % full, 9000000 of 10000000 messages; full at about 1970-01-01 00:33:20Z, in 16 min 40 s; once" in told
    assert told.count("00:33:20Z") == 1
    assert all(len(line) <= width for line in shown)


def member(role: str, **figures: Any) -> dict[str, Any]:
    """The line of a member that is level and has just spoken."""
    plain = {"role": role, "behind": 0, "term": 3, "silent_s": 0.5, "address": "", "needs_base": False}
    return {**plain, **figures}


def test_a_node_that_stands_by_says_first_who_leads_and_how_far_it_is() -> None:
    figures = {"role": "standby", "member": "b", "stream": "site", "log": "ready", "error": "", "leader": "a", "term": 3}
    figures |= {"leader_address": "10.0.0.1:1883", "behind": 12, "silent_s": 0.5, "needs_base": "", "members": {}}

    shown = lines(status({"queue_store": {"replication": figures}}, lanes=0))

    assert shown[0].startswith("node n  stands by  pid 1")
    said = "cluster site: a leads at 10.0.0.1:1883; this node is 12 messages behind, last heard of a leader 0.5 s ago"
    assert shown[1:3] == [said, ""]
    assert shown[3].startswith("process"), "it has no bridges, and that means nothing"


def test_a_log_that_is_away_and_a_store_that_is_waited_for_are_shown() -> None:
    figures = {"role": "standby", "member": "b", "stream": "site", "log": "away", "error": "no servers", "leader": "", "term": 3}
    figures |= {"behind": 1, "silent_s": 7200.0, "needs_base": "the log does not reach back"}

    shown = lines(status({"queue_store": {"replication": figures}}, lanes=0))

    assert shown[1:4] == [
        "cluster site: nobody leads, as far as this node knows; this node is 1 message behind, last heard of a leader 2 h ago",
        "it begins with the leader's store, and waits for that: the log does not reach back",
        "log away: no servers; it is tried again",
    ]


def test_a_leader_says_its_term_and_who_follows() -> None:
    members = {"a": member("leader"), "b": member("standby"), "c": member("standby", behind=9, silent_s=90_000.0)}
    members["d"] = member("standby", needs_base=True)
    figures = {"role": "leader", "member": "a", "stream": "site", "log": "away", "error": "", "leader": "a", "term": 3}

    shown = lines(status({"queue_store": {"replication": figures | {"members": members}}}))

    assert shown[0].startswith("node n  ready  pid 1")
    assert shown[1] == (
        "cluster leads site, term 3; members: a (leader), b (level), c (9 behind, silent for 1 d), d (waits for the leader's store)"
    )
    assert shown[2] == "log away: it was not reached yet; nothing is acknowledged until it is back"
    assert not any(line.startswith("cluster") for line in lines(status())), "a node that is of none says nothing of it"


def test_who_asks_over_the_network_is_shown_and_what_was_refused() -> None:
    assert not any(line.startswith("control") for line in lines(status()))
    listens = control(
        endpoint="tcp://0.0.0.0:7000", connections=2, keys=3, refused={"too_many": 4, "key": 5}, problems=["x.key: none"]
    )
    assert lines(status() | {"control": listens}, width=80)[-2:] == [
        "control tcp://0.0.0.0:7000  2 connected  3 keys  refused: key 5, too many 4",
        "  x.key: none",
    ]
    taken = control(error="tcp://0.0.0.0:7000: Address already in use")
    assert lines(status() | {"control": taken}, width=80)[-2:] == [
        "control by file",
        "  tcp://0.0.0.0:7000: Address already in use",
    ]


def test_a_bridge_alone_is_told_with_all_that_is_known_of_it() -> None:
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"queues": {"bridge:a:0": {"accepted": 5, "depth": 5, "dropped": {"full": 2}}}},
        "connection:a:0": {"link": {"state": "connected", "address": "broker:1883"}},
    }

    shown = [line.split() for line in lines(status(figures), bridge="a")]

    assert shown[1][:3] == ["a:0", "connected", "5"], "first its line in the table of all"
    assert ["a:0", "connected"] in shown
    assert ["accepted", "5"] in shown
    assert ["dropped.full", "2"] in shown
    assert ["link.address", "broker:1883"] in shown
    assert not any(words[:1] == ["retained"] for words in shown), "what says nothing is left out"


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"state": "running", "disk_free_bytes": 4096}, None),
        ({"state": "disk_full", "error": "No space left", "disk_free_bytes": 4096}, "store disk_full  No space left  4.0 KiB free"),
        ({"state": "disk_low", "disk_free_bytes": 4096}, "store disk_low  4.0 KiB free"),
    ],
)
def test_a_disk_that_refuses_is_shown(figures: dict[str, Any], line: str | None) -> None:
    shown = lines(status({"queue_store": figures}, lanes=0))
    assert line in shown if line is not None else len([line for line in shown if line.startswith("store ")]) == 1


def test_what_is_kept_for_local_clients_is_shown_once_it_is_known() -> None:
    sessions = {"kept": 41, "connected": 3, "depth": 712, "bytes": 3 << 20, "dropped": 5}
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"sessions": {**sessions, "retained": {"messages": 88}}},
        "listener": {"clients": 9, "in_flight": 4, "dropped": {"queue_full": 15}, "pending_wills": 2},
    }

    heads, row = lines(status(figures), width=80)[-2:]
    assert heads.split() == ["local", "clients", "sessions", "queued", "size", "in", "flight", "dropped", "retained"]
    assert row.split() == ["9", "41", "712", "3.0", "MiB", "4", "20", "88"]
    heads, row = lines(status(figures), wide=True)[-2:]
    assert heads.endswith("sessions connected  Wills waiting")
    assert row.split()[-2:] == ["3", "2"]
    assert not any(line.startswith("local") for line in lines(status()))


def test_a_narrow_terminal_breaks_the_lines_of_messages_and_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    message = Message(
        queue="bridge:cloud:0",
        seq=1,
        state="waiting",
        topic="plant/1/temperature",
        qos=1,
        retain=False,
        size=4,
        age_s=1.0,
        rule="plant/#",
        destination="{#}",
        properties={},
        payload="a payload of some words",
    )

    print_messages([message], dead=False)

    shown = capsys.readouterr().out
    assert all(str(text) in shown for text in (message.queue, message.topic, message.payload)), shown


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only_and_never_on_standard_output(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command prints meanwhile goes where it would go."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen(terminal=terminal)
    monkeypatch.setattr("sys.stderr", screen)
    with progress("copied", in_bytes=True) as show:
        show(1 << 20, 4 << 20)
        sys.stdout.write("a line of the command\n")
        show(4 << 20, 4 << 20)
    assert capsys.readouterr().out == "a line of the command\n"
    assert ("copied" in screen.getvalue(), "4.0/4.0 MiB" in screen.getvalue()) == (terminal, terminal)


def test_a_row_that_does_not_fit_becomes_a_paragraph_of_that_width() -> None:
    titles, cells = ("bridge", "state", "depth", "last error"), ("cloud:0", "backoff", "17", "it was refused, " * 4)
    lines = paragraph(titles, cells, 30).split("\n")
    assert lines[0] == "cloud:0  state backoff"
    assert max(map(len, lines)) <= 30
    assert " ".join(" ".join(lines).split()) == " ".join(f"cloud:0 state backoff depth 17 last error {cells[3]}".split())
