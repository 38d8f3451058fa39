"""An operator's orders to a bridge: pause, resume, restart."""

from __future__ import annotations

import logging

from supervisor.control.control_socket import ControlError, Request
from supervisor.tree.child_lives import Lives
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.event_notes import Notes
from supervisor.tree.pauses import Pauses
from supervisor.tree.peers import Peers
from supervisor.tree.running_children import RunningChildren
from wire.status.answers import BridgeOrdered

log = logging.getLogger("bascule")


class BridgeOrders:
    """Carries them out."""

    def __init__(
        self, settings: CurrentSettings, children: RunningChildren, pauses: Pauses, peers: Peers, lives: Lives, notes: Notes
    ) -> None:
        self._settings = settings
        self._children = children
        self._pauses = pauses
        self._peers = peers
        self._lives = lives
        self._notes = notes

    def obey(self, request: Request) -> BridgeOrdered:
        """Carry out ``request``: what to answer.

        Raises:
            ControlError: it cannot be, and nothing was done.
        """
        bridge = request.arguments["bridge"]
        lanes = [child for child in self._children if child.spec.bridge == bridge and not child.removed]
        if not lanes:
            known = ", ".join(bridge.name for bridge in self._settings.now.bridges) or "none"
            raise ControlError("unknown_bridge", f"there is no bridge {bridge!r}; known: {known}", request.request_id)
        if self._lives.stopping:
            raise ControlError("stopping", "the node is stopping", request.request_id)
        verb = request.command.removeprefix("bridge.")
        if verb == "restart":
            self._lives.restart_on_order(lanes)
        else:
            self._keep(verb, bridge, request)
            self._peers.command(lanes, verb)
            self._notes.note(f"bridge.{verb}d", bridge=bridge, actor="operator")
        log.info("control.obeyed", extra={"command": request.command, "bridge": bridge})
        return BridgeOrdered(bridge=bridge, processes=tuple(child.name for child in lanes))

    def _keep(self, verb: str, bridge: str, request: Request) -> None:
        try:
            self._pauses.pause(bridge) if verb == "pause" else self._pauses.resume(bridge)
        except OSError as error:
            text = f"the disk refuses to keep that: {error.strerror}; nothing was done"
            raise ControlError("unavailable", text, request.request_id) from error
