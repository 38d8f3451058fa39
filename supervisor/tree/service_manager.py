"""Messages to whoever started the node: a line on standard output, and to a service manager, such as systemd, that the node is
ready, reloads, lives, stops.

The protocol is ``sd_notify(3)``: datagrams of ``NAME=value`` lines to the socket that NOTIFY_SOCKET names. Without a name of one,
nothing is sent. A message that is not taken is lost: the node goes on without its service manager.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import TextIO

from supervisor.terminal.failures import try_print
from wire.config_settings import NodeSettings

log = logging.getLogger("bascule")

_PARTS = 3  # of the watchdog's time: as often as that it hears from a node that lives
_MICROSECONDS = 1_000_000
_SPARE_S = 10.0  # for the supervisor's own end, after its children's


class ServiceManager:
    """watchdog_period_s: how often ``alive`` is to be called; None where nobody waits for it."""

    def __init__(self, environment: MutableMapping[str, str], monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Take the service manager's variables out of ``environment``: what this process starts is not to speak in its name."""
        address = environment.pop("NOTIFY_SOCKET", "")
        watchdog = {name: environment.pop(name, "") for name in ("WATCHDOG_USEC", "WATCHDOG_PID")}
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._monotonic_ns = monotonic_ns
        self._state = ""
        self._socket = _datagrams() if self._address else None
        self.watchdog_period_s = _period_s(watchdog) if self._address else None

    def say(self, state: str) -> None:
        """Show ``state``, one line, as the node's state; nothing where it is shown already."""
        if state != self._state:
            self._state = state
            self._send(STATUS=state)

    def ready(self, state: str) -> None:
        """The node has started, or goes on with what it has read of its configuration."""
        self._state = state
        self._send(READY="1", STATUS=state)

    def reloading(self) -> None:
        """The configuration is being read again; ``ready`` ends that, whatever came of it."""
        self._state = ""
        self._send(RELOADING="1", MONOTONIC_USEC=str(self._monotonic_ns() // 1000))

    def alive(self) -> None:
        """The supervisor's loop goes round."""
        self._send(WATCHDOG="1")

    def stopping(self, left_s: float) -> None:
        """The node stops. Its children take ``left_s`` seconds for it at most, so it is not to be killed before."""
        self._send(STOPPING="1", STATUS="stopping", EXTEND_TIMEOUT_USEC=str(int((left_s + _SPARE_S) * _MICROSECONDS)))

    def close(self) -> None:
        """Say nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, **values: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(f"{name}={value}" for name, value in values.items()).encode(), self._address)
        except OSError as error:
            log.warning("service.untold", extra={"error": str(error), "what": ", ".join(values)})


def _datagrams() -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    found.setblocking(False)
    return found


def _period_s(watchdog: Mapping[str, str]) -> float | None:
    """As often as ``_PARTS`` times in the watchdog's time, if it watches this process."""
    microseconds, pid = watchdog["WATCHDOG_USEC"], watchdog["WATCHDOG_PID"]
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / _MICROSECONDS / _PARTS or None


def _is_one_place(one: TextIO, other: TextIO) -> bool:
    try:
        return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except OSError:
        return False  # one of them was taken apart, as in a test


def announce(settings: NodeSettings, took_s: float, *, stands_by: bool) -> None:
    """Say that the node works, or stands by for another: ``node.ready`` or ``node.stands_by``.

    It is a line of the log, and one of JSON on standard output, unless both go to the same place.
    """
    event = "node.stands_by" if stands_by else "node.ready"
    listeners = [] if stands_by else [listener.bind for listener in settings.listeners]
    facts = {"pid": os.getpid(), "listeners": listeners, "took_s": round(took_s, 3)}
    log.info(event, extra=facts)
    if _is_one_place(sys.stdout, sys.stderr):
        return
    ts = datetime.now(UTC).isoformat(timespec="milliseconds")
    refusal = try_print(json.dumps({"ts": ts, "event": event, "node": settings.node.name, **facts}))
    if refusal is not None:
        log.warning("output.refused", extra={"error": refusal, "why": f"standard output did not take the line {event}"})
