"""In which forms of MQTT each address of a remote is spoken to, the best first, and what was learnt of those that refuse one. Pure.

A form is a dialect: the version, and whether CONNECT says by a bit of the protocol level that a bridge comes. Mosquitto, NanoMQ and
VerneMQ know that bit; others refuse the level that they do not know, or close the connection. A broker that knows no MQTT 5.0 says
so by the CONNACK of its own version, or closes, or says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wire.errors import BasculeError
from wire.mqtt.packets import MQTT_3_1_1
from wire.mqtt.reason_codes import ReasonCode
from wire.status.link_faults import LinkFault, fault_of

REFUSED_MS = 86_400_000  # so long an address is not spoken to first in a dialect that it said it does not speak
UNANSWERED_MS = 3_600_000  # nor in one at which it closed, or said nothing: that may have had another reason

_SAYS_SO = (ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR)
_UNANSWERED = (LinkFault.CLOSED_AT_CONNECT, LinkFault.CLOSED_AT_CONNECT_5, LinkFault.NO_CONNACK_TO_5)


class Dialect(NamedTuple):
    """level: the protocol level. private: whether its bridge bit is set, which asks for No Local and Retain As Published."""

    level: int
    private: bool = False


class RefusedDialect(NamedTuple):
    """A remote did not let us in by ``dialect``. holds_ms: how long it is then taken to do so, once another one was taken."""

    dialect: Dialect
    holds_ms: int


class RememberedRefusal(NamedTuple):
    """Until when, in UTC, the address ``place`` is taken not to speak a dialect."""

    place: str
    level: int
    private: bool
    until_ms: int


class RemoteDialects:
    """The dialects of one bridge's remote, which may be another one at each of its addresses.

    A dialect that an address refused comes last there for a day, once another one was taken there: an address that refuses all of
    them refuses something else.
    """

    def __init__(self, levels: Sequence[int], *, try_private: bool, known: Iterable[RememberedRefusal] = ()) -> None:
        """levels: of the protocol, the best first. try_private: at MQTT 3.1.1, CONNECT says first that a bridge comes. known: what
        an earlier life has learnt.
        """
        self._wanted = [
            Dialect(level, private)
            for level in levels
            for private in (True, False)
            if not private or (try_private and level == MQTT_3_1_1)
        ]
        self._until_ms = {(one.place, Dialect(one.level, one.private)): one.until_ms for one in known}

    def at(self, place: str, wall_ms: int) -> Sequence[Dialect]:
        """All of them in the order in which they are to be tried at ``place``; at ``wall_ms``, UTC."""
        return sorted(self._wanted, key=lambda dialect: self._is_refused(place, dialect, wall_ms))

    def _is_refused(self, place: str, dialect: Dialect, wall_ms: int) -> bool:
        left_ms = self._until_ms.get((place, dialect), wall_ms) - wall_ms
        return 0 < left_ms <= REFUSED_MS  # more is of a clock that was set back

    def on_connected(self, place: str, taken: Dialect, refused: Iterable[RefusedDialect], wall_ms: int) -> bool:
        """``place`` has let us in by ``taken``, and before that by none of ``refused``. Returns whether anything is new."""
        before = self._until_ms
        left = {key: until_ms for key, until_ms in before.items() if key != (place, taken)}
        self._until_ms = left | {(place, dialect): wall_ms + holds_ms for dialect, holds_ms in refused}
        return self._until_ms != before

    def forget(self) -> bool:
        """Try all of them again. Returns whether anything was known."""
        known, self._until_ms = self._until_ms, {}
        return bool(known)

    @property
    def known(self) -> list[RememberedRefusal]:
        """What was learnt; also for another thread."""
        return [RememberedRefusal(place, *dialect, until_ms) for (place, dialect), until_ms in self._until_ms.items()]


def refused_by(error: BasculeError, dialect: Dialect) -> RefusedDialect | None:
    """Whether a remote that does not know ``dialect`` may have answered CONNECT so: it refused the level, closed, or said nothing
    to MQTT 5.0; None if it may not.
    """
    if error.fields.get("reason_code") in _SAYS_SO:
        return RefusedDialect(dialect, REFUSED_MS)
    return RefusedDialect(dialect, UNANSWERED_MS) if fault_of(error) in _UNANSWERED else None
