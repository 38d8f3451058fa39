"""Meanings of the errors of a socket towards a remote broker: those of plain TCP. Those of TLS are ``remote_tls.py``'s."""

from __future__ import annotations

from dataclasses import dataclass

Kinds = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketErrors:
    """waits: it goes on later. closed_by_remote: the far end ended it, and not the way there. handshake: TLS did not come about."""

    waits: Kinds
    closed_by_remote: Kinds
    handshake: Kinds


PLAIN = SocketErrors(waits=(BlockingIOError,), closed_by_remote=(ConnectionResetError, BrokenPipeError), handshake=())
