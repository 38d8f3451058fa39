"""The login of one link over time: it is read anew before it ends and when a file changes, and its end is told beforehand.

``wire/exchange/credential_expiry.py`` decides when; ``actors/bridge/remote_link.py`` brings a newer login to the remote: by AUTH
[MQTT5-4.12.1] where enhanced authentication is configured and the remote takes it, else by a new connection.
"""

from __future__ import annotations

import logging
import time

from actors.bridge.lane_names import Lane
from actors.bridge.lane_reports import LaneReports
from actors.process.mailbox import Mailbox
from actors.remote.credentials import NO_LOGIN, Login
from actors.remote.remote_dialer import LoginRead, RemoteDialer
from wire.errors import PeerViolation
from wire.exchange import remote_packets
from wire.exchange.credential_expiry import CredentialRenewal
from wire.mqtt.reason_codes import ReasonCode
from wire.status.event_kinds import EventKind
from wire.status.link_faults import LinkFault

log = logging.getLogger("bascule")

LOGIN_TIMER = "login"
FILES_PERIOD_S = 2.0  # between two looks at files
PERIOD_S = 60.0  # at the clock, which may have been set
CAUSE_MAX = 300


class LoginRenewal:
    """Looks after the login of one connection at a time. login: what the remote knows of us now."""

    def __init__(self, mailbox: Mailbox, lane: Lane, reports: LaneReports, dialer: RemoteDialer) -> None:
        self.login = NO_LOGIN
        self._mailbox = mailbox
        self._lane = lane
        self._reports = reports
        self._dialer = dialer
        self._renewal = CredentialRenewal(lane.bridge.remote.credentials.renew_before_s)
        self._reading = False
        self._error = ""  # why none could be read since the last
        self._told_certificate_s: float | None = None  # the end of which it was told
        self._place = ""  # the address of the connection
        self._offered: Login | None = None  # by AUTH, and not answered yet
        self._answer_due_s = 0.0
        self._without_auth: set[str] = set()  # addresses that did not take it

    # --- a connection ---

    def on_used(self, login: Login, place: str) -> None:
        """A connection to ``place`` was opened with ``login``, or the remote there has taken it by AUTH."""
        self._place, self._offered = place, None
        newer = self.login is not NO_LOGIN and not login.is_same(self.login)
        self.login, self._error = login, ""
        self._renewal.on_used(login.ends_at_s, self._wall_s())
        if newer:
            ends = {"ends_at": _utc(login.ends_at_s)} if login.ends_at_s is not None else {}
            log.info("credential.renewed", extra={**self._lane.facts, **ends})
            self._reports.event(EventKind.CREDENTIAL_RENEWED, "", ends)
        if login.stale:
            self._on_no_newer(login.stale)
        self._look_at_certificate()
        self._wait()

    def on_disconnected(self) -> None:
        """The connection is gone; the next one brings a login of its own."""
        if self._offered is not None:
            self._without_auth.add(self._place)
            self._offered = None
        self._mailbox.cancel_timer(LOGIN_TIMER)

    # --- while it stands ---

    def look(self) -> bool:
        """Time to look: whether the login is to be read anew, which ``on_read`` tells of."""
        self._look_at_certificate()
        changed = self._dialer.credentials.has_changed()
        begins = not self._reading and self._offered is None and (changed or self._renewal.is_due(self._wall_s()))
        self._reading |= begins
        self._wait()
        return begins

    def on_read(self, read: LoginRead) -> Login | None:
        """The login was read: the newer one that is to be brought to the remote, if it is one."""
        self._reading = False
        if read.login is None or read.login.stale:
            self._on_no_newer(read.error if read.login is None else read.login.stale)
        elif read.login.is_same(self.login):
            self._error = ""
            self._on_no_newer("")
        else:
            return read.login
        self._wait()
        return None

    # --- AUTH ---

    def offer(self, login: Login) -> bytes:
        """The AUTH that brings ``login`` to the remote; empty where it takes a new connection."""
        settings = self._lane.bridge.remote
        wanted = settings.authentication
        if wanted is None or login.data is None or self._place in self._without_auth or not login.differs_by_data(self.login):
            return b""
        self._offered = login
        self._answer_due_s = self._mailbox.now_s() + settings.connect_timeout_s
        self._mailbox.set_timer(LOGIN_TIMER, self._answer_due_s)
        return remote_packets.reauthenticate(wanted.method, login.data)

    def on_auth(self, reason_code: int) -> None:
        """The remote has answered it.

        Raises:
            PeerViolation: nobody asked, or it wants another step, which there is not.
        """
        login = self._offered
        if login is None or reason_code != ReasonCode.SUCCESS:
            raise PeerViolation("MQTT-4.12.0-6 AUTH that does not end a re-authentication", reason_code=ReasonCode.PROTOCOL_ERROR)
        self.on_used(login, self._place)

    @property
    def is_unanswered(self) -> bool:
        """Whether the remote has had its time to answer AUTH; a new connection does it then."""
        return self._offered is not None and self._mailbox.now_s() >= self._answer_due_s

    def _on_no_newer(self, error: str) -> None:
        news = self._renewal.on_no_newer(self._wall_s())
        if error and error != self._error:
            log.warning("credential.unread", extra={**self._lane.facts, "error": error})
            self._reports.event(EventKind.CREDENTIAL_UNREAD, error[:CAUSE_MAX], {})
        self._error = error or self._error
        if news and self.login.ends_at_s is not None:
            facts = {"what": "password or token", "ends_at": _utc(self.login.ends_at_s)}
            log.warning("credential.ends", extra={**self._lane.facts, **facts})
            self._reports.event(EventKind.CREDENTIAL_ENDS, facts["what"], {"ends_at": facts["ends_at"]})

    def _look_at_certificate(self) -> None:
        ends_at_s = self.login.certificate_ends_at_s
        if self._certificate_ends_soon and ends_at_s is not None and ends_at_s != self._told_certificate_s:
            self._told_certificate_s = ends_at_s
            log.warning("credential.ends", extra={**self._lane.facts, "what": "certificate", "ends_at": _utc(ends_at_s)})
            self._reports.event(EventKind.CREDENTIAL_ENDS, "certificate", {"ends_at": _utc(ends_at_s)})

    @property
    def _certificate_ends_soon(self) -> bool:
        soon_at_s = self.login.certificate_ends_soon_at_s
        return soon_at_s is not None and self._wall_s() >= soon_at_s

    def _wait(self) -> None:
        """Look again: for a file that changes, for what ends; never, where neither can be."""
        credentials = self._dialer.credentials
        if not credentials.renewable or self._offered is not None:
            return
        period_s = FILES_PERIOD_S if credentials.has_files else PERIOD_S
        if (due_at_s := self._renewal.due_at_s) is not None and not self._reading:
            period_s = min(period_s, max(0.0, due_at_s - self._wall_s()))
        self._mailbox.set_timer(LOGIN_TIMER, self._mailbox.now_s() + max(period_s, 0.05))

    def _wall_s(self) -> float:
        return self._mailbox.wall_ms() / 1000

    # --- status ---

    @property
    def ends_in_s(self) -> float | None:
        """How long the password or token holds still, where it says so."""
        left_s = self._renewal.left_s(self._wall_s())
        return None if left_s is None else round(left_s, 3)

    @property
    def certificate_ends_in_s(self) -> float | None:
        """How long our certificate is valid still."""
        ends_at_s = self.login.certificate_ends_at_s
        return None if ends_at_s is None else round(ends_at_s - self._wall_s(), 3)

    def note(self) -> tuple[str, LinkFault | None]:
        """What an operator should know of the login of a standing link; empty if there is nothing."""
        if self._error:
            return self._error, LinkFault.CREDENTIALS
        if self._renewal.overdue and self.login.ends_at_s is not None:
            return f"the password or token ends at {_utc(self.login.ends_at_s)}, and there is no newer one", LinkFault.LOGIN_ENDS
        if self._certificate_ends_soon and self.login.certificate_ends_at_s is not None:
            return f"the certificate ends at {_utc(self.login.certificate_ends_at_s)}", LinkFault.LOGIN_ENDS
        return "", None


def _utc(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
