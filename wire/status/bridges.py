"""The figures of bridges: of each lane its queue, its link, and its exchange with the remote."""

from __future__ import annotations

from typing import ClassVar

from wire.figure import FigureMetric, count, counter, counters, figure, figures, gauge, given, histogram, info, part, states
from wire.frames.names import LaneLabel
from wire.status.histogram import HistogramFigures
from wire.status.loss_reasons import OF_QUEUES
from wire.status.states import ChildState, LinkState, WindowReason

_LANE_STATES = (*LinkState, *(state for state in ChildState if state not in ("new", "ready", "silent")))


# --- queues, as the store counts them ---


@figures
class RetainedHistory:
    """Messages that have left and that ``retention`` keeps."""

    messages: int = figure("Messages that have left and are kept by retention.", gauge("bridge_history_messages"))
    bytes: int = figure("Bytes of those.", gauge("bridge_history_bytes"))


@figures
class FormerRule:
    """A rule that is gone or changed while its messages wait."""

    rule: str = figure("Its name.")
    destination: str = figure("The destination of the messages that it took.")
    messages: int = figure("At most so many of the messages that wait are its.")


@figures
class QueueFigures:
    """The ledger of a queue: `accepted = delivered + depth + expired + dropped + dead_lettered`."""

    depth: int | None = figure("Messages that wait.", gauge("bridge_queue_messages"), default=None)
    bytes: int | None = figure("Bytes of the messages that wait.", gauge("bridge_queue_bytes"), default=None)
    held: int | None = figure(
        "Those of `depth` for which a newer one may stand soon: by `only` until their period ends, by `keep_last` until the link"
        " is there.",
        gauge("bridge_held_messages"),
        default=None,
    )
    untracked: int | None = figure(
        "Messages that `only` and `keep_last` let cross as they came, since the store began, for want of memory (`thinning`).",
        counter("bridge_untracked_messages"),
        default=None,
    )
    oldest_age_s: float | None = figure(
        "How long the message at the head has waited; absent while none waits.",
        gauge("bridge_queue_oldest_age_seconds"),
        default=None,
    )
    accepted: int | None = figure("Messages that the queue has taken, ever.", counter("bridge_accepted_messages"), default=None)
    delivered: int | None = figure(
        "Messages that the remote has acknowledged, ever.", counter("bridge_delivered_messages"), default=None
    )
    expired: int | None = figure("Messages that became too old, ever.", counter("bridge_expired_messages"), default=None)
    dropped: dict[str, int] = figure(
        "Messages dropped, ever, by reason; `purged` is what operators removed, `unchanged`, `one_per` and `superseded` what rules"
        " left out.",
        counter("bridge_dropped_messages", by="reason", known=OF_QUEUES, beside="accepted"),
        default_factory=dict,
    )
    dead_lettered: int | None = figure(
        "Messages that became dead letters, ever.", counter("bridge_dead_lettered_messages"), default=None
    )
    redelivered: int | None = figure("Sendings beyond the first, ever.", counter("bridge_redelivered_messages"), default=None)
    refused: int | None = figure(
        "Messages that the full queue refused for good; beside the ledger.", counter("bridge_refused_messages"), default=None
    )
    raised: int | None = figure(
        "Those of `accepted` that came with less than `min_qos` of their rule, ever.",
        counter("bridge_raised_messages"),
        default=None,
    )
    resent: int | None = figure(
        "Those of `accepted` that operators put there, ever: sent again from a history, or imported.",
        counter("bridge_resent_messages"),
        default=None,
    )
    from_retained: int | None = figure(
        "Those of `accepted` that were retained before, and that `retained` of a rule has brought, ever.",
        counter("bridge_from_retained_messages"),
        default=None,
    )
    ledger_closes: bool | None = figure("Whether the ledger adds up.", gauge("bridge_ledger_closes"), default=None)
    end_to_end_seconds: HistogramFigures | None = figure(
        "How long what was delivered took, from its acceptance to the last answer of the remote; of QoS 0, until it was passed on.",
        histogram("bridge_end_to_end_seconds"),
        default=None,
    )
    waits_for_lanes: tuple[int, ...] = figure(
        "Lanes that have to send first what came before `lanes` was changed.", count("bridge_waits_for_lanes"), default=()
    )
    backlog: bool | None = figure(
        "Whether a backlog is in it, so that what is accepted anew leaves by the lane `live` beside it.",
        gauge("bridge_backlog"),
        default=None,
    )
    former_rules: tuple[FormerRule, ...] = figure(
        "Rules that are gone or changed while their messages wait.", count("bridge_former_rules"), default=()
    )
    remote_filters: int = figure("Filters that the lane has subscribed to at its remote, and not given up.", default=0)
    retained: RetainedHistory | None = part("Messages that have left and are kept.", default=None)


