"""Credentials for a remote: read from a file, the environment or a command, and kept while they hold.

They are read by the threads that open connections, never by the actors' own: a command may take its time. When one is to be made
anew is decided by ``wire/exchange/credential_expiry.py``.
"""

from __future__ import annotations

import calendar
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from actors.remote.remote_tls import TlsSecrets, context, secrets_of
from actors.remote.secret_source import CannotRead, Source
from actors.system.certificates import CertificateFault
from actors.system.tls import certificate_dates
from actors.system.watched_file import State, state_of
from wire.config_settings import RemoteSettings
from wire.errors import Unavailable
from wire.exchange.credential_expiry import ends_at_s
from wire.status.link_faults import LinkFault

SOON_S = 30 * 86_400.0  # before a certificate ends, or the last third of its life


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a CONNECT says of who we are. It is not shown by ``repr``, which a log might write.

    tls: the secrets below TLS. ends_at_s: when the first of its secrets ends, in seconds of UTC; None where none
    says so. certificate_ends_at_s, certificate_ends_soon_at_s: the same of our certificate, and from when on that is worth a
    warning. stale: why it is the login from before; empty if it is not.
    """

    password: str | None = None
    data: bytes | None = None
    tls: TlsSecrets = field(default_factory=TlsSecrets)
    ends_at_s: float | None = None
    certificate_ends_at_s: float | None = None
    certificate_ends_soon_at_s: float | None = None
    stale: str = ""

    def __repr__(self) -> str:
        return f"Login(ends_at_s={self.ends_at_s})"

    def is_same(self, other: Login) -> bool:
        """Whether the remote would be told the same."""
        return self._shown == other._shown

    def differs_by_data(self, other: Login) -> bool:
        """Whether it is another by its authentication data alone, which AUTH can bring to the remote."""
        return self.data != other.data and self.is_same(replace(other, data=self.data))

    @property
    def _shown(self) -> tuple[object, ...]:
        return self.password, self.data, self.tls.psk, self.certificate_ends_at_s


NO_LOGIN = Login()


def sources_of(settings: RemoteSettings) -> tuple[Source, Source]:
    """Of the password and of the data of enhanced authentication."""
    wanted = settings.authentication
    password = Source(
        key="password", file=settings.password_file, variable=settings.password_env, command=settings.password_command
    )
    if wanted is None:
        return password, Source(key="data")
    return password, Source(key="data", file=wanted.data_file, variable=wanted.data_env, command=wanted.data_command)


class Credentials:
    """The login at one remote. Threads read it; the actor asks whether its files have changed.

    renewable: whether it can ever be another, so that somebody has to look.
    """

    def __init__(self, settings: RemoteSettings, wall_s: Callable[[], float] = time.time) -> None:
        self._settings = settings.credentials
        self._wall_s = wall_s
        self._password, self._data = sources = sources_of(settings)
        self._commands = any(each.command for each in sources)
        self._tls = settings.tls if settings.secure else None
        own = (self._tls.cert_file, self._tls.key_file, self._tls.key_passphrase_file, self._tls.psk_file) if self._tls else ()
        self._files = tuple(filter(None, (*(each.file for each in sources), *own)))
        self.renewable = bool(self._files) or self._commands or any(each.variable for each in sources)
        self._lock = threading.Lock()
        self._last: Login | None = None
        self._rerun = self._fresh = False
        self._used = self._seen = self._state()

    def login(self) -> Login:
        """The login for a connection: the one that ``renewed`` has read, or that of a command while it holds; else it is read.

        Raises:
            Unavailable: it cannot be read, and there is none from before that holds.
        """
        with self._lock:
            last, fresh, self._fresh = self._last, self._fresh, False
            if last is not None and not self._rerun and (fresh or self._holds(last)):
                return last
            return self._read()

    def renewed(self) -> Login:
        """The login as it is now. Blocks.

        Raises:
            Unavailable: it cannot be read, and there is none from before that holds.
        """
        with self._lock:
            read = self._read()
            self._fresh = True
            return read

    def on_refused(self) -> None:
        """The remote did not take it: the next is not the same one from memory."""
        self._rerun = True

    @property
    def has_files(self) -> bool:
        """Whether a file can change."""
        return bool(self._files)

    def has_changed(self) -> bool:
        """Whether a file has changed since it was read last, and has been the same for two looks."""
        if not self._files:
            return False
        seen, self._seen = self._seen, self._state()
        return self._seen != self._used and self._seen == seen

    def _holds(self, login: Login) -> bool:
        """Whether a command need not run again for it."""
        return self._commands and login.ends_at_s is not None and self._wall_s() < login.ends_at_s - self._settings.renew_before_s

    def _read(self) -> Login:
        state, timeout_s = self._state(), self._settings.command_timeout_s
        try:
            password, data = self._password.read(timeout_s), self._data.read(timeout_s)
            secrets = TlsSecrets() if self._tls is None else secrets_of(self._tls, timeout_s)
            begins_s, ends_s = self._certificate(secrets)
        except CannotRead as error:
            self._used = state
            last = self._last
            if last is None or self._rerun or (last.ends_at_s is not None and last.ends_at_s <= self._wall_s()):
                said = error.message if isinstance(error, CertificateFault) else str(error)
                raise Unavailable(f"credentials: {said}", step="credentials", fault=LinkFault.CREDENTIALS) from error
            return replace(last, stale=str(error))
        ends = [end for end in map(ends_at_s, filter(None, (password, data))) if end is not None]
        self._used, self._rerun = state, False
        self._last = Login(
            password=password,
            data=None if data is None else data.encode(),
            tls=secrets,
            ends_at_s=min(ends, default=None),
            certificate_ends_at_s=ends_s,
            certificate_ends_soon_at_s=None if ends_s is None else ends_s - min(SOON_S, (ends_s - begins_s) / 3),
        )
        return self._last

    def _certificate(self, secrets: TlsSecrets) -> tuple[float, float | None]:
        """From when and until when our certificate is valid; it fits its key, so a half-written pair is none."""
        if self._tls is None or self._tls.cert_file is None:
            return 0.0, None
        context(self._tls, secrets)
        begins, ends = (calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")) for text in certificate_dates(self._tls.cert_file))
        return begins, ends

    def _state(self) -> tuple[State, ...]:
        return tuple(map(state_of, self._files))
