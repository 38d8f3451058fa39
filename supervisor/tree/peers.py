"""Frames of the supervisor to the children: whose actors are ready, whether their bridge is paused, which ACL files have
changed."""

from __future__ import annotations

from collections.abc import Iterable

from actors.process.mailbox import Mailbox
from supervisor.tree.acl_watch import AclWatch
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.pauses import Pauses
from supervisor.tree.running_children import Child, RunningChildren
from wire.frames.names import BRIDGE, CLIENTS, LISTENER, connection_name
from wire.frames.supervision import Command, PeerUp


class Peers:
    """Keeps each child told; one bridge has nothing to do with another."""

    def __init__(self, mailbox: Mailbox, settings: CurrentSettings, children: RunningChildren, pauses: Pauses) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self._pauses = pauses
        self.watch_files()

    def watch_files(self) -> None:
        """Look at the ACL files of the settings that hold now; their rules are in these."""
        self._acl_watch = AclWatch(self._settings.now)

    def brief(self, child: Child) -> None:
        """Tell a child which peers are ready, and whether its bridge is paused; a repetition is harmless."""
        if child.name == CLIENTS:  # before it can accept anyone
            for frame in self._acl_watch.so_far():
                self._mailbox.send(LISTENER, frame)
        for peer in self._children.living():
            if _knows(child, peer) and peer.life is not None:
                for actor in sorted(peer.heralded):
                    self._mailbox.send(child.name, PeerUp(name=actor, epoch=peer.epoch))
        if self.is_paused(child):
            self.command([child], "pause")

    def herald(self, child: Child) -> None:
        """Tell the others which actors of ``child`` have become ready."""
        assert child.life is not None
        for actor in [name for name, state in child.states.items() if state == "ready" and name not in child.heralded]:
            child.heralded.add(actor)
            for peer in self._children.living():
                if _knows(peer, child):
                    self._mailbox.send(peer.name, PeerUp(name=actor, epoch=child.epoch))

    def command(self, lanes: Iterable[Child], verb: str) -> None:
        """Tell the Connection of each of ``lanes`` that runs to ``verb``: pause or resume."""
        for child in lanes:
            if child.life is not None and child.spec.bridge is not None and child.spec.lane is not None:
                self._mailbox.send(connection_name(child.spec.bridge, child.spec.lane), Command(verb=verb))

    def is_paused(self, child: Child) -> bool:
        """Whether an operator has paused the bridge that ``child`` is of."""
        bridge = child.spec.bridge
        return bridge is not None and self._pauses.since_ms(bridge) is not None

    def send_acl_changes(self) -> None:
        """Look at the ACL files, and tell the Listener what has changed."""
        for frame in self._acl_watch.changes():
            if CLIENTS in self._children:  # else this node stands by; when it leads it reads them anew
                self._mailbox.send(LISTENER, frame)


def _knows(child: Child, peer: Child) -> bool:
    """Whether ``child`` is told when ``peer`` begins a life. Who is not needed speaks to the supervisor alone; a process that
    several share tells them itself.
    """
    both_needed = child.spec.needed and peer.spec.needed
    return peer.life is not child.life and both_needed and not child.spec.kind == peer.spec.kind == BRIDGE