@figures
class DeadLetterFigures:
    """The dead letters of all lanes of the bridge."""

    held: int = figure("Dead letters that are held.", gauge("bridge_dead_letters"))
    bytes: int = figure("Bytes of those.", gauge("bridge_dead_letters_bytes"))
    reasons: dict[str, int] = figure(
        "Dead letters that are held, by what they died of.", gauge("bridge_dead_letters_by_reason", by="reason")
    )
    evicted: int = figure("Dead letters that made room for newer ones.", counter("bridge_dead_letters_evicted"))
    purged: int = figure("Dead letters that operators removed.", counter("bridge_dead_letters_purged"))
    replayed: int = figure("Dead letters that operators put back into the queue.", counter("bridge_dead_letters_replayed"))
    damaged: int = figure("Dead letters that could not be read.", counter("bridge_dead_letters_damaged"))


@figures
class Unserved:
    """A queue of a bridge or a lane that is not configured any more: it stays until that is again."""

    LABELS: ClassVar = {"queue": "queue"}

    queue: str = figure("Which queue.")
    depth: int = figure("Messages that wait for what is configured no more.", gauge("unserved_queue_messages"))
    bytes: int | None = figure("Bytes of those.", gauge("unserved_queue_bytes"))
    oldest_age_s: float | None = figure("How long the oldest has waited.", gauge("unserved_queue_oldest_age_seconds"))


# --- links, as a Connection tells of them ---


@figures
class FirstAddress:
    """The first address, while a later one is used."""

    address: str = figure("The first one.")
    returning: bool = figure("Whether the link goes back there once all is acknowledged.")
    next_probe_s: float | None = figure("How long until it is probed again.")
    error: str = figure("Why the last probe failed.")


@figures
class Suspect:
    """A message on which the remote closes the connection."""

    seq: int = figure("Its sequence in the queue.")
    topic: str = figure("Its topic.")
    bytes: int = figure("Its size as a PUBLISH.")
    closed: int = figure("How often the remote has closed on it.")


@figures
class Lack:
    """Limits of the remote."""

    what: str = figure("Its kind.")
    key: str = figure("The key of the configuration that says it for good.")
    learnt: bool = figure("Whether it was seen, and not said by the remote.")


