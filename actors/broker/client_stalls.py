"""Closes local clients whose own messages wait for what they do not acknowledge. They come again, and have it again, with DUP.

A client is closed when messages for it have waited for ``clients.stall_timeout`` behind the same PUBACK, PUBREC or PUBCOMP: its
window is full, packet identifiers have come round, or its socket takes no more. If no message waits, the client may owe it for
ever. ``wire/exchange/client_outbox.py`` says what waits, ``wire/exchange/remote_keep_alive.py`` for how long
(exchange.owed-answer-stalls).

A time in which nobody reads the client is not held against it, and neither is one in which it is sending a packet: what it
acknowledges may be behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.access.client import Client
from actors.broker.client_deliveries import pump_below_bytes
from actors.broker.client_packets import ClientPackets
from actors.broker.listener_interface import ListenerInterface
from wire.exchange.remote_keep_alive import RemoteKeepAlive, Verdict


class ClientStalls:
    """Looks now and then at the clients to which something is sent; it knows only those for which something waits."""

    def __init__(self, host: ListenerInterface, packets: ClientPackets, exchanging: Callable[[], Iterable[Client]]) -> None:
        """exchanging: the clients for which something may wait."""
        self._host = host
        self._exchanging = exchanging
        self._packets = packets
        self._watches: dict[int, RemoteKeepAlive] = {}

    def on_limits_changed(self) -> None:
        """Others hold from now on; who has kept something waiting already is watched anew."""
        self._watches = {}

    def close_stalled(self, now_s: float, *, stood_still: bool) -> None:
        """Close who has stalled. stood_still: nobody was read since the last look."""
        before, self._watches = {} if stood_still else self._watches, {}
        pump_below = pump_below_bytes(self._host.settings.now.clients.output_max_bytes)
        for client in self._exchanging():
            if _waits(client, pump_below) and client.heard and not client.input.missing:
                watch = before.get(client.number) or self._begin(now_s)
                self._watches[client.number] = watch
                self._judge(client, watch, now_s)

    def _begin(self, now_s: float) -> RemoteKeepAlive:
        timeout_s = self._host.settings.now.clients.stall_timeout_s
        watch = RemoteKeepAlive(stall_timeout_s=timeout_s, answer_timeout_s=timeout_s)
        watch.on_started(now_s, keep_alive_s=0)
        return watch

    def _judge(self, client: Client, watch: RemoteKeepAlive, now_s: float) -> None:
        outbox = client.outbox
        assert outbox is not None
        verdict = watch.judge(now_s, owed=outbox.owed, given=client.written_bytes, left=client.left_bytes)
        if verdict is Verdict.STALLED:
            outbox.on_stalled()
            self._packets.on_stalled(client, in_flight=outbox.in_flight, waiting=outbox.depth - outbox.in_flight)


def _waits(client: Client, pump_below: int) -> bool:
    """Whether messages wait because the client does not acknowledge, or does not read."""
    outbox = client.outbox
    if outbox is None or not outbox.waits:
        return False
    return outbox.held_back or client.output_bytes >= pump_below
