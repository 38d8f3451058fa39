"""The figures of local clients: connections, what the door refuses, and routing."""

from __future__ import annotations

from wire.figure import counter, counters, figure, figures, gauge


@counters
class TrafficFigures:
    """Traffic between local clients and the Listener."""

    messages_received: int = figure("Packets of all types from clients.", counter("client_packets_received"), default=0)
    messages_sent: int = figure("Packets of all types to clients.", counter("client_packets_sent"), default=0)
    publish_received: int = figure("PUBLISHes from clients.", counter("client_publishes_received"), default=0)
    publish_sent: int = figure("PUBLISHes to clients.", counter("client_publishes_sent"), default=0)
    bytes_received: int = figure("Bytes from clients, above TLS.", counter("client_received_bytes"), default=0)
    bytes_sent: int = figure("Bytes to clients, above TLS.", counter("client_sent_bytes"), default=0)


@figures
class ConnectedSessions:
    """Connected clients by their sessions."""

    lasting: int = figure("Connected clients whose session outlives them.", gauge("clients_lasting"))
    live: int = figure("Connected clients whose session ends with them.", gauge("clients_live"))


@figures
class OvertakingFigures:
    """QoS 0 messages that are not kept behind a commit."""

    passed: int = figure("QoS 0 messages that passed a commit under way.", counter("client_qos0_overtaking"))
    dropped: int = figure("Of those, messages that bridges then went without.", counter("client_qos0_overtaking_dropped"))


@figures
class AccessFigures:
    """Logins, and what access rules forbid."""

    logins: int = figure("Logins of clients.", counter("client_logins"))
    logins_verified: int = figure("Logins whose password was verified.", counter("client_logins_verified"))
    logins_failed: int = figure("Logins that failed.", counter("client_logins_failed"))
    logins_refused: int = figure("Logins refused without a look.", counter("client_logins_refused"))
    logins_waiting: int = figure("Logins that wait.", gauge("client_logins_waiting"))
    addresses_blocked: int = figure("Addresses that had to wait.", counter("client_addresses_blocked"))
    users_blocked: int = figure("Users who had to wait.", counter("client_users_blocked"))
    publishes_forbidden: int = figure("PUBLISHes forbidden by rules.", counter("client_publishes_forbidden"))
    subscriptions_forbidden: int = figure("Subscriptions forbidden by rules.", counter("client_subscriptions_forbidden"))
    deliveries_forbidden: int = figure("Deliveries forbidden by rules.", counter("client_deliveries_forbidden"))
    takeovers_forbidden: int = figure("Take-overs forbidden by rules.", counter("client_takeovers_forbidden"))


@figures
class ReceptionFigures:
    """Limits and counts before a client is let in."""

    error: str = figure("Why it cannot listen; empty if it can.", default="")
    accepting: bool = figure("Whether connections are accepted.", gauge("clients_accepting"))
    pauses: int = figure("How often nobody could be let in for a moment.", counter("listener_pauses"))
    paused_for: str = figure("Why, the last time.")
    connections: int = figure("Connections that have come in.", counter("client_connections"))
    half_open: int = figure("Connections without CONNECT yet.", gauge("clients_half_open"))
    limited: dict[str, int] = figure(
        "How often a limit refused something or closed a client, by limit.", counter("client_limited", by="limit")
    )
    handshakes_failed: int = figure("TLS and WebSocket handshakes that failed.", counter("client_handshakes_failed"))
    certificates_reloaded: int = figure("How often certificates were read again.", counter("listener_certificates_reloaded"))
    certificates_refused: int = figure("New certificates that cannot be used.", counter("listener_certificates_refused"))


@figures
class DeliveryFigures:
    """Deliveries to clients."""

    in_flight: int = figure("Messages sent to clients and not acknowledged.", gauge("clients_in_flight_messages"))
    dropped: dict[str, int] = figure(
        "Messages for connected clients that were dropped, by reason; `session_ended`: not acknowledged at QoS 1 and 2 by a "
        "client whose session ended with its connection.",
        counter("client_dropped_messages", by="reason"),
    )
    output_dropped: int = figure("Of those, because the client did not read.", counter("client_output_dropped_messages"))
    unexpected_acknowledgements: int = figure(
        "Acknowledgements of clients that came early, once more, late, or of another kind.",
        counter("client_unexpected_acknowledgements"),
    )
    sessions: ConnectedSessions = figure("Connected clients by their sessions.")


@figures
class ListenerFigures(ReceptionFigures, DeliveryFigures):
    """Local clients."""

    clients: int = figure("Connected clients.", gauge("clients"))
    slowed: int = figure("Clients above their publish rate.", gauge("clients_slowed"))
    input_bytes: int = figure("Bytes of packets that are not complete.", gauge("clients_input_bytes"))
    outstanding_batches: int = figure("Batches that are being committed.", gauge("clients_outstanding_batches"))
    published: int = figure("PUBLISHes of clients that were taken.", counter("client_published_messages"))
    traffic: TrafficFigures = figure("Traffic between clients and the node.")
    reserved_publishes: int = figure(
        "PUBLISHes and Wills of clients below `$SYS/` that were not taken.", counter("client_reserved_publishes")
    )
    refused: int = figure("PUBLISHes of clients refused for want of room.", counter("client_refused_messages"))
    filter_bytes: int = figure(
        "Bytes that the topic filters of all sessions count for, of clients that are here or gone.", gauge("clients_filter_bytes")
    )
    pending_wills: int = figure("Wills that wait for their delay.", gauge("clients_pending_wills"))
    waiting_for_room: int = figure("Clients that are not read, because a queue is full.", gauge("clients_waiting_for_room"))
    overtaking: OvertakingFigures = figure("QoS 0 messages that are not kept behind a commit.")
    access: AccessFigures = figure("Logins, and what access rules forbid.")


@figures
class DistributorFigures:
    """Routing."""

    routed: int = figure("Messages routed.", counter("routed_messages"))
    loops: int = figure("Messages that went no further because of `max_hops`.", counter("looped_messages"))
    copies: int = figure("Messages left out because they had come by another bridge (`rings`).", counter("ring_copies"))
    subscriptions: int = figure("Subscriptions of local clients.", gauge("subscriptions"))
