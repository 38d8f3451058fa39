"""The status of a node: the tree that all views of it read."""

from __future__ import annotations

from typing import ClassVar

from wire.figure import FigureMetric, count, counter, figure, figures, gauge, given, info, part, states
from wire.status.bridges import BridgeLane, Unserved
from wire.status.client_figures import DistributorFigures, ListenerFigures
from wire.status.replication_figures import ReplicationFigures
from wire.status.states import ChildState
from wire.status.store import StoreFigures

_PROCESS_STATES = tuple(state for state in ChildState if state is not ChildState.NEW)


# --- processes ---


@figures
class ProcessRow:
    """A process of the node."""

    LABELS: ClassVar = {"process": "name"}
    METRICS: ClassVar[tuple[FigureMetric, ...]] = (
        info("process_cause", "Why the process's last life ended, or what keeps it from its work.", cause="last_cause"),
    )

    name: str = figure(
        "`supervisor`, `template`, `store`, `clients`, `bridge:NAME:LANE`, `http`, `telemetry`, `notify`; `site`, where several "
        "share one (`supervision.placement: together`), and `template` while it is needed."
    )
    pid: int | None = figure("Its number; absent while it does not run.")
    actors: tuple[str, ...] = figure("The names of its actors.")
    state: str = figure(
        "`starting`, `ready`, `silent` (ready, and not heard for two heartbeats and 3 s), `restarting`, `stopping`, `stopped`, "
        "`damaged`, `misconfigured`.",
        states("process_state", _PROCESS_STATES),
    )
    pss_bytes: int | None = figure(
        "Its memory, at most 10 s ago; pages that are shared are divided by those who share them.", gauge("process_pss_bytes")
    )
    cpu_s: float | None = figure("Processor time of the process, user and system, since it began.", counter("process_cpu_seconds"))
    restarts: int = figure("How often the process was started again.", counter("process_restarts"))
    last_cause: str = figure("Why its last life ended, or what keeps it from its work, in words.")


@figures
class ActorMailbox:
    """Frames between processes."""

    frames_sent: int = figure("Frames that the actor's process has sent to other processes.", counter("actor_frames_sent"))
    frames_received: int = figure("Frames that it got from other processes.", counter("actor_frames_received"))
    turns: int = figure("Turns of the actor's process.", counter("actor_turns"))


@figures
class ActorRow:
    """An actor."""

    LABELS: ClassVar = {"actor": "name"}

    name: str = figure("Its name.")
    pid: int | None = figure("The number of its process; absent while that does not run.")
    state: str = figure("As of processes.")
    restarts: int = figure("As of its process.")
    heartbeat_age_s: float | None = figure("How long ago the actor was heard of.", gauge("actor_heartbeat_age_seconds"))
    last_cause: str = figure("As of its process.")
    mailbox: ActorMailbox | None = part("Frames between processes.", default=None)


@figures
class SupervisorMailbox:
    """Frames between the supervisor and the other processes."""

    frames_sent: int = figure("Frames that the supervisor has sent.", counter("supervisor_frames_sent"))
    frames_received: int = figure("Frames that the supervisor got.", counter("supervisor_frames_received"))
    turns: int = figure("Turns of the supervisor.", counter("supervisor_turns"))


@figures
class SupervisorFigures:
    """The supervisor's process."""

    pid: int = figure("Its number.")
    started_at_ms: int | None = figure("Start of the node, as Unix time.", gauge("start_time_seconds"))
    uptime_s: float = figure("For how long it has run.")
    mailbox: SupervisorMailbox | None = part("Frames between it and the other processes.", default=None)


# --- interfaces ---


@figures
class HttpFigures:
    """The HTTP interface; empty where the configuration has none."""

    error: str = figure("Why it cannot listen; empty if it can.", default="")
    bind: str = figure("Its address.")
    tls: bool = figure("Whether it speaks TLS.")
    connections: int = figure("HTTP connections now.", gauge("http_open_connections"))
    accepted: int = figure("HTTP connections so far.", counter("http_connections"))
    answers: dict[str, int] = figure(
        "HTTP answers by class of status.", counter("http_answers", by="status", known=("2xx", "3xx", "4xx", "5xx"))
    )
    refused: dict[str, int] = figure(
        "HTTP connections and requests that were refused, by reason.",
        counter("http_refused", by="reason", known=("malformed", "no_token", "role", "wrong_token")),
    )