@figures
class LinkFigures:
    """The link of a lane to its remote."""

    state: str = figure("In which state it is: connecting, connected, backoff or paused.")
    reason: str = figure("Why, in words.")
    since: str = figure("Since when, in UTC.")
    since_s: float = figure("For how long.")
    down_s: float | None = figure("For how long it has been down, in this life of its process.")
    attempts: int = figure("How many attempts have failed since, in this life of its process.")
    attempt: int = figure("Attempts in a row that failed.", gauge("bridge_failed_attempts_in_a_row"))
    retry_in_s: float = figure("The time until the next.")
    next_attempt_s: float | None = figure("The time until the next, if one is to come by itself.")
    error: str = figure("Why the last failed, in words.")
    fault: str = figure("Why the last failed, in a word, for programs; empty once one has succeeded.")
    connections: int = figure("How often a connection to the remote came up.", counter("bridge_connections"))
    connections_lost: int = figure("How often one ended.", counter("bridge_connections_lost"))
    attempts_failed: int = figure("How often none could be had.", counter("bridge_connection_attempts_failed"))
    address: str = figure("The remote address in use; the one that is tried first while there is no connection.")
    protocol: int = figure("The level of MQTT that is spoken: 5, or 4 for 3.1.1.")
    note: str = figure("Further facts for the operator, in words.")
    note_fault: str = figure("That in a word, for programs.")
    first_address: FirstAddress | None = part(
        "The first address, while a later one is used.",
        given("bridge_on_other_address", "Whether a later address than the first is in use."),
    )
    session_expiry_s: int | None = figure(
        "How long the remote keeps the session, if too short.", gauge("bridge_remote_session_expiry_seconds")
    )
    in_flight: int = figure("Messages sent and not settled.")
    qos2_window: int = figure("How many QoS 2 messages may be in flight now.", gauge("bridge_qos2_window"))
    qos2_window_by: str = figure(
        "Why no more: `first` (more were not needed yet), `stated` (the remote says so), `unknown` (it speaks MQTT 3.1.1 and could "
        "not be asked) or `configured`.",
        states("bridge_qos2_window_by", tuple(WindowReason), by="reason"),
    )
    suspects: tuple[Suspect, ...] = figure("Messages on which the remote closes the connection.", count("bridge_suspects"))
    lacks: tuple[Lack, ...] = figure("Limits of the remote.")
    credential_ends_in_s: float | None = figure(
        "How long the password or token of the connection holds still; absent where it does not say so.",
        gauge("bridge_credential_ends_in_seconds"),
    )
    certificate_ends_in_s: float | None = figure(
        "How long the bridge's own certificate is valid still; absent without one.", gauge("bridge_certificate_ends_in_seconds")
    )


@counters
class ExchangeFigures:
    """Counts of the exchange of a lane with its remote, since the process began."""

    published: int = figure("PUBLISHes sent.", counter("bridge_exchange_published"), default=0)
    acknowledged: int = figure("Exchanges completed.", counter("bridge_exchange_acknowledged"), default=0)
    redelivered: int = figure("PUBLISHes sent with DUP.", counter("bridge_exchange_redelivered"), default=0)
    qos_lowered: int = figure(
        "Messages sent at a lower QoS, because the remote takes no more.", counter("bridge_exchange_qos_lowered"), default=0
    )
    retain_stripped: int = figure(
        "Messages sent without RETAIN, because the remote takes none.", counter("bridge_exchange_retain_stripped"), default=0
    )
    expired: int = figure("Messages too old when they were to leave.", counter("bridge_exchange_expired"), default=0)
    too_large: int = figure("Messages larger than the remote takes.", counter("bridge_exchange_too_large"), default=0)
    refused: int = figure("PUBLISHes that the remote refused by a reason code.", counter("bridge_exchange_refused"), default=0)
    retried: int = figure("PUBLISHes sent again after that.", counter("bridge_exchange_retried"), default=0)
    closed_on: int = figure("Messages given up because the remote closes on them.", counter("bridge_exchange_closed_on"), default=0)
    sessions_lost: int = figure(
        "How often the remote had forgotten the session.", counter("bridge_exchange_sessions_lost"), default=0
    )
    assumed_delivered: int = figure(
        "QoS 2 messages taken as delivered then.", counter("bridge_exchange_assumed_delivered"), default=0
    )
    republished: int = figure("QoS 2 messages sent anew then.", counter("bridge_exchange_republished"), default=0)
    unexpected_acknowledgements: int = figure(
        "Acknowledgements that came early, once more, late, or of another kind.",
        counter("bridge_exchange_unexpected_acknowledgements"),
        default=0,
    )
    acknowledged_as_qos1: int = figure(
        "QoS 2 messages that the remote acknowledged as if they had QoS 1; what follows leaves at QoS 1.",
        counter("bridge_exchange_acknowledged_as_qos1"),
        default=0,
    )
    released_unanswered: int = figure(
        "QoS 2 messages taken as delivered because the remote closes on their PUBREL.",
        counter("bridge_exchange_released_unanswered"),
        default=0,
    )
    rate_lowered: int = figure(
        "How often `rate` was halved, because the remote said that it is too much.",
        counter("bridge_exchange_rate_lowered"),
        default=0,
    )
    unexpected_publishes: int = figure(
        "PUBLISHes of the remote that nobody asked for.", counter("bridge_exchange_unexpected_publishes"), default=0
    )


