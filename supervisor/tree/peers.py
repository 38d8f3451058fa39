"""Frames of the supervisor to the children: whose actors are ready, what their bridge was ordered to, which ACL files have changed.

The ACL files are read here because the supervisor may take its time over YAML, which a process of its own reads. A file that cannot
be used leaves the rules as they are, and is logged once.
"""

from __future__ import annotations

import logging
from dataclasses import astuple

from actors.process.mailbox import Mailbox
from actors.system.watched_file import WatchedFile
from supervisor.config.loading_aside import load_acl
from supervisor.tree.running_children import Child, RunningChildren
from wire.config_settings import NodeSettings, SettingsNow
from wire.errors import ConfigError, Unavailable
from wire.frames.names import BRIDGE, CLIENTS, LISTENER, connection_name
from wire.frames.supervision import AclChanged, Command, PeerUp

log = logging.getLogger("bascule")


class Peers:
    """Keeps each child told; one bridge has nothing to do with another."""

    def __init__(self, mailbox: Mailbox, settings: SettingsNow, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self.watch_files()

    def watch_files(self) -> None:
        """Look at the ACL files of the settings that hold now; their rules are in these."""
        self._acl_watch = AclWatch(self._settings.now)

    def brief(self, child: Child) -> None:
        """Tell a child which peers are ready, whether its bridge is paused or is to connect now; a repetition is harmless."""
        if child.name == CLIENTS:  # before it can accept anyone
            for frame in self._acl_watch.so_far():
                self._mailbox.send(LISTENER, frame)
        for peer in self._children.living():
            if _knows(child, peer) and peer.life is not None:
                for actor in sorted(peer.heralded):
                    self._mailbox.send(child.name, PeerUp(name=actor, epoch=peer.epoch))
        if self._children.paused_since_ms(child.spec.bridge) is not None:
            self._children.tell_pause([child])
        if child.dials and child.lane is not None and not child.ordered:
            self._mailbox.send(connection_name(*child.lane), Command(verb="dial"))
            child.dial(wanted=False)

    def herald(self, child: Child) -> None:
        """Tell the others which actors of ``child`` have become ready."""
        assert child.life is not None
        for actor in [name for name, state in child.states.items() if state == "ready" and name not in child.heralded]:
            child.heralded.add(actor)
            for peer in self._children.living():
                if _knows(peer, child):
                    self._mailbox.send(peer.name, PeerUp(name=actor, epoch=child.epoch))

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


class AclWatch:
    """All ACL files of ``settings``, whose rules the Listener has from the settings when it starts."""

    def __init__(self, settings: NodeSettings) -> None:
        found = [settings.access, *(listener.access for listener in settings.listeners if listener.access is not None)]
        self._rules = {access.acl_file: access.acl for access in found if access.acl_file is not None}
        self._files = [WatchedFile(path) for path in self._rules]
        self._changed: dict[str, AclChanged] = {}

    def changes(self) -> list[AclChanged]:
        """Changes since the last call; the first call compares with the settings."""
        return [frame for file in self._files if file.poll_change() and (frame := self._read(file)) is not None]

    def so_far(self) -> list[AclChanged]:
        """Rules that a Listener with just the settings lacks."""
        return list(self._changed.values())

    def _read(self, file: WatchedFile) -> AclChanged | None:
        path = str(file.path)
        try:
            rules = load_acl(path)
        except (ConfigError, Unavailable) as error:
            remedy = "the rules read before stay; correct the file; bascule check CONFIG says whether it holds"
            problems = error.problems[:5] if isinstance(error, ConfigError) else (str(error),)
            log.error("acl.refused", extra={"path": path, "problems": problems, "remedy": remedy})
            return None
        if rules == self._rules[path]:
            return None
        self._rules[path] = rules
        self._changed[path] = AclChanged(path=path, rules=tuple(astuple(rule) for rule in rules))
        return self._changed[path]
