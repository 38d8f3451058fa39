"""One lane of a bridge by its names: what its actors, its queue and its client are called, and how the log knows it."""

from __future__ import annotations

from pathlib import Path

from storage.replication.lease import LeaseFile
from wire.config_settings import BridgeSettings, NodeSettings
from wire.errors import Unavailable
from wire.frames.names import forwarder_name, lane_of_actor, queue_name, remote_client_id


def configured(bridge: str, settings: NodeSettings) -> BridgeSettings:
    """The settings of ``bridge``.

    Raises:
        Unavailable: it was taken out just as a process of it began, which is told to end.
    """
    try:
        return settings.bridge(bridge)
    except KeyError:
        raise Unavailable(f"bridge {bridge} is not configured any more") from None


class Lane:
    """The lane that the Connection ``actor`` serves; nothing of it changes.

    client_id: by which the remote knows it. facts: what each line of the log says of it. run_dir: the folder
    of what its next life may want to know. lease: of the cluster, where several nodes share a queue.
    """

    def __init__(self, actor: str, settings: NodeSettings) -> None:
        place = lane_of_actor(actor)
        assert place is not None, "a Connection of no lane"
        name, self.label = place
        self.actor = actor
        self.bridge = configured(name, settings)
        self.queue = queue_name(name, self.label)
        self.forwarder = forwarder_name(name, self.label)
        self.client_id = remote_client_id(self.bridge.remote.client_id, self.label)
        self.facts: dict[str, str | int] = {"bridge": name, "lane": self.label}
        self.run_dir = Path(settings.run_dir)
        self.lease = None if settings.replication is None else LeaseFile(self.run_dir)

    def leads(self) -> bool:
        """Whether this node may speak to the remote: where several share a queue, one does (replication.no-word-without-lease)."""
        return self.lease is None or self.lease.is_held()

    def session_at(self, place: str) -> str:
        """The name on record of its session at the address ``place``."""
        return f"{self.client_id}@{place}"
