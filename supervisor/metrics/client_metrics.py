"""What is measured of local clients: connections, what the door refuses, and routing. Pure."""

from __future__ import annotations

from supervisor.metrics.metric import Metric


def _gauge(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}", "gauge", path, text)


def _counter(name: str, path: str, text: str) -> Metric:
    return Metric(f"bascule_{name}_total", "counter", path, text)


CLIENTS = (
    _gauge("clients", "listener.clients", "Connected clients."),
    _gauge("clients_lasting", "listener.sessions.lasting", "Connected clients whose session outlives them."),
    _gauge("clients_live", "listener.sessions.live", "Connected clients whose session ends with them."),
    _gauge("clients_accepting", "listener.accepting", "Whether connections are accepted."),
    _counter("listener_pauses", "listener.pauses", "How often nobody could be let in for a moment."),
    _gauge("clients_half_open", "listener.half_open", "Connections without CONNECT yet."),
    _gauge("clients_slowed", "listener.slowed", "Clients above their publish rate."),
    _gauge("clients_input_bytes", "listener.input_bytes", "Bytes of packets that are not complete."),
    _gauge("clients_in_flight_messages", "listener.in_flight", "Messages sent to clients and not acknowledged."),
    _gauge("clients_outstanding_batches", "listener.outstanding_batches", "Batches that are being committed."),
    _gauge("clients_filter_bytes", "listener.filter_bytes", "What the topic filters of all sessions count for."),
    _gauge("clients_pending_wills", "listener.pending_wills", "Wills that wait for their delay."),
    _gauge("clients_refused_wills", "listener.refused_wills", "Wills that wait for room."),
    _counter("client_connections", "listener.connections", "Connections that have come in."),
    _counter("client_packets_received", "listener.traffic.messages_received", "Packets of all types from clients."),
    _counter("client_packets_sent", "listener.traffic.messages_sent", "Packets of all types to clients."),
    _counter("client_publishes_received", "listener.traffic.publish_received", "PUBLISHes from clients."),
    _counter("client_publishes_sent", "listener.traffic.publish_sent", "PUBLISHes to clients."),
    _counter("client_received_bytes", "listener.traffic.bytes_received", "Bytes from clients, above TLS."),
    _counter("client_sent_bytes", "listener.traffic.bytes_sent", "Bytes to clients, above TLS."),
    _counter("client_published_messages", "listener.published", "PUBLISHes of clients that were taken."),
    _counter("client_refused_messages", "listener.refused", "PUBLISHes of clients refused for want of room."),
    _counter(
        "client_reserved_publishes",
        "listener.reserved_publishes",
        "PUBLISHes and Wills of clients below $SYS/ that were not taken.",
    ),
    _counter("client_dropped_messages", "listener.dropped{reason}", "Messages for connected clients that were dropped, by reason."),
    _counter("client_output_dropped_messages", "listener.output_dropped", "Of those, because the client did not read."),
    _counter(
        "client_unexpected_acknowledgements",
        "listener.unexpected_acknowledgements",
        "Acknowledgements of clients that came early, once more, late, or of another kind.",
    ),
    _counter("client_limited", "listener.limited{limit}", "How often a limit refused something or closed a client, by limit."),
    _counter("client_handshakes_failed", "listener.handshakes_failed", "TLS and WebSocket handshakes that failed."),
    _counter("listener_certificates_reloaded", "listener.certificates_reloaded", "How often certificates were read again."),
    _counter("listener_certificates_refused", "listener.certificates_refused", "New certificates that cannot be used."),
    _counter("client_qos0_overtaking", "listener.overtaking.passed", "QoS 0 messages that passed a commit under way."),
    _counter("client_qos0_overtaking_dropped", "listener.overtaking.dropped", "Of those, messages that bridges then went without."),
)

ACCESS = (
    _counter("client_logins", "listener.access.logins", "Logins of clients."),
    _counter("client_logins_verified", "listener.access.logins_verified", "Logins whose password was verified."),
    _counter("client_logins_failed", "listener.access.logins_failed", "Logins that failed."),
    _counter("client_logins_refused", "listener.access.logins_refused", "Logins refused without a look."),
    _gauge("client_logins_waiting", "listener.access.logins_waiting", "Logins that wait."),
    _counter("client_addresses_blocked", "listener.access.addresses_blocked", "Addresses that had to wait."),
    _counter("client_users_blocked", "listener.access.users_blocked", "Users who had to wait."),
    _counter("client_publishes_forbidden", "listener.access.publishes_forbidden", "PUBLISHes forbidden by rules."),
    _counter("client_subscriptions_forbidden", "listener.access.subscriptions_forbidden", "Subscriptions forbidden by rules."),
    _counter("client_deliveries_forbidden", "listener.access.deliveries_forbidden", "Deliveries forbidden by rules."),
    _counter("client_takeovers_forbidden", "listener.access.takeovers_forbidden", "Take-overs forbidden by rules."),
)

ROUTING = (
    _counter("routed_messages", "distributor.routed", "Messages routed."),
    _counter("looped_messages", "distributor.loops", "Messages that went no further because of max_hops."),
    _gauge("subscriptions", "distributor.subscriptions", "Subscriptions of local clients."),
)
