"""The states of what is told of in the status."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class ChildState(StrEnum):
    """Of a process under the supervisor. SILENT: ready, and not heard for two heartbeats and 3 s; NEW: it was never started."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DAMAGED = "damaged"
    MISCONFIGURED = "misconfigured"


class LinkState(StrEnum):
    """Of a lane's link to its remote. BACKOFF: it waits for the next attempt. CLOSED: by choice, as the bridge is configured."""

    CONNECTED = "connected"
    CONNECTING = "connecting"
    BACKOFF = "backoff"
    PAUSED = "paused"
    CLOSED = "closed"


NO_TROUBLE = (LinkState.CONNECTED, LinkState.PAUSED, LinkState.CLOSED)  # states in which a link is as somebody wants it


class WindowReason(StrEnum):
    """Why no more QoS 2 messages may be in flight. FIRST: more were not needed yet; UNKNOWN: an MQTT 3.1.1 remote could not be
    asked; STATED: the remote says so; CONFIGURED: ``qos2_maximum`` or ``receive_maximum``.
    """

    FIRST = "first"
    UNKNOWN = "unknown"
    STATED = "stated"
    CONFIGURED = "configured"


class WithCure(StrEnum):
    """A reason; ``cure``: what to do about it, in words, or empty."""

    cure: str

    def __new__(cls, reason: str, cure: str = "") -> Self:
        """The reason as it is written, and its cure."""
        member = str.__new__(cls, reason)
        member._value_ = reason
        member.cure = cure
        return member


class StoreState(WithCure):
    """Of the store. DISK_LOW: less room is left than is to be; LOG_AWAY: the log of the cluster cannot be used."""

    OPENING = "opening"
    RUNNING = "running"
    DISK_LOW = "disk_low", "make room on the disk of node.data_dir, or lower limits.min_free_disk"
    DISK_FULL = "disk_full", "make room on the disk of node.data_dir; the node then goes on by itself"
    DISK_ERROR = "disk_error", "see what is wrong with the disk: dmesg, smartctl, ulimit -n"
    LOG_AWAY = "log_away", "see that a majority of the NATS servers runs and is reached; the node then goes on by itself"
    STORE_GONE = "store_gone"  # its error ends with the cure


class CollectorFault(WithCure):
    """Why a collector did not take the metrics. OTHER: nothing of this."""

    OTHER = (
        "other",
        "check telemetry.otlp.endpoint, and that a collector takes OTLP over HTTP there: port 4318; 4317 is for gRPC",
    )
    FORBIDDEN = "forbidden", "check telemetry.otlp.headers against what the collector lets in"
    CERTIFICATE = "certificate", "give the authority that signed the collector's certificate as telemetry.otlp.tls.ca_file"
    NAME = "name", "check the host name in telemetry.otlp.endpoint, and the machine's resolver (getent hosts NAME)"
    REDIRECTED = "redirected", "write the place that it names as telemetry.otlp.endpoint"
