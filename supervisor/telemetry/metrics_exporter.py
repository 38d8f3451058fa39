"""The actor that has the metrics sent each interval, and tells what becomes of that.

A thread asks the node for its status, as any client of the control socket does, and sends. A slow collector keeps that thread
alone: one sending is under way at a time, and metrics that could not be sent are not kept, because the next ones tell as much.
"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.process.actor import MailboxActor
from actors.process.mailbox import Mailbox
from supervisor.config.extras import NO_OTEL
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError, NotRunning
from supervisor.version import VERSION
from wire.config_settings import NodeSettings, OtlpSettings
from wire.errors import BasculeError, ConfigError, Unavailable
from wire.frames.frame import Frame
from wire.status.node_status import TelemetryFigures

if TYPE_CHECKING:
    from supervisor.telemetry.otlp import OtlpCollector

log = logging.getLogger("bascule")

SEND_TIMER = "send"
STUCK_S = 30.0  # beyond its time a sending may be stuck where no timeout reaches: in the name look-up, in an answer that drips
SAID_AGAIN_S = 600.0
_REMEDY = "metrics are sent again each interval; see telemetry.otlp, and the collector's log"


class SendingHangs(BasculeError):
    """A sending does not end."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Sending's thread -> actor: it has ended. error: why the collector took nothing, or what it said; why: in a word, if nothing.

    taken: whether it took the metrics; refused: how many values not. fault: what ends the process.
    """

    taken: bool = False
    refused: int = 0
    error: str = ""
    why: str = ""
    fault: BasculeError | None = None


class MetricsExporter(MailboxActor):
    """One a node."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        if settings.telemetry is None:
            raise ConfigError("the configuration has no telemetry")
        self._otlp: OtlpSettings = settings.telemetry.otlp
        self._node = ControlClient.of_run_dir(settings.run_dir)
        self._collector: OtlpCollector | None = None
        self._sending_since_s: float | None = None
        self._exports = self._failures = self._refused = 0
        self._last_export_ms: int | None = None
        self._failing_since_s: float | None = None
        self._error = self._why = ""
        self._said = ""  # the failure that the log has, if it does not have its end
        self._said_s: float | None = None  # when it was told of one last

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self.ready()
        self._send(self.mailbox.now_s())

    def on_timer(self, name: str, now_s: float) -> None:
        if name == SEND_TIMER:
            self._send(now_s)

    def on_thread_message(self, message: Any) -> None:
        match message:
            case Sent(fault=None):
                self._sending_since_s = None
                self._note(message)
            case Sent():
                assert message.fault is not None
                raise message.fault

    def on_frame(self, frame: Frame) -> None:
        log.error("frame.refused", extra={"actor": self.name, "error": "no frame comes here", "kind": frame.KIND})

    def status(self) -> TelemetryFigures:
        failing_since_s = self._failing_since_s
        return TelemetryFigures(
            endpoint=self._otlp.endpoint,
            exports=self._exports,
            failures=self._failures,
            points_refused=self._refused,
            last_export_ms=self._last_export_ms,
            failing_s=None if failing_since_s is None else round(self.mailbox.now_s() - failing_since_s, 3),
            error=self._error,
            fault=self._why,
        )

    # --- inside ---

    def _send(self, now_s: float) -> None:
        self.mailbox.set_timer(SEND_TIMER, now_s + self._otlp.interval_s)
        if self._sending_since_s is None:
            self._sending_since_s = now_s
            self.mailbox.in_thread("otlp", self._in_thread)
        elif now_s - self._sending_since_s > self._otlp.timeout_s + STUCK_S:
            raise SendingHangs("the sending of metrics does not end", endpoint=self._otlp.endpoint)

    def _in_thread(self) -> None:
        told = Sent(fault=BasculeError("the sending of metrics has ended by itself"))
        try:
            told = self._on_sent()
        except ImportError as error:
            told = Sent(fault=ConfigError(NO_OTEL, missing=error.name))
        except (ControlError, NotRunning) as error:
            told = Sent(error=f"the node itself gave no status: {error.message}")
        except Unavailable as error:
            told = Sent(error=error.message, why=str(error.fields.get("why", "")))
        finally:
            self.send_from_thread(told)

    def _on_sent(self) -> Sent:
        from supervisor.telemetry.otlp import OtlpCollector  # its libraries take a second, in which the process beats

        if self._collector is None:
            self._collector = OtlpCollector(self._otlp, resource_of(self.settings))
        status = self._node.status()
        refused, words = self._collector.send(status, time.time_ns())
        said = f"it left out {refused} values" if refused else "it says" if words else ""
        return Sent(taken=True, refused=refused, error=": ".join(text for text in (said, words) if text))

    def _note(self, sent: Sent) -> None:
        now_s = self.mailbox.now_s()
        was_failing = self._failing_since_s is not None
        self._error, self._why = sent.error, sent.why
        self._refused += sent.refused
        if sent.taken:
            self._exports += 1
            self._last_export_ms = self.mailbox.wall_ms()
            self._failing_since_s = None
        else:
            self._failures += 1
            self._failing_since_s = self._failing_since_s if was_failing else now_s
        self._say(now_s)

    def _say(self, now_s: float) -> None:
        """Log what is wrong, if that is not said already, and its end; of a collector that comes and goes only now and then."""
        if self._error and self._error != self._said and (self._said_s is None or now_s - self._said_s >= SAID_AGAIN_S):
            self._said, self._said_s = self._error, now_s
            log.warning("telemetry.failed", extra={"endpoint": self._otlp.endpoint, "error": self._error, "remedy": _REMEDY})
        elif not self._error and (self._said or (self._exports == 1 and not self._failures)):
            self._said = ""
            log.info("telemetry.sent", extra={"endpoint": self._otlp.endpoint})


def resource_of(settings: NodeSettings) -> dict[str, str]:
    """Attributes of the node in each export, by OpenTelemetry's names."""
    return {
        "service.name": "bascule",
        "service.instance.id": settings.node.name,
        "service.version": VERSION,
        "host.name": socket.gethostname(),
    }
