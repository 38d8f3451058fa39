"""In which forms of MQTT each address of a remote is spoken to, the best first, and what was learnt of those that refuse one. Pure.

A form is a dialect: the version, and whether CONNECT says by a bit of the protocol level that a bridge comes. Mosquitto, NanoMQ and
VerneMQ know that bit; others refuse the level that they do not know, or close the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wire.errors import Unavailable
from wire.mqtt.packets import MQTT_3_1_1
from wire.mqtt.reason_codes import ReasonCode
from wire.status.link_faults import LinkFault, fault_of

REFUSED_S = 86_400.0  # so long an address is not spoken to in a dialect that it refused


class Dialect(NamedTuple):
    """level: the protocol level. private: whether its bridge bit is set, which asks for No Local and Retain As Published."""

    level: int
    private: bool = False


class RemoteDialects:
    """The dialects of one bridge's remote, which may be another one at each of its addresses.

    A dialect that an address refused is left out there for a day, once another one was taken there: an address that refuses all of
    them refuses something else.
    """

    def __init__(self, level: int, *, try_private: bool) -> None:
        """try_private: at MQTT 3.1.1, CONNECT says first that a bridge comes."""
        self._wanted = (Dialect(level, True), Dialect(level)) if try_private and level == MQTT_3_1_1 else (Dialect(level),)
        self._refused_until_s: dict[tuple[str, Dialect], float] = {}

    def at(self, place: str, now_s: float) -> Sequence[Dialect]:
        """Those to try at ``place``, in this order; at least one."""
        first = next(
            index
            for index, dialect in enumerate(self._wanted)
            if now_s >= self._refused_until_s.get((place, dialect), 0.0) or index == len(self._wanted) - 1
        )
        return self._wanted[first:]

    def on_connected(self, place: str, refused: Iterable[Dialect], now_s: float) -> None:
        """``place`` has let us in, and before that ``refused`` these."""
        for dialect in refused:
            self._refused_until_s[place, dialect] = now_s + REFUSED_S

    def forget(self) -> None:
        """Try all of them again."""
        self._refused_until_s.clear()


def is_of_dialect(error: Unavailable) -> bool:
    """Whether a remote that does not know the dialect may have answered CONNECT so: it refused the level, or closed at once."""
    if error.fields.get("reason_code") == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        return True
    return fault_of(error) in (LinkFault.CLOSED_AT_CONNECT, LinkFault.CLOSED_AT_CONNECT_5)
