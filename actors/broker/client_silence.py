"""Looks at all clients now and then: who is silent for too long, has sent no CONNECT in the time for it, or has stalled.

A time in which this process stood still counts for nobody: nobody was read, so nobody was silent.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.broker.client_stalls import ClientStalls
from actors.broker.listener_interface import ClientHost
from wire.settings import ClientLimitSettings, NodeSettings

LOOK_PERIOD_S = 0.5
STOOD_STILL_S = 2 * LOOK_PERIOD_S  # between two looks: the process did


class ClientSilence:
    """Closes them."""

    def __init__(
        self, host: ClientHost, stalls: ClientStalls, limits: ClientLimitSettings, stood_still: Callable[[float], None]
    ) -> None:
        """``stood_still`` is told how long this process did, in seconds."""
        self._host = host
        self._stalls = stalls
        self._connect_timeout_s = limits.connect_timeout_s
        self._stood_still = stood_still
        self._looked_s = host.mailbox.now_s()

    def adopt(self, settings: NodeSettings) -> None:
        """These hold from now on."""
        self._connect_timeout_s = settings.clients.connect_timeout_s
        self._stalls.adopt(settings)

    def look(self, now_s: float) -> None:
        """To be called every ``LOOK_PERIOD_S``."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        stood_still = passed_s > STOOD_STILL_S
        clients = self._host.clients()
        if stood_still:
            self._stood_still(passed_s)
            for client in clients:
                client.keep_alive.stood_still(passed_s, now_s)
                client.accepted_s = min(now_s, client.accepted_s + passed_s)
        for client in clients:
            if client.flow is None:
                if now_s - client.accepted_s > self._connect_timeout_s and not client.level:  # however fast it comes
                    self._host.limited("connect_timeout")
                    self._host.close_client(client, "connect_timeout")
            elif client.heard and client.keep_alive.is_over(now_s, client.under_way_bytes):  # (exchange.silence-from-last-packet)
                self._host.close_client(client, "keep_alive_timeout")
        self._stalls.look(now_s, stood_still=stood_still)
