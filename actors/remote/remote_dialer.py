"""Opens connections to a lane's remote, and probes its first address, each in a thread of its own that ends with one message.

How one socket is opened is ``actors/remote/remote_socket.py``'s; which address is tried first, and what becomes of the result, the
caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from actors.remote.credentials import NO_LOGIN, Credentials, Login
from actors.remote.dialect_file import DialectFile
from actors.remote.remote_socket import DISCONNECT, LEVEL_5, InputLimits, Remote, open_remote, probe_remote
from actors.remote.remote_tcp import is_among
from wire.config_settings import RemoteSettings
from wire.errors import Unavailable
from wire.exchange.announcements import Announcement
from wire.exchange.failback import Address, place_of
from wire.exchange.remote_dialects import Dialect, RefusedDialect, RemoteDialects, refused_by
from wire.exchange.server_references import server_references
from wire.status.link_faults import LinkFault, fault_of

log = logging.getLogger("bascule")

_LOGIN_FAULTS = (LinkFault.USER, LinkFault.NOT_AUTHORIZED, LinkFault.LOGIN)
ASKS = "-limits"  # behind the client identifier: the session of the bridge itself is not to be touched


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningEnded:
    """Opening thread -> Connection: it is connected, or could not connect. ``clean``: it had ended the remote's session first.

    tried_first: the first of the addresses was tried in vain. login: what it said of who we are. refused: in which dialects the
    remote did not let us in before it did.
    """

    remote: Remote | None
    error: Unavailable | None
    clean: bool
    tried_first: bool
    login: Login = NO_LOGIN
    refused: tuple[RefusedDialect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEnded:
    """Probing thread -> Connection: the first address answers, or ``error`` says why not."""

    number: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsTold:
    """Asking thread -> Connection: what the remote of the connection ``of`` says to MQTT 5.

    receive_maximum: None where it does not answer; ``error`` says why. final: it would not if it were asked again.
    """

    of: Remote
    receive_maximum: int | None = None
    error: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRead:
    """Reading thread -> Connection: the login of the connection ``of`` was read anew; None where ``error`` says why not."""

    of: Remote
    login: Login | None
    error: str = ""


class RemoteDialer:
    """The ways to one remote, as ``settings`` has them, for the client ``client_id``. credentials: the login there."""

    def __init__(
        self,
        settings: RemoteSettings,
        client_id: str,
        *,
        try_private: bool,
        remembered: DialectFile,
        in_thread: Callable[[str, Callable[[], None]], None],
        tell: Callable[[object], bool],
        will: Announcement | None = None,
    ) -> None:
        """try_private: at MQTT 3.1.1, say first that a bridge comes. remembered: what the remote refused before. in_thread: runs a
        job in a thread of that name. tell: takes its message, in that thread; False if nobody wants it. will: of the connections
        that are dialled; one that only asks has none.
        """
        self._settings = settings
        self._client_id = client_id
        self._will = will
        self.credentials = Credentials(settings)
        self._remembered = remembered
        self._dialects = RemoteDialects(settings.levels, try_private=try_private, known=remembered.read())
        self._in_thread = in_thread
        self._tell = tell

    def dial(self, addresses: list[Address], limits: InputLimits, *, preferred: str, clean: bool, wall_ms: int) -> None:
        """Connect to the first of ``addresses`` that lets us in; ``OpeningEnded`` is told. Only the preferred one is cleaned."""
        ways = [(address, self._dialects.at(place_of(address), wall_ms)) for address in addresses]
        self._in_thread("opening", partial(self._dial, ways, limits, preferred, clean))

    def on_connected(self, remote: Remote, refused: tuple[RefusedDialect, ...], wall_ms: int) -> None:
        """Remember in which dialects the ``remote`` is not to be reached, and say so."""
        news = self._dialects.on_connected(remote.address, remote.dialect, refused, wall_ms)
        for dialect, holds_ms in refused:
            facts = {"address": remote.address, "protocol": dialect.level, "private": dialect.private, "holds_s": holds_ms // 1000}
            log.info("remote.dialect_refused", extra=facts)
        if news:
            self._remember()

    def forget_dialects(self) -> None:
        """Try the best dialect again, whatever was refused."""
        if self._dialects.forget():
            self._remember()

    def _remember(self) -> None:
        self._in_thread("remembering dialects", partial(self._remembered.write, lambda: self._dialects.known))

    def probe(self, number: int, address: Address) -> None:
        """See whether ``address`` answers; ``ProbeEnded`` is told."""
        self._in_thread("probing", partial(self._probe, number, address))

    def ask(self, of: Remote) -> None:
        """Ask the remote of that connection for its limits, by a CONNECT of MQTT 5 for another session; ``LimitsTold`` is told."""
        self._in_thread("asking", partial(self._ask, of))

    def read_login(self, of: Remote) -> None:
        """Read the login anew; ``LoginRead`` is told."""
        self._in_thread("reading a credential", partial(self._read_login, of))

    def _read_login(self, of: Remote) -> None:
        told = LoginRead(of=of, login=None, error="it could not be read")
        try:
            told = LoginRead(of=of, login=self.credentials.renewed())
        except Unavailable as error:
            told = LoginRead(of=of, login=None, error=error.message)
        finally:
            self._tell(told)

    def _ask(self, of: Remote) -> None:
        told = LimitsTold(of=of, error="it could not be asked")
        settings = replace(self._settings, protocol=LEVEL_5, clean_start=True, session_expiry_s=0)
        try:
            address = next(address for address in settings.addresses if place_of(address) == of.address)
            login = self.credentials.login()
            remote = open_remote(settings, self._client_id and self._client_id + ASKS, address, clean=True, login=login)
            told = LimitsTold(of=of, receive_maximum=remote.connack.receive_maximum)
            try:
                remote.send(memoryview(DISCONNECT))
            finally:
                remote.close()
        except Unavailable as error:
            if told.receive_maximum is None:
                told = LimitsTold(of=of, error=error.message, final=error.fields.get("step") == "connack")
        finally:
            self._tell(told)

    def _dial(self, ways: list[tuple[Address, Sequence[Dialect]]], limits: InputLimits, preferred: str, clean: bool) -> None:
        ended = OpeningEnded(remote=None, error=None, clean=clean, tried_first=False)
        tried_first = False
        try:
            errors: list[str] = []
            tried: set[str] = set()
            fault = LinkFault.OTHER  # of the first address
            while ways:
                address, dialects = ways.pop(0)
                place = place_of(address)
                tried.add(place)
                cleans = clean and place == preferred
                try:
                    login = self.credentials.login()
                    remote, refused = self._open(address, dialects, limits, login, clean=cleans)
                    ended = OpeningEnded(
                        remote=remote, error=None, clean=cleans, tried_first=tried_first, login=login, refused=refused
                    )
                    break
                except Unavailable as error:
                    if fault_of(error) in _LOGIN_FAULTS:
                        self.credentials.on_refused()
                    fault = fault if errors else fault_of(error)
                    errors.append(f"{place}: {error.message}")
                    tried_first |= address == self._settings.addresses[0]
                    ways[:0] = [(other, dialects) for other in self._elsewhere(error) if place_of(other) not in tried]
                    ended = OpeningEnded(
                        remote=None, error=Unavailable("; ".join(errors), fault=fault), clean=cleans, tried_first=tried_first
                    )
        finally:
            if not self._tell(ended) and ended.remote is not None:
                ended.remote.close()

    def _elsewhere(self, error: Unavailable) -> list[Address]:
        """The servers that the remote names instead of itself, as far as they may be followed."""
        found = server_references(str(error.fields.get("server_reference", "")), 8883 if self._settings.secure else 1883)
        return [address for address in found if is_among(address[0], self._settings.follow)]

    def _open(
        self, address: Address, dialects: Sequence[Dialect], limits: InputLimits, login: Login, *, clean: bool
    ) -> tuple[Remote, tuple[RefusedDialect, ...]]:
        """Connect by the first of ``dialects`` that the remote does not refuse as such; those that it did come with it."""
        refused: list[RefusedDialect] = []
        for dialect in dialects:
            settings, own = replace(self._settings, protocol=dialect.level), self._client_id
            try:
                remote = open_remote(
                    settings, own, address, clean=clean, limits=limits, login=login, private=dialect.private, will=self._will
                )
                return remote, tuple(refused)
            except Unavailable as error:
                answer = refused_by(error, dialect)
                if dialect == dialects[-1] or answer is None:
                    raise
                refused.append(answer)
        raise AssertionError("no dialect to try")

    def _probe(self, number: int, address: Address) -> None:
        error = "it could not be probed"
        try:
            probe_remote(self._settings, address)
            error = ""
        except Unavailable as unavailable:
            error = unavailable.message
        finally:
            self._tell(ProbeEnded(number=number, error=error))