@figures
class TelemetryFigures:
    """The sending of metrics; empty where the configuration has none."""

    endpoint: str = figure("The collector.")
    exports: int = figure("How often the collector took the metrics, since the process began.", counter("otlp_exports"))
    failures: int = figure("How often it did not.", counter("otlp_exports_failed"))
    points_refused: int = figure("Values that the collector left out of what it took.", counter("otlp_points_refused"))
    last_export_ms: int | None = figure("Time at which it last took them, as Unix time.", gauge("otlp_export_timestamp_seconds"))
    failing_s: float | None = figure("How long it has not taken them; absent while it does.", gauge("otlp_failing_seconds"))
    error: str = figure("Why it did not take the last ones, or what it said of them; else empty.")
    fault: str = figure("Why it does not take them, in a word; empty while it does.", default="")


@figures
class NotifyFigures:
    """Notices of troubles; empty where the configuration has none."""

    standing: tuple[str, ...] = figure("Troubles that were told and last, in words.", count("notices_standing"))
    sent: int = figure("Notices that a receiver has taken, since the process began.", counter("notices_sent"))
    failed: int = figure("Attempts that failed.", counter("notices_failed"))
    given_up: int = figure("Notices that no receiver will have: too old, or one too many for it.", counter("notices_given_up"))
    waiting: int = figure("Notices that wait for their receiver.", gauge("notices_waiting"))
    errors: dict[str, str] = figure("Receivers that did not take the last notice, as `RULE:KIND`, and why.", default_factory=dict)
    error: str = figure("Why no record of them can be written; else empty.", default="")


@figures
class HistoryFigures:
    """The history of the node; empty where none is kept."""

    kept_since_ms: int | None = figure(
        "The first minute on record, as Unix time; absent where there is none yet.", gauge("history_start_time_seconds")
    )
    bytes: int = figure("Bytes on the disk.", gauge("history_bytes"))
    max_bytes: int = figure("The most that they may be: `history.max_bytes`.")
    lost: int = figure("Minutes that could not be put on record, since the process began.", counter("history_lost"))
    error: str = figure("Why the last one could not; else empty.")
    damage: str = figure("The file that was found damaged and set aside, and why; else empty.")


@figures
class ControlFigures:
    """Clients of the control interface."""

    requests: int = figure("Requests to the control sockets, by file and network.", counter("control_requests"))
    refused: dict[str, int] = figure(
        "Requests and connections to the control sockets that were refused: `malformed`: requests that are none; `role`: not for "
        "the role of the key, or whose key was taken off the list; `key`: connections that showed an unknown key; `handshake`: "
        "that did not speak as they should, or not in time; `too_many`: beyond `connections_max`.",
        counter("control_refused", by="reason"),
    )
    endpoint: str = figure("The address on the network.")
    error: str = figure("Why that cannot be bound.")
    public_key: str = figure("The node's own, if it listens on the network.")
    connections: int = figure("Control connections over the network.", gauge("control_connections"))
    keys: int = figure("Keys that are let in over the network.", gauge("control_keys"))
    problems: tuple[str, ...] = figure("Files in the folder of keys that are none.")


@figures
class ConfigurationFigures:
    """The file that the node goes by."""

    file: str = figure("The file, which a reload reads again.")
    read_at: str = figure("Time at which it was last read and applied.")
    changed_on_disk: bool = figure(
        "Whether it, or a file that it includes or names, is not what was read; those that the node reads again by itself are not "
        "among them.",
        gauge("configuration_changed_on_disk"),
    )
    changed_files: tuple[str, ...] = figure("Which of them.")
    number: int = figure(
        "Which settings of this run hold: 1 at the start, and each reload adds one.", gauge("configuration_number")
    )
    pending: tuple[str, ...] = figure("The processes that do not go by them yet.")


# --- snapshots ---


