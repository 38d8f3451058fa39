"""An operator's orders to a bridge: pause, resume, restart."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.remote.dialect_file import DialectFile
from supervisor.control.control_socket import ControlError, Request
from supervisor.tree.child_lives import Lives
from supervisor.tree.event_notes import Notes
from supervisor.tree.running_children import RunningChildren
from supervisor.units import no_such_bridge
from wire.frames.names import connection_name
from wire.status.answers import BridgeOrdered
from wire.status.event_kinds import EventKind
from wire.status.refusals import Refusal

log = logging.getLogger("bascule")


def obey(request: Request, children: RunningChildren, lives: Lives, notes: Notes, run_dir: Path) -> BridgeOrdered:
    """Carry out ``request``: what to answer. A restart has what was learnt of the remote tried again, and a
    bridge that dials when needed connect at once.

    Raises:
        ControlError: it cannot be, and nothing was done.
    """
    bridge = request.arguments["bridge"]
    lanes = [child for child in children if child.spec.bridge == bridge and not child.removed]
    if not lanes:
        known = {child.spec.bridge for child in children if child.spec.bridge}
        raise ControlError(Refusal.UNKNOWN_BRIDGE, no_such_bridge(bridge, known), request.request_id)
    if lives.stopping:
        raise ControlError(Refusal.STOPPING, "the node is stopping", request.request_id)
    verb = request.command.removeprefix("bridge.")
    if verb == "restart":
        for child in lanes:
            if child.lane is not None:
                DialectFile(run_dir, connection_name(*child.lane)).remove()
            child.dial(wanted=True)
        lives.restart_on_order(lanes)
    else:
        try:
            children.set_paused(bridge, paused=verb == "pause")
        except OSError as error:
            text = f"the disk refuses to keep that: {error.strerror}; nothing was done"
            raise ControlError(Refusal.UNAVAILABLE, text, request.request_id) from error
        notes.note(EventKind.BRIDGE_PAUSED if verb == "pause" else EventKind.BRIDGE_RESUMED, bridge=bridge, actor="operator")
    log.info("control.obeyed", extra={"command": request.command, "bridge": bridge})
    return BridgeOrdered(bridge=bridge, processes=tuple(child.name for child in lanes))
