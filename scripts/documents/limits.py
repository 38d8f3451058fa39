"""Makes docs/design/limits.md, the table of everything that holds something: ``python limits.py [--check]``.

Defaults are read from the settings, fixed limits from the modules that hold them. ``--check`` names the page
if it is out of date, and a key that takes a count or a size and stands in no table here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from reference import MADE, default_of, table_of

from supervisor.config.setting_annotations import Setting, each_setting
from supervisor.units import write_size
from wire.setting_kinds import Number, Size

PAGE = Path(__file__).resolve().parents[2] / "docs" / "design" / "limits.md"
DISCARDS = "by `overflow`: refused, or dropped and counted"


class Limit(NamedTuple):
    """A row: what is held, for whom it counts, what follows beyond it, and who bears that."""

    holds: str
    share: str
    beyond: str
    pays: str


CLIENT, BRIDGE, NODE = "a client", "a bridge", "the node"
SETTINGS = {
    "listeners[].connections_max": Limit("clients of one listener", "a listener", "closed", "who comes last"),
    "clients.connections_max": Limit("clients", NODE, "closed", "who comes last"),
    "clients.connections_per_address": Limit("clients of one address", "an address (IPv6: a /64)", "closed", "that address"),
    "clients.connections_per_user": Limit("clients of one user", "a user", "CONNACK 0x97 (3.1.1: 3)", "that user"),
    "clients.half_open_max": Limit("connections without CONNECT", NODE, "the oldest is closed", "the address that has most"),
    "clients.packet_max_bytes": Limit("a packet that is being read", CLIENT, "DISCONNECT 0x95", "that client"),
    "clients.input_max_bytes": Limit("packets that are not complete", NODE, "closed with 0x97", "the client that holds most"),
    "clients.output_max_bytes": Limit("what a client has not read", CLIENT, "QoS 0 is dropped, the rest waits", "that client"),
    "clients.client_id_max_bytes": Limit("a client identifier", CLIENT, "CONNACK 0x85", "that client"),
    "clients.subscriptions_max": Limit("subscriptions", CLIENT, "SUBACK 0x97 (3.1.1: 0x80)", "that client"),
    "clients.receive_maximum": Limit("PUBLISHes that are not acknowledged", CLIENT, "DISCONNECT 0x93", "that client"),
    "clients.publish_messages_per_s": Limit("messages a second", CLIENT, "its socket waits", "that client"),
    "clients.publish_bytes_per_s": Limit("bytes a second", CLIENT, "its socket waits", "that client"),
    "clients.topic_levels_max": Limit("levels of a topic or filter", CLIENT, "0x8F for a filter, 0x90 for a topic", "that client"),
    "clients.topic_max_bytes": Limit("length of a topic or filter", CLIENT, "the same", "that client"),
    "clients.subscriptions_max_bytes": Limit("topic filters", CLIENT, "SUBACK 0x97 (3.1.1: 0x80)", "that client"),
    "clients.will_max_bytes": Limit("a Will", CLIENT, "CONNACK 0x97", "that client"),
    "sessions.sessions_max": Limit("sessions that last", NODE, "CONNACK 0x97", "who comes last"),
    "sessions.user_share_percent": Limit(
        "sessions that last, all topic filters, what is retained",
        "a user, an address without one, a bridge",
        "as beyond the whole",
        "that user",
    ),
    "sessions.filters_max_bytes": Limit("all topic filters", NODE, "SUBACK 0x97 (3.1.1: 0x80)", "who comes last"),
    "sessions.expiry_max": Limit("a session whose client is away", CLIENT, "it ends", "that client"),
    "sessions.queue_max_messages": Limit(
        "messages that wait for a client", CLIENT, "dropped by `overflow`, counted", "that client"
    ),
    "sessions.queue_max_bytes": Limit("their bytes", CLIENT, "the same", "that client"),
    "sessions.in_flight_max": Limit("messages on their way to a client", CLIENT, "the next ones wait", "that client"),
    "sessions.retained_max_messages": Limit("retained messages", NODE, "not retained, counted", "who comes last"),
    "sessions.retained_max_bytes": Limit("their bytes", NODE, "the same", "who comes last"),
    "sessions.wills_max_bytes": Limit("all Wills", NODE, "CONNACK 0x97", "who comes last"),
    "persistence.events.max": Limit("events", NODE, "the oldest go", NODE),
    "persistence.events.max_age": Limit("events", NODE, "the oldest go", NODE),
    "limits.max_messages": Limit("messages that wait for all bridges", NODE, DISCARDS, "publishers"),
    "limits.max_bytes": Limit("their bytes", NODE, DISCARDS, "publishers"),
    "limits.max_age": Limit("a message that waits", NODE, "expired, counted", "its bridge"),
    "limits.volatile_max_bytes": Limit("messages of QoS 0 that wait", NODE, "dropped, counted", "publishers of QoS 0"),
    "limits.min_free_disk": Limit("what everybody else keeps on that disk", NODE, "nothing is taken in", "publishers"),
    "bridges[].limits.max_messages": Limit("messages that wait", BRIDGE, DISCARDS, "publishers to that bridge"),
    "bridges[].limits.max_bytes": Limit("their bytes", BRIDGE, DISCARDS, "publishers to that bridge"),
    "bridges[].limits.max_age": Limit("a message that waits", BRIDGE, "expired, counted", "that bridge"),
    "bridges[].limits.volatile_max_bytes": Limit("messages of QoS 0 that wait", BRIDGE, "dropped, counted", "publishers of QoS 0"),
    "bridges[].classes[].limits.max_messages": Limit("messages that wait", "a class", DISCARDS, "publishers to that class"),
    "bridges[].classes[].limits.max_bytes": Limit("their bytes", "a class", DISCARDS, "publishers to that class"),
    "bridges[].classes[].limits.volatile_max_bytes": Limit(
        "messages of QoS 0 that wait", "a class", "dropped, counted", "publishers of QoS 0"
    ),
    "bridges[].lanes": Limit("connections, each with what follows", BRIDGE, "not configurable", "that bridge"),
    "bridges[].tier2.max_messages": Limit("messages handed out and not sent", "a lane", "the next ones stay on disk", "that lane"),
    "bridges[].tier2.max_bytes": Limit("their bytes", "a lane", "the same", "that lane"),
    "bridges[].remote.receive_maximum": Limit("messages in flight", "a lane", "the next ones wait", "that lane"),
    "bridges[].remote.qos2_maximum": Limit("messages of QoS 2 in flight", "a lane", "the next ones wait", "that lane"),
    "bridges[].thinning.max_topics": Limit(
        "topics that `only` and `keep_last` know", "a lane", "they cross, counted", "that bridge"
    ),
    "bridges[].thinning.max_bytes": Limit("messages that these hold", "a lane", "the same", "that bridge"),
    "rings.max_messages": Limit("messages of which copies may come", NODE, "the oldest are forgotten", NODE),
    "bridges[].loop_prevention.echo_max_messages": Limit(
        "messages whose echo is waited for", BRIDGE, "the oldest are forgotten", BRIDGE
    ),
    "bridges[].dead_letter.max_messages": Limit("dead letters", BRIDGE, "the oldest go, counted", "that bridge"),
    "bridges[].dead_letter.max_bytes": Limit("their bytes", BRIDGE, "the same", "that bridge"),
    "bridges[].dead_letter.max_age": Limit("a dead letter", BRIDGE, "it goes, counted", "that bridge"),
    "bridges[].retention_max_bytes": Limit("messages kept after they left", BRIDGE, "the oldest go", "analysis"),
    "history.max_bytes": Limit("the history of the node, minute by minute", NODE, "the oldest minutes go", NODE),
    "snapshots.keep": Limit("snapshots", NODE, "the oldest goes", "analysis"),
    "snapshots.max_bytes": Limit("what snapshots take of their own", NODE, "the oldest goes", "analysis"),
    "snapshots.keep_in_target": Limit("copies of snapshots", NODE, "the oldest goes", "analysis"),
    "access.login_limits.failures_max": Limit("wrong logins", "see security", "refused for a while", "who guesses"),
    "http.login_limits.failures_max": Limit("wrong logins", "see security", "refused for a while", "who guesses"),
    "http.connections_max": Limit("connections", NODE, "one of the address that has most gives way", "that address"),
    "http.calls_max": Limit("requests that ask the node", NODE, "503", "who comes last"),
    "http.request_max_bytes": Limit("the body of a request", "a request", "413", "that request"),
    "control.connections_max": Limit("connections of commands", NODE, "closed", "who comes last"),
    "replication.trim.max_bytes": Limit("the log of a cluster", "a cluster", "its oldest records go", "a member that is away"),
    "replication.trim.max_age": Limit("the log of a cluster", "a cluster", "its oldest records go", "a member that is away"),
}
FIXED = {
    "supervisor.history.periods:ROWS_MAX": Limit(
        "rows of an answer about the history, of lanes and periods", "a question", "its periods are longer", "who asks"
    ),
    "supervisor.history.periods:READ_MAX": Limit(
        "rows of minutes that are read for one", "a question", "the answer begins later", "who asks"
    ),
    "supervisor.history.node_history:ASKERS_MAX": Limit("questions that wait", NODE, "`busy`", "who comes last"),
    "wire.mqtt.decoder:FILTERS_MAX": Limit("filters of one SUBSCRIBE or UNSUBSCRIBE", "a packet", "DISCONNECT", "that client"),
    "wire.mqtt.properties:USER_PROPERTIES_MAX": Limit("user properties", "a packet", "DISCONNECT", "that client"),
    "wire.mqtt.aliases:ALIASES_MAX": Limit("topic aliases to a client", CLIENT, "topics are written out", CLIENT),
    "actors.access.client:REQUESTS_MAX": Limit("SUBSCRIBEs and UNSUBSCRIBEs under way", CLIENT, "it is not read", "that client"),
    "actors.access.websocket_layer:REQUEST_MAX_BYTES": Limit(
        "head of a WebSocket request", "a connection", "closed", "that client"
    ),
    "actors.access.websocket_layer:HELD_MAX_BYTES": Limit(
        "a WebSocket frame that is held", CLIENT, "passed on as it comes", "nobody"
    ),
    "actors.access.transport_layers:ANSWERS_MAX_BYTES": Limit("answers of TLS and WebSocket", CLIENT, "closed", "that client"),
    "actors.access.closing_connections:LINGERING_MAX": Limit("connections being closed", NODE, "the oldest is reset", NODE),
    "actors.access.closing_connections:OUTPUT_MAX_BYTES": Limit("their last words", "a connection", "reset", "that client"),
    "actors.access.login_limits:ENTRIES_MAX": Limit(
        "addresses, users and known logins", "each kind", "the oldest is forgotten", "who guesses"
    ),
    "wire.access.proxy_header:HEADER_MAX_BYTES": Limit("a PROXY header", "a connection", "closed", "that connection"),
    "actors.access.access_control:WAITING_MAX": Limit("logins that wait for their check", NODE, "refused", "who comes last"),
    "actors.broker.client_retained:PIECES_MAX": Limit("pieces of retained messages on their way", NODE, "the next wait", CLIENT),
    "storage.queue.hand_out_pieces:JOINED_BYTES_MAX": Limit("bytes of such a piece", CLIENT, "the next one follows", "nobody"),
    "storage.store.retained_messages:LOOKS_MAX": Limit("topics looked at for a piece", "a turn", "the next turn goes on", "nobody"),
    "wire.exchange.retained_delivery:REPLACED_TOPICS_MAX": Limit(
        "topics replaced meanwhile", CLIENT, "order may differ", "that client"
    ),
    "wire.frames.sending_link:BATCHES_OUTSTANDING_MAX": Limit(
        "batches that are not committed", "a sender", "the rest gathers", "nobody"
    ),
    "wire.frames.sending_link:BATCH_BYTES_MAX": Limit("bytes of a batch", "a sender", "another batch", "nobody"),
    "wire.routing.bridge_rules:CACHE_TOPICS_MAX": Limit("topics whose route is known", NODE, "worked out anew", "nobody"),
    "wire.routing.subscriptions:CACHE_TOPICS_MAX": Limit("topics whose subscribers are known", NODE, "worked out anew", "nobody"),
    "wire.mqtt.publish_batch_parser:_KNOWN_TOPICS_MAX": Limit("topics that were checked", "a process", "checked anew", "nobody"),
    "wire.routing.topic_counts:TOPICS_MAX": Limit("topics that are counted one by one", BRIDGE, "counted as others", "nobody"),
    "actors.process.curve_router:REQUEST_MAX_BYTES": Limit("a question over CURVE", "a caller", "closed", "that caller"),
    "supervisor.control.control_socket:PAYLOAD_MAX_BYTES": Limit("a question of a command", "a caller", "refused", "that caller"),
    "supervisor.tree.store_requests:ASKERS_MAX": Limit("questions under way", NODE, "refused", "who comes last"),
    "supervisor.tree.control_endpoints:WAITING_MAX": Limit("questions that wait for another", "a key", "refused", "that caller"),
    "supervisor.notify.outbox:WAITING_MAX": Limit("notices that wait", "a receiver", "the oldest go, counted", "that receiver"),
    "wire.routing.node_topics:EVENTS_MAX": Limit(
        "notices for topics that wait for the clients' process", NODE, "the oldest go", "who reads the topics"
    ),
    "supervisor.notify.notice_topics:OVER_MAX": Limit(
        "topics of troubles that are over, emptied again after whatever died", NODE, "the oldest are forgotten", NODE
    ),
    "supervisor.http.node_calls:WAITING_MAX": Limit("requests that wait for another", "a token", "503", "that caller"),
    "supervisor.http.request_head:HEAD_MAX_BYTES": Limit(
        "head of an HTTP request", "a connection", "refused, closed", "that caller"
    ),
    "supervisor.http.connection:REQUESTS_MAX": Limit(
        "requests of one connection", "a connection", "closed in order", "that caller"
    ),
    "storage.store.event_log:WAITING_MAX": Limit("events that are not written", NODE, "dropped, counted", NODE),
    "storage.engine.engine:WAL_MAX_BYTES": Limit("RocksDB's log", NODE, "tables are written", "nobody"),
    "storage.queue.queue_damage:QUARANTINE_MAX_BYTES": Limit("damaged rows kept aside", NODE, "counted only", NODE),
}
TEXT = """# Limits

