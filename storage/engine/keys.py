"""Keys: their byte order is the order of delivery.

``msg``: ``queue u32 | first_seq u64``, big endian. ``meta``: one letter for the kind, then what it is about:
``F`` the store's format, ``I`` its identity, ``N<name>`` the number of a queue, ``L<number>`` a queue's row,
``P<name>`` a sender's row,
``S<session>`` a session's row, ``R<topic>`` a retained message, ``H`` the highest number of a queue that is gone, ``D<number>``
the row of a dead-letter queue (its letters: ``dead_letters``), ``B<bridge>`` the lanes of a bridge (``lane_changes``),
``T<number>`` what events have told of a queue's losses, ``G<number><filter>`` how far a session's queue has what is retained,
``V<bridge><rule>`` how far a rule of a bridge has brought what is retained,
``E`` what became of the messages of sessions that have ended, ``U<session><part>`` what is kept of a session beside its row,
``W<number><topic>`` a message that a queue does not have yet (``thinned_messages``), ``Y<bridge>`` what was sent again into the
queues of a bridge (``history_resends``).

A session's name, and what is subscribed to in it, may have 65,535 bytes. ``U`` has 16 of a digest of each, so that no row is
written for the sake of its key, and all keys of a session stand together.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from struct import Struct

from storage.engine.engine import Engine, Write
from storage.engine.store_identity import IDENTITY_KEY
from wire.errors import ConfigError, StorageDamaged

STORE_FORMAT = 1
IDENTITY_BYTES = 16
_FORMAT_KEY = b"F"
QUEUE_NAME = b"N"
HIGHEST_NUMBER = b"H"
PASSES = b"G"
RULE_PASSES = b"V"
GONE = b"E"
PARTS, PARTS_END = b"U", b"V"
HELD, HELD_END = b"W", b"X"
DIGEST_BYTES = 16


chunk_key = Struct(">IQ").pack  # the key of the chunk of a queue, by its number, that begins at a sequence


def first_seq_of(key: bytes) -> int:
    """The first sequence of the chunk under ``key``."""
    return int.from_bytes(key[4:12], "big")


def lane_key(queue: int) -> bytes:
    """The key of the row of ``queue``."""
    return b"L" + queue.to_bytes(4, "big")


def dead_key(queue: int) -> bytes:
    """The key of the row of dead-letter queue ``queue``."""
    return b"D" + queue.to_bytes(4, "big")


def reported_key(queue: int) -> bytes:
    """The key of what events have told of the losses of ``queue``."""
    return b"T" + queue.to_bytes(4, "big")


def lanes_key(bridge: str) -> bytes:
    """The key of what is known of the lanes of ``bridge``."""
    return b"B" + bridge.encode()


def resends_key(bridge: str) -> bytes:
    """The key of what was sent again into the queues of ``bridge``."""
    return b"Y" + bridge.encode()


def sender_key(sender: str) -> bytes:
    """The key of what is known of ``sender``."""
    return b"P" + sender.encode()


def session_key(session: str) -> bytes:
    """The key of the row of ``session``."""
    return b"S" + session.encode()


def digest(text: str) -> bytes:
    """A digest for a session's name, or for a topic filter, in a key."""
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def part_key(session: str, part: bytes) -> bytes:
    """The key of one of the rows that ``session`` has beside its own."""
    return PARTS + digest(session) + part


def retained_key(topic: bytes) -> bytes:
    """The key of the message that is retained under ``topic``."""
    return b"R" + topic


def pass_key(queue: int, topic_filter: str) -> bytes:
    """The key of the pass of ``queue`` through what is retained under a filter, which has no NUL [MQTT-1.5.4-2]."""
    return PASSES + queue.to_bytes(4, "big") + topic_filter.encode()


def rule_pass_key(bridge: str, rule: bytes) -> bytes:
    """The key of the pass of a rule of ``bridge``, by the digest of ``DIGEST_BYTES`` that it has."""
    return RULE_PASSES + bridge.encode() + b"\0" + rule


def early_key(pass_of: bytes, topic: bytes) -> bytes:
    """The key that says that a pass, by its own key, has brought ``topic`` before its turn."""
    return pass_of + b"\0" + topic


def held_key(queue: int, topic: bytes) -> bytes:
    """The key of the message of ``topic`` that is held for ``queue``."""
    return HELD + queue.to_bytes(4, "big") + topic


def held_of(key: bytes) -> tuple[int, bytes]:
    """The queue and the topic of ``held_key``."""
    return int.from_bytes(key[1:5], "big"), key[5:]


def open_format(engine: Engine) -> tuple[str, bool]:
    """The store's identity, in hexadecimal digits, and whether that is new: its first write has it, and this build's format.

    Raises:
        ConfigError: a newer build wrote the store.
        StorageDamaged: the mark is not one, or the store has lost its identity.
    """
    mark, identity = engine.get("meta", _FORMAT_KEY), engine.get("meta", IDENTITY_KEY)
    if mark is None:
        write = Write()
        identity = bytes.fromhex(engine.known.store) or os.urandom(IDENTITY_BYTES)  # damage may have taken both rows
        write.put("meta", _FORMAT_KEY, bytes([STORE_FORMAT]))
        write.put("meta", IDENTITY_KEY, identity)
        engine.commit(write, sync=True)
    elif len(mark) != 1:
        raise StorageDamaged("the store's format mark is damaged")
    elif mark[0] > STORE_FORMAT:
        raise ConfigError("the store was written by a newer version", format=mark[0], known=STORE_FORMAT)
    if identity is None or len(identity) != IDENTITY_BYTES:
        raise StorageDamaged("the store's identity is damaged")
    return identity.hex(), mark is None
