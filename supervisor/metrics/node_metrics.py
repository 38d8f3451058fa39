"""What is measured of the node itself, its processes, its interfaces and its snapshots. Pure."""

from __future__ import annotations

from supervisor.metrics.metric import Metric, given, seconds

_STATES = ("ready", "silent", "starting", "restarting", "stopping", "stopped", "damaged", "misconfigured")


def _gauge(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}", "gauge", path, text)


def _counter(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}_total", "counter", path, text)


NODE = (
    Metric(
        "bascule_build_info",
        "info",
        "",
        "Which node this is, of which version, and how it stores.",
        words={"node": "node", "version": "version", "mode": "store.mode"},
    ),
    Metric("bascule_start_time_seconds", "gauge", "supervisor.started_at_ms", "When the node began, as Unix time.", read=seconds),
    _gauge("ready", "ready", "Whether all its actors work."),
    _gauge("stop_left_seconds", "stop_left_s", "While it stops, how long that takes at most."),
    _gauge(
        "configuration_changed_on_disk", "configuration.changed_on_disk", "Whether the configuration file differs from what runs."
    ),
    _gauge("configuration_number", "configuration.number", "Which settings of this run hold: each reload adds one."),
)

PROCESSES = (
    Metric(
        "bascule_process_state",
        "states",
        "processes[].state",
        "1 for the state that the process is in, 0 for the others.",
        known=_STATES,
    ),
    Metric(
        "bascule_process_cause_info",
        "info",
        "processes[]",
        "Why the process's last life ended, or what keeps it from its work.",
        words={"cause": "last_cause"},
    ),
    _counter("process_restarts", "processes[].restarts", "How often the process was started again."),
    _counter("process_cpu_seconds", "processes[].cpu_s", "Processor time of the process, user and system, since it began."),
    _gauge("process_pss_bytes", "processes[].pss_bytes", "Its memory; pages that are shared are divided by those who share them."),
    _gauge("actor_heartbeat_age_seconds", "actors[].heartbeat_age_s", "How long ago the actor was heard of."),
    _counter("actor_frames_sent", "actors[].mailbox.frames_sent", "Frames that the actor has sent to other processes."),
    _counter("actor_frames_received", "actors[].mailbox.frames_received", "Frames that it got from other processes."),
    _counter("actor_turns", "actors[].mailbox.turns", "Turns of the actor's process."),
    _counter("supervisor_frames_sent", "supervisor.mailbox.frames_sent", "Frames that the supervisor has sent."),
    _counter("supervisor_frames_received", "supervisor.mailbox.frames_received", "Frames that the supervisor got."),
    _counter("supervisor_turns", "supervisor.mailbox.turns", "Turns of the supervisor."),
)

INTERFACES = (
    _gauge("http_open_connections", "http.connections", "HTTP connections now."),
    _counter("http_connections", "http.accepted", "HTTP connections so far."),
    Metric(
        "bascule_http_answers_total",
        "counter",
        "http.answers{status}",
        "HTTP answers by class of status.",
        known=("2xx", "3xx", "4xx", "5xx"),
    ),
    Metric(
        "bascule_http_refused_total",
        "counter",
        "http.refused{reason}",
        "HTTP connections and requests that were refused, by reason.",
        known=("malformed", "no_token", "role", "wrong_token"),
    ),
    _counter("otlp_exports", "telemetry.exports", "How often the collector took the metrics."),
    _counter("otlp_exports_failed", "telemetry.failures", "How often it did not."),
    _counter("otlp_points_refused", "telemetry.points_refused", "Values that the collector left out of what it took."),
    Metric(
        "bascule_otlp_export_timestamp_seconds",
        "gauge",
        "telemetry.last_export_ms",
        "When it took them last, as Unix time.",
        read=seconds,
    ),
    _gauge("otlp_failing_seconds", "telemetry.failing_s", "How long it has not taken them; absent while it does."),
    _counter("control_requests", "control.requests", "Requests to the control sockets."),
    _counter("control_refused", "control.refused{reason}", "Requests and connections to the control sockets that were refused."),
    _gauge("control_connections", "control.connections", "Control connections over the network."),
    _gauge("control_keys", "control.keys", "Keys that are let in over the network."),
)

SNAPSHOTS = (
    _gauge("snapshots", "snapshots.count", "Snapshots there are."),
    _gauge("snapshots_bytes", "snapshots.bytes", "Their size."),
    _gauge("snapshots_own_bytes", "snapshots.own_bytes", "What of it the store does not share."),
    _counter("snapshots_skipped", "snapshots.skipped", "Snapshots left out for want of disk space."),
    Metric("bascule_snapshot_failing", "gauge", "snapshots.failure", "Whether the last snapshot was not made.", read=given),
    Metric("bascule_snapshot_ship_failing", "gauge", "snapshots.ship_failure", "Whether the last was not copied.", read=given),
    Metric("bascule_snapshot_timestamp_seconds", "gauge", "snapshots.last.at_ms", "When the newest was made.", read=seconds),
    _gauge("snapshot_bytes", "snapshots.last.bytes", "The size of the newest."),
    _gauge("snapshot_messages", "snapshots.last.messages", "Messages in the newest."),
    _gauge("snapshot_duration_seconds", "snapshots.last.took_s", "How long the newest took."),
    Metric("bascule_snapshot_pause_seconds", "gauge", "snapshots.last.pause_ms", "How long the store stood still.", read=seconds),
    _gauge("snapshot_period_seconds", "snapshots.every_s", "How often one is to be made; 0 is never."),
    _gauge("snapshot_next_seconds", "snapshots.next_in_s", "How long until the next."),
)