@figures
class RemoteSubscriptionFigures:
    """Messages from the remote; empty without remote subscriptions."""

    filters: int = figure("Topic filters that are wanted at the remote.", gauge("bridge_remote_filters"))
    granted: int = figure("Topic filters that the remote has granted.", gauge("bridge_remote_filters_granted"))
    refused: dict[str, str] = figure(
        "Topic filters that the remote has refused, with their reason codes.", count("bridge_remote_filters_refused")
    )
    received: int = figure("Messages that came from the remote.", counter("bridge_remote_received"))
    duplicates: int = figure("QoS 2 messages that came again and were taken once.", counter("bridge_remote_duplicates"))
    looped: int = figure("Messages from the remote that had crossed too many bridges.", counter("bridge_remote_looped"))
    echoes: int = figure(
        "Messages of this bridge that its remote sent back, and that were left out.", counter("bridge_remote_echoes")
    )
    unmatched: int = figure("Messages from the remote whose topic no rule has.", counter("bridge_remote_unmatched"))
    too_large: int = figure("Messages from the remote larger than the node takes.", counter("bridge_remote_too_large"))
    dropped: int = figure("Messages from the remote dropped for want of room.", counter("bridge_remote_dropped"))
    skipped: int = figure("Messages from the remote left unanswered until a new connection.", counter("bridge_remote_skipped"))
    waiting: int = figure("Messages from the remote in memory until there is room.", gauge("bridge_remote_waiting_messages"))
    outstanding_batches: int = figure("Batches from it that are being committed.", gauge("bridge_remote_outstanding_batches"))


@figures
class RateFigures:
    """How fast a lane may send now, where `rate` limits it."""

    messages: float | None = figure(
        "Messages a second, its part of the `rate` that the lanes share; absent without that limit.", gauge("bridge_rate_messages")
    )
    bytes: float | None = figure("Bytes of PUBLISHes a second, likewise.", gauge("bridge_rate_bytes"))
    part: float = figure(
        "How much of what is configured, of 1: less after the remote said that it is too much, and growing back.",
        gauge("bridge_rate_part_ratio"),
    )
    backlog_only: bool = figure("Whether only messages that have waited are held to it.")


@figures
class ConnectionFigures:
    """The report of a Connection."""

    link: LinkFigures | None = part("Its link.", default=None)
    exchange: ExchangeFigures | None = part("Its exchange.", default=None)
    rate: RateFigures | None = part("How fast it may send.", default=None)
    remote_subscriptions: RemoteSubscriptionFigures | None = part("Messages from the remote.", default=None)


@figures
class Tier2Figures:
    """Messages that the store has handed out and that were not sent yet."""

    messages: int = figure("Messages handed out by the store and not sent yet.", gauge("bridge_handed_out_messages"))
    bytes: int = figure("Bytes of those.", gauge("bridge_handed_out_bytes"))


# --- the row of a lane ---


FULL = 0.99
NEARLY_FULL = 0.8


@figures
class RoomFigures:
    """The limit that the queue of a bridge is nearest to, or that of a class with limits of its own."""

    name: str = figure("Which queue: the bridge's name, or `BRIDGE:CLASS`.")
    limit: str = figure("Which of its `limits`: `max_messages` or `max_bytes`.")
    used: int = figure("Messages or bytes that wait, of all lanes for which it holds.")
    most: int = figure("The value of the limit.")
    when_full: str = figure("What happens when that is reached, in words, as `overflow` of these limits says.")
    cure: str = figure("What to do before, in words.")
    full_for_s: float | None = figure(
        "For how long it has been full: since 99 % of the limit were used, with no time below 80 % in between, and since the node "
        "runs; absent while less than 80 % are used.",
        default=None,
    )

    @property
    def is_full(self) -> bool:
        """Whether the next message may find no room."""
        return self.used >= FULL * self.most

    @property
    def is_nearly_full(self) -> bool:
        """Whether it is worth a word."""
        return self.used >= NEARLY_FULL * self.most


