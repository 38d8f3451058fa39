"""The kinds of refusals: why an order or a question to a node is not carried out, in a word for programs."""

from __future__ import annotations

from enum import StrEnum


class Refusal(StrEnum):
    """Nothing was changed, but for an order that timed out: its message says so. A message for people goes beside it."""

    # The request itself
    BAD_REQUEST = "bad_request"  # no map {v, id, cmd, args}, or too large
    BAD_VERSION = "bad_version"  # of another version of the control socket
    UNKNOWN_COMMAND = "unknown_command"
    BAD_ARGUMENTS = "bad_arguments"
    FORBIDDEN = "forbidden"  # its key, or its caller, may not
    # The thing that it is about
    UNKNOWN = "unknown"  # a trace or a snapshot
    UNKNOWN_BRIDGE = "unknown_bridge"
    UNKNOWN_LANE = "unknown_lane"
    UNKNOWN_MEMBER = "unknown_member"  # of the cluster
    NO_SUCH_SESSION = "no_such_session"
    NO_DEAD_LETTERS = "no_dead_letters"  # the bridge never had any
    NOT_A_CLIENT = "not_a_client"  # it is one of the node's own sessions
    NOT_CONNECTED = "not_connected"  # a client of which only the session is there
    NOT_CONFIGURED = "not_configured"  # a bridge of which only the queues are there
    # The state of the node
    BUSY = "busy"  # too much of that kind is under way; ask again
    STOPPING = "stopping"
    UNAVAILABLE = "unavailable"  # the store, the disk or the clients' process does not answer for now
    NOT_RUNNING = "not_running"  # the node did not answer in time
    DAMAGED = "damaged"  # it cannot be read
    DISK_FULL = "disk_full"
    FULL = "full"  # the queue has no room
    IN_MEMORY = "in_memory"  # nothing is on a disk to make a snapshot of
    NOT_KEPT = "not_kept"  # events, where none are kept
    # The cluster
    NOT_REPLICATED = "not_replicated"
    STANDBY = "standby"  # the member that leads is to be asked
    LEADS = "leads"  # the member that leads is not forgotten
    ALONE = "alone"  # there is nobody to lead instead
    BEHIND = "behind"  # the member cannot lead yet
