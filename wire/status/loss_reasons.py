"""The reasons for which a message is dropped, or becomes a dead letter, each with its cure. Pure."""

from __future__ import annotations

from wire.status.outcomes import DROPPED, outcome_of
from wire.status.states import WithCure

LOSS_ELSE = "bascule events CONFIG says when"


class Loss(WithCure):
    """Why a message was dropped, or became a dead letter, as the ledger has it. Reason codes are ``remote_0xNN`` beside.

    dropped: the outcome of a message that is dropped for it.
    """

    dropped: str

    def __init__(self, reason: str, _cure: str = "") -> None:
        self.dropped = outcome_of(DROPPED, reason)

    ACTOR_RESTART = "actor_restart", "publish at QoS 1: messages of QoS 0 are in memory only"
    DAMAGED = "damaged", "look for the cause (dmesg, smartctl); bascule events CONFIG says when"
    OVERFLOW = "overflow", "raise limits of the bridge, or let the link come up sooner"
    PURGED = "purged"
    ONE_PER = "one_per"  # no loss: a newer one of its topic and period stands for it, as its rule says
    QOS0_MEMORY = "qos0_memory", "publish at QoS 1, or let the link come up sooner"
    RESTART = "restart", "publish at QoS 1: messages of QoS 0 are in memory only"
    SUPERSEDED = "superseded"  # no loss: a newer one of its topic stands for it, by keep_last
    UNCHANGED = "unchanged"  # no loss: its topic had this payload already, and the rule wants changes only
    CONNECTION_CLOSED = "connection_closed", "the remote closes the connection on them: its log says why"
    PACKET_TOO_LARGE = "packet_too_large", "the remote takes no larger packets: raise its limit, or publish smaller ones"
    WRONGLY_ACKNOWLEDGED = "wrongly_acknowledged", "the remote acknowledges them wrongly: bring it up to date, or lower max_qos"
    FORBIDDEN = "forbidden", LOSS_ELSE  # its reader may not read it any more
    # Of sessions that have ended
    DEALT_AGAIN = "dealt_again", LOSS_ELSE  # no loss: another member of the shared subscription has it
    LEFT = "left", LOSS_ELSE  # in the ledger of the session's queue: counted as one of the others here
    MAYBE_RECEIVED = "maybe_received", LOSS_ELSE
    SESSION_ENDED = "session_ended", LOSS_ELSE


THINNED = (Loss.UNCHANGED, Loss.ONE_PER, Loss.SUPERSEDED)  # as rules want it
INTENDED = (Loss.PURGED, *THINNED)  # nobody is to be told of it as a loss
OF_QUEUES = (Loss.ACTOR_RESTART, Loss.DAMAGED, Loss.OVERFLOW, Loss.QOS0_MEMORY, Loss.RESTART, *INTENDED)


WHEN_FULL = {  # what happens where a queue has no room, by ``limits.overflow``
    "reject": "QoS 0 is dropped and counted; QoS 1 and 2 get no acknowledgement until there is room (MQTT 5: refused with 0x97, "
    "quota exceeded), so nothing acknowledged is lost",
    "drop-oldest": "messages that have waited longest and were never sent are dropped and counted, and new ones take their room",
    "drop-newest": "new messages are acknowledged, dropped and counted",
}


def cure_of_loss(reason: str) -> str:
    """The cure of a ``reason`` of a ledger, which may be a reason code of the remote."""
    return next((loss.cure for loss in Loss if loss == reason), LOSS_ELSE)