@figures
class SnapshotFigures:
    """A snapshot."""

    id: str = figure("Its name.")
    path: str = figure("Its folder.")
    at_ms: int = figure("Time at which the newest was made.", gauge("snapshot_timestamp_seconds"))
    bytes: int = figure("The size of the newest.", gauge("snapshot_bytes"))
    messages: int = figure("Messages in the newest.", gauge("snapshot_messages"))
    took_s: float | None = figure("How long the newest took.", gauge("snapshot_duration_seconds"))
    pause_ms: float | None = figure("How long the store stood still.", gauge("snapshot_pause_seconds"))


@figures
class SnapshotFailure:
    """Why a snapshot was not made, or not copied."""

    at_ms: int = figure("Its time.")
    kind: str = figure("Why, in a word.", default="")
    message: str = figure("Why, in words.")


@figures
class ShippedSnapshot:
    """A snapshot that was copied."""

    id: str = figure("Its name.")
    at_ms: int = figure("Time at which it was made.")
    copied_bytes: int = figure("Bytes that were copied.")
    kept_bytes: int = figure("Bytes that were there already, with an earlier one.")


@figures
class SnapshotsFigures:
    """Snapshots of the store."""

    count: int = figure("Snapshots there are.", gauge("snapshots"))
    bytes: int = figure("Their size.", gauge("snapshots_bytes"))
    own_bytes: int = figure("The part of it that the store does not share.", gauge("snapshots_own_bytes"))
    making: str | None = figure("How far the one is that is being made.")
    last: SnapshotFigures | None = figure("The newest.")
    failure: SnapshotFailure | None = figure(
        "Why the last one was not made.", given("snapshot_failing", "Whether the last snapshot was not made.")
    )
    skipped: int = figure("Snapshots left out for want of disk space.", counter("snapshots_skipped"))
    every_s: float = figure("How often one is to be made; 0 is never.", gauge("snapshot_period_seconds"))
    next_in_s: float | None = figure("How long until the next.", gauge("snapshot_next_seconds"))
    to: str | None = figure("The folder for copies.")
    shipped: ShippedSnapshot | None = figure("The last one that was copied.")
    ship_failure: SnapshotFailure | None = figure(
        "Why the last one was not copied.", given("snapshot_ship_failing", "Whether the last was not copied.")
    )


# --- the node ---


@figures
class Status:
    """How a node is."""

    METRICS: ClassVar[tuple[FigureMetric, ...]] = (
        info(
            "build", "Which node this is, of which version, and how it stores.", node="node", version="version", mode="store.mode"
        ),
    )

    node: str = figure("Its name.")
    version: str = figure("The version of Bascule that it runs.")
    ready: bool = figure("Whether all its actors work; those of `http`, `telemetry` and `notify` do not count.", gauge("ready"))
    stop_left_s: float | None = figure("While it stops, how long that takes at most.", gauge("stop_left_seconds"), default=None)
    supervisor: SupervisorFigures = figure("The supervisor's process.")
    processes: tuple[ProcessRow, ...] = figure("The processes.", default=())
    actors: tuple[ActorRow, ...] = figure("The actors.", default=())
    bridges: tuple[BridgeLane, ...] = figure("The lanes of all bridges.", default=())
    unserved: tuple[Unserved, ...] = figure("Queues of bridges and lanes that are not configured any more.", default=())
    store: StoreFigures | None = part("The process that owns the disk.", default=None)
    replication: ReplicationFigures | None = part("The cluster of a replicated node.", default=None)
    listener: ListenerFigures | None = part("Local clients.", default=None)
    distributor: DistributorFigures | None = part("Routing.", default=None)
    http: HttpFigures | None = part("The HTTP interface.", default=None)
    telemetry: TelemetryFigures | None = part("The sending of metrics.", default=None)
    notify: NotifyFigures | None = part("Notices of troubles.", default=None)
    history: HistoryFigures | None = part("The history of the node.", default=None)
    snapshots: SnapshotsFigures | None = part("Snapshots of the store.", default=None)
    control: ControlFigures | None = part("Clients of the control interface.", default=None)
    configuration: ConfigurationFigures | None = part("The file that it goes by.", default=None)
