"""What is measured of bridges: their queues, links and exchanges with remotes. Pure."""

from __future__ import annotations

from supervisor.metrics.metric import Metric, count, given

_LINK_STATES = ("connected", "connecting", "backoff", "paused")
_PROCESS_STATES = ("starting", "restarting", "stopping", "stopped", "damaged", "misconfigured")
_DROPPED = ("actor_restart", "damaged", "overflow", "purged", "qos0_memory", "restart")  # what queues drop for by themselves


def _gauge(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_bridge_{name}", "gauge", f"bridges[].{path}", text)


def _counter(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_bridge_{name}_total", "counter", f"bridges[].{path}", text)


_ROW = "bridges[]"

QUEUES = (
    _gauge("queue_messages", "depth", "Messages that wait."),
    _gauge("queue_bytes", "bytes", "Bytes of the messages that wait."),
    _gauge("queue_oldest_age_seconds", "oldest_age_s", "How long the message at the head has waited; absent while none waits."),
    _gauge("queue_full_ratio", "full", "How much of its limits the bridge's queue takes up, of 1: of messages or bytes."),
    _gauge("queue_drain_seconds", "drain_s", "How long what waits takes to leave at the rates of 10 s; absent while it grows."),
    _gauge("queue_drain_at_best_seconds", "drain_at_best_s", "The same at the best rate so far, also while the link is down."),
    _gauge("queue_full_in_seconds", "full_s", "How long until the bridge's queue is full; absent while it does not grow."),
    _gauge("queue_held_back_messages", "held_back", "Messages that wait for room with their publishers; beside the ledger."),
    _counter("accepted_messages", "accepted", "Messages that the queue has taken, ever."),
    _counter("delivered_messages", "delivered", "Messages that the remote has acknowledged, ever."),
    _counter("expired_messages", "expired", "Messages that became too old, ever."),
    Metric(
        "bascule_bridge_dropped_messages_total",
        "counter",
        "bridges[].dropped{reason}",
        "Messages dropped, ever, by reason.",
        known=_DROPPED,
        beside="accepted",
    ),
    _counter("dead_lettered_messages", "dead_lettered", "Messages that became dead letters, ever."),
    _counter("refused_messages", "refused", "Messages that the full queue refused for good; beside the ledger."),
    _counter("redelivered_messages", "redelivered", "Sendings beyond the first, ever."),
    _gauge("ledger_closes", "ledger_closes", "Whether accepted = delivered + waiting + expired + dropped + dead-lettered."),
    _gauge("in_flight_messages", "in_flight", "Messages sent and not settled."),
    _gauge("handed_out_messages", "tier2.messages", "Messages handed out by the store and not sent yet."),
    _gauge("handed_out_bytes", "tier2.bytes", "Bytes of those."),
    Metric(
        "bascule_bridge_end_to_end_seconds",
        "histogram",
        "bridges[].end_to_end_seconds",
        "How long what was delivered took, from its acceptance to the last answer of the remote.",
    ),
    _gauge("history_messages", "retained.messages", "Messages that have left and are kept by retention."),
    _gauge("history_bytes", "retained.bytes", "Bytes of those."),
    Metric("bascule_bridge_waits_for_lanes", "gauge", "bridges[].waits_for_lanes", "Lanes that have to send first.", read=count),
    Metric(
        "bascule_bridge_former_rules",
        "gauge",
        "bridges[].former_rules",
        "Rules that are gone or changed while their messages wait.",
        read=count,
    ),
    Metric("bascule_unserved_queue_messages", "gauge", "unserved[].depth", "Messages that wait for what is configured no more."),
    Metric("bascule_unserved_queue_bytes", "gauge", "unserved[].bytes", "Bytes of those."),
    Metric("bascule_unserved_queue_oldest_age_seconds", "gauge", "unserved[].oldest_age_s", "How long the oldest has waited."),
)

_OF_BRIDGE = ("bridge",)  # the dead letters of all its lanes

DEAD_LETTERS = (
    Metric("bascule_bridge_dead_letters", "gauge", "bridges[].dead_letters.held", "Dead letters that are held.", per=_OF_BRIDGE),
    Metric("bascule_bridge_dead_letters_bytes", "gauge", "bridges[].dead_letters.bytes", "Bytes of those.", per=_OF_BRIDGE),
    Metric(
        "bascule_bridge_dead_letters_by_reason",
        "gauge",
        "bridges[].dead_letters.reasons{reason}",
        "Dead letters that are held, by what they died of.",
        per=("bridge", "reason"),
    ),
    *(
        Metric(f"bascule_bridge_dead_letters_{key}_total", "counter", f"bridges[].dead_letters.{key}", text, per=_OF_BRIDGE)
        for key, text in (
            ("evicted", "Dead letters that made room for newer ones."),
            ("purged", "Dead letters that operators removed."),
            ("replayed", "Dead letters that operators put back into the queue."),
            ("damaged", "Dead letters that could not be read."),
        )
    ),
)

LINKS = (
    Metric(
        "bascule_bridge_state",
        "states",
        "bridges[].state",
        "1 for the state that the lane is in, 0 for the others.",
        known=(*_LINK_STATES, *_PROCESS_STATES),
    ),
    Metric(
        "bascule_bridge_reason_info",
        "info",
        _ROW,
        "Why the lane is in its state, and why the last connection or attempt failed; absent while it is connected.",
        words={"reason": "reason", "last_error": "last_error"},
    ),
    Metric("bascule_bridge_paused", "gauge", "bridges[].paused_since_ms", "Whether an operator has paused it.", read=given),
    _gauge("down_seconds", "down_s", "How long the link has been down; absent while it is up or paused."),
    _gauge("state_age_seconds", "since_s", "How long the lane has been in its state."),
    _gauge("next_attempt_seconds", "next_attempt_s", "How long until the next attempt to connect; absent where none is to come."),
    _counter("connections", "link.connections", "How often a connection to the remote came up."),
    _counter("connections_lost", "link.connections_lost", "How often one ended."),
    _counter("connection_attempts_failed", "link.attempts_failed", "How often none could be had."),
    _gauge("attempts_since_down", "attempts", "Attempts that failed since the link was up."),
    _gauge("failed_attempts_in_a_row", "link.attempt", "Attempts in a row that failed."),
    Metric(
        "bascule_bridge_on_other_address",
        "gauge",
        "bridges[].link.first_address",
        "Whether a later address than the first is in use.",
        read=given,
    ),
    Metric("bascule_bridge_suspects", "gauge", "bridges[].link.suspects", "Messages on which the remote closes.", read=count),
    _gauge("remote_session_expiry_seconds", "link.session_expiry_s", "How long the remote keeps the session, if too short."),
)

EXCHANGE = tuple(
    _counter(f"exchange_{key}", f"exchange.{key}", text)
    for key, text in (
        ("published", "PUBLISHes sent."),
        ("acknowledged", "Exchanges completed."),
        ("redelivered", "PUBLISHes sent with DUP."),
        ("qos_lowered", "Messages sent at a lower QoS, because the remote takes no more."),
        ("retain_stripped", "Messages sent without RETAIN, because the remote takes none."),
        ("expired", "Messages too old when they were to leave."),
        ("too_large", "Messages larger than the remote takes."),
        ("refused", "PUBLISHes that the remote refused by a reason code."),
        ("retried", "PUBLISHes sent again after that."),
        ("closed_on", "Messages given up because the remote closes on them."),
        ("sessions_lost", "How often the remote had forgotten the session."),
        ("assumed_delivered", "QoS 2 messages taken as delivered then."),
        ("republished", "QoS 2 messages sent anew then."),
        ("unexpected_acknowledgements", "Acknowledgements that came early, once more, late, or of another kind."),
        ("acknowledged_as_qos1", "QoS 2 messages that the remote acknowledged as if they had QoS 1."),
        ("released_unanswered", "QoS 2 messages taken as delivered because the remote closes on their PUBREL."),
        ("unexpected_publishes", "PUBLISHes of the remote that nobody asked for."),
    )
)

REMOTE_SUBSCRIPTIONS = (
    *(
        _counter(f"remote_{key}", f"remote_subscriptions.{key}", text)
        for key, text in (
            ("received", "Messages that came from the remote."),
            ("duplicates", "QoS 2 messages that came again and were taken once."),
            ("looped", "Messages from the remote that had crossed too many bridges."),
            ("unmatched", "Messages from the remote whose topic no rule has."),
            ("too_large", "Messages from the remote larger than the node takes."),
            ("expired", "Messages from the remote that were too old."),
            ("dropped", "Messages from the remote dropped for want of room."),
            ("skipped", "Messages from the remote left unanswered until a new connection."),
        )
    ),
    _gauge("remote_filters", "remote_subscriptions.filters", "Topic filters that are wanted at the remote."),
    _gauge("remote_filters_granted", "remote_subscriptions.granted", "Topic filters that the remote has granted."),
    Metric(
        "bascule_bridge_remote_filters_refused",
        "gauge",
        "bridges[].remote_subscriptions.refused",
        "Topic filters that the remote has refused.",
        read=count,
    ),
    _gauge("remote_waiting_messages", "remote_subscriptions.waiting", "Messages from the remote in memory until there is room."),
    _gauge("remote_held_back_messages", "remote_subscriptions.held_back", "Messages from the remote that a full queue refused."),
    _gauge(
        "remote_outstanding_batches",
        "remote_subscriptions.outstanding_batches",
        "Batches from it that are being committed.",
    ),
)

BRIDGES = (*QUEUES, *DEAD_LETTERS, *LINKS, *EXCHANGE, *REMOTE_SUBSCRIPTIONS)
