"""Survey of the servers of a log, before or while a node works with them."""

from __future__ import annotations

from wire.frozen_records import record


@record
class SurveyedServer:
    """One of the servers that are configured. error: why it is of no use; the others are what it says of itself, if it was reached.

    jetstream: whether it keeps streams. known: how many servers it told us of, itself included; 0 where it tells nobody.
    """

    url: str
    error: str = ""
    name: str = ""
    version: str = ""
    cluster: str = ""
    jetstream: bool = False
    known: int = 0


@record
class SurveyedStream:
    """A stream that is there. current: how many of its ``replicas`` are level and reached, the one that leads included."""

    name: str
    storage: str
    replicas: int
    current: int
    leader: str
    size_bytes: int
    messages: int


@record
class Survey:
    """servers: in the order of the configuration. error: why JetStream cannot be asked, though a server was reached.

    streams: those of the cluster that there are. forbidden: what the user may not, as the servers say it.
    """

    servers: tuple[SurveyedServer, ...]
    error: str = ""
    streams: tuple[SurveyedStream, ...] = ()
    forbidden: tuple[str, ...] = ()
