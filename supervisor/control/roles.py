"""Roles for commands: three, each of which may give the commands of the one before it. Over the network and over HTTP alike.

A user who can open the control socket's file is the node's owner, and may give every command.
"""

from __future__ import annotations

from wire.access.roles import ROLES, Role

__all__ = ["NEEDED", "ROLES", "Role", "may", "needed"]

# view: sees how the node is: topics and sizes, never what a client has sent, a payload, properties or a Will's.
# operate: sees messages, and does what can be undone. admin: all.
NEEDED: dict[str, Role] = {
    "ping": "view",
    "status": "view",
    "events": "view",
    "history": "view",
    "queue.list": "view",
    "queue.outline": "view",
    "session.list": "view",
    "session.show": "view",
    "session.will": "operate",
    "snapshot.result": "view",
    "trace": "operate",
    "trace.result": "operate",
    "topics": "operate",
    "reload.plan": "view",
    "queue.peek": "operate",
    "queue.export": "operate",
    "queue.replay": "operate",
    "queue.resend": "operate",
    "access": "operate",
    "bridge.pause": "operate",
    "bridge.resume": "operate",
    "bridge.restart": "operate",
    "session.disconnect": "operate",
    "snapshot": "operate",
    "queue.purge": "admin",
    "queue.import": "admin",
    "cluster.promote": "admin",
    "cluster.step_down": "admin",
    "cluster.remove": "admin",
    "session.end": "admin",
    "reload": "admin",
    "bridge.show": "admin",
    "bridge.put": "admin",
    "bridge.remove": "admin",
    "stop": "admin",
}


def needed(command: str) -> Role:
    """The least role that may give ``command``."""
    return NEEDED.get(command, "admin")


def may(role: str, command: str) -> bool:
    """Whether ``role`` may give ``command``; a role that is none may nothing."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed(command))
