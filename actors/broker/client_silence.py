"""Looks at clients when their time is over: who is silent for too long, has sent no CONNECT in the time for it, or has stalled.

A time in which this process stood still counts for nobody: nobody was read, so nobody was silent. A look costs by the clients whose
time may be over, not by those that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor

from actors.access.client import Client
from actors.broker.client_stalls import ClientStalls
from actors.broker.listener_interface import ListenerInterface

CHECK_PERIOD_S = 0.5
STOOD_STILL_S = 2 * CHECK_PERIOD_S  # between two looks: the process did
LOOK_AGAIN_S = 10.0  # each client is looked at that often, so that what is kept of those that have left is little


class ClientSilence:
    """Closes them."""

    def __init__(self, host: ListenerInterface, stalls: ClientStalls, stood_still: Callable[[float], None]) -> None:
        """``stood_still`` is told how long this process did, in seconds."""
        self._host = host
        self._stalls = stalls
        self._stood_still = stood_still
        self._looked_s = host.mailbox.now_s()
        self._due: dict[int, list[int]] = {}  # in which period -> who is looked at: its number, below 0 until it has its CONNACK

    def watch(self, client: Client) -> None:
        """It has come, or has its CONNACK."""
        self._plan(client, self._looked_s)

    def close_silent(self, now_s: float) -> None:
        """To be called every ``CHECK_PERIOD_S``."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        stood_still = passed_s > STOOD_STILL_S
        if stood_still:
            self._stood_still(passed_s)
            for client in self._host.clients():
                client.stood_still(passed_s, now_s)
        for period in [period for period in self._due if period * CHECK_PERIOD_S <= now_s]:
            for number in self._due.pop(period):
                found = self._host.client(abs(number))
                if found is not None and (number > 0) == (found.flow is not None):
                    self._judge(found, now_s)
        self._stalls.close_stalled(now_s, stood_still=stood_still)

    def _judge(self, client: Client, now_s: float) -> None:
        if client.flow is None:
            if client.level:
                return  # it waits for its session
            if now_s - client.accepted_s > self._host.settings.now.clients.connect_timeout_s:  # however fast it comes
                self._host.on_limited("connect_timeout")
                self._host.close_client(client, "connect_timeout")
                return
        elif client.heard and client.keep_alive.poll_over(now_s, client.under_way_bytes):  # (exchange.silence-from-last-packet)
            self._host.close_client(client, "keep_alive_timeout")
            return
        self._plan(client, now_s)

    def _plan(self, client: Client, now_s: float) -> None:
        """Look at it in the first period that begins when its time is over, but not in this one."""
        greeted = client.flow is not None
        over_s = client.keep_alive.over_s if greeted else client.accepted_s + self._host.settings.now.clients.connect_timeout_s
        period = floor(max(now_s, min(over_s, now_s + LOOK_AGAIN_S)) / CHECK_PERIOD_S) + 1
        self._due.setdefault(period, []).append(client.number if greeted else -client.number)