## Claim

Everything that holds something for somebody has a limit, and no request costs more than in proportion to its bytes, or
more than its share. This page lists what is held, for whom the limit counts, what follows beyond it, and who bears that.
[P5](p5-limits.md) says how queues keep theirs.

## Settings

[Configuration](../reference/configuration.md) explains each key.

"""
PACKETS = """
## What a packet costs

`tests/hostile/test_packet_costs.py` sends each kind of packet that a client or a remote may send, with nothing and with
each property at its longest, and counts.

| | at most | beside it |
|---|---|---|
| written for a byte | 4 bytes: log, rows, and RocksDB's files | 600 bytes a packet: a row with its commit, or a line of the log |
| held for a byte | 2 bytes | 32 KiB a client that stays, 40 MiB of buffers where messages pass |
| done for a byte | 20 lines of Python to read it (`tests/hostile/test_packet_work.py`) | 200 lines a packet; a match: its levels |

A question of an operator is bounded by the length of its texts (`tests/hostile/test_questions.py`), an answer by the rows
of a page.
"""


def _keys() -> Iterator[tuple[str, Setting]]:
    """Each key that takes a count or a size which is a bound, and others that stand in ``SETTINGS``."""
    for key, one in each_setting():
        if key in SETTINGS or (isinstance(one.amount, Size | Number) and one.amount.bound):
            yield key, one


def _fixed(place: str) -> str:
    module, name = place.split(":")
    value = getattr(import_module(module), name)
    return write_size(value) if "BYTES" in name else f"{value:,}"


def page() -> str:
    """The whole page."""
    fields = dict(_keys())
    settings = [(row.holds, f"`{key}`", default_of(fields[key]), row.share, row.beyond, row.pays) for key, row in SETTINGS.items()]
    fixed = [(row.holds, _fixed(place), row.share, row.beyond, row.pays) for place, row in FIXED.items()]
    return (
        TEXT.replace("\n", f"\n{MADE}", 1)
        + table_of(("what is held", "key", "default", "counts for", "beyond it", "who pays"), settings)
        + "\n## Fixed\n\n"
        + table_of(("what is held", "at most", "counts for", "beyond it", "who pays"), fixed)
        + PACKETS
    )


def main(argv: list[str]) -> int:
    """Write the page, or compare it; the exit status."""
    missing = [key for key, _ in _keys() if key not in SETTINGS]
    for key in missing:
        print(f"scripts/documents/limits.py: {key} takes a count or a size: say what, or that it is no bound")
    if argv == ["--check"]:
        if stale := not PAGE.exists() or PAGE.read_text() != page():
            print("docs/design/limits.md is out of date; run: scripts/docs")
        return int(stale or bool(missing))
    PAGE.write_text(page())
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