@figures
class BridgeLane(QueueFigures):
    """A lane of a bridge: how it is, its ledger (`accepted = delivered + depth + expired + dropped + dead_lettered`), its link."""

    LABELS: ClassVar = {"bridge": "name", "lane": "lane"}
    METRICS: ClassVar[tuple[FigureMetric, ...]] = (
        info(
            "bridge_reason",
            "Why the lane is in its state, and why the last connection or attempt failed; absent while it is connected.",
            reason="reason",
            last_error="last_error",
        ),
    )

    name: str = figure("Which bridge.")
    lane: LaneLabel = figure("Which of its lanes: its number, or its class.")
    state: str = figure(
        "`connected`, or how far it is: `connecting`, `backoff`, `paused`, or the state of its process.",
        states("bridge_state", _LANE_STATES),
    )
    reason: str = figure("Why it is in that state, in words; empty while it is connected.")
    since: str | None = figure("Since when, in UTC.", default=None)
    since_s: float | None = figure("How long the lane has been in its state.", gauge("bridge_state_age_seconds"), default=None)
    last_error: str = figure("Why the last connection or attempt failed; empty once one has succeeded.", default="")
    cure: str = figure(
        "The cure of `last_error`, or of `reason`, in words; empty where nothing is wrong with the link.", default=""
    )
    down_s: float | None = figure(
        "How long the link has been down, over all attempts and lives of its process; absent while it is up or paused.",
        gauge("bridge_down_seconds"),
        default=None,
    )
    next_attempt_s: float | None = figure(
        "How long until the next attempt to connect; absent where none is to come by itself.",
        gauge("bridge_next_attempt_seconds"),
        default=None,
    )
    attempts: int | None = figure(
        "Attempts that failed since the link was up, in this life of its process.",
        gauge("bridge_attempts_since_down"),
        default=None,
    )
    rate_in: float | None = figure(
        "Messages a second that were accepted, over the last 10 seconds or as much of them as is known.", default=None
    )
    rate_out: float | None = figure("Messages a second that were delivered, over the same time.", default=None)
    drain_s: float | None = figure(
        "How long what waits takes to leave at these rates; absent while it grows or nobody knows.",
        gauge("bridge_queue_drain_seconds"),
        default=None,
    )
    drain_at_best_s: float | None = figure(
        "The same at the best rate of delivery that this run of the node has seen, also while the link is down.",
        gauge("bridge_queue_drain_at_best_seconds"),
        default=None,
    )
    full: float | None = figure(
        "How much of its limits the bridge's queue takes up, of 1: of messages or bytes, whichever is more.",
        gauge("bridge_queue_full_ratio"),
        default=None,
    )
    full_s: float | None = figure(
        "How long until the bridge's queue is full, as fast as it grows; absent while it does not.",
        gauge("bridge_queue_full_in_seconds"),
        default=None,
    )
    room: RoomFigures | None = part("The limit of `full`; absent without one, or while nobody knows.", default=None)
    in_flight: int | None = figure("Messages sent and not settled.", gauge("bridge_in_flight_messages"), default=None)
    paused_since_ms: int | None = figure(
        "Since when it is paused.", given("bridge_paused", "Whether an operator has paused it."), default=None
    )
    dead_letters: DeadLetterFigures | None = part("The dead letters of the whole bridge.", default=None, per=("bridge",))
    link: LinkFigures | None = part("Its link, as its Connection tells of it.", default=None)
    exchange: ExchangeFigures | None = part("Counts of its exchange with the remote.", default=None)
    rate: RateFigures | None = part("How fast it may send; absent without a limit.", default=None)
    remote_subscriptions: RemoteSubscriptionFigures | None = part("Messages from its remote.", default=None)
    tier2: Tier2Figures | None = part("Handed out and not sent yet.", default=None)
