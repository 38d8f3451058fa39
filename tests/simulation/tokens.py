"""A remote that lets a bridge in by tokens of one hour, and who mints them, while the wall clock is moved through days.

Nothing of the wall clock's two days has to happen: it is moved on by steps, and what looks at it looks more often.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import actors.bridge.login_renewal
import actors.remote.credentials
import actors.remote.remote_dialer
from actors.remote.credentials import Credentials, Login
from tests.simulation.process import current
from tests.simulation.world import World
from tests.support import mqtt_packets
from tests.support.mqtt_packets import AUTH_METHOD, Sender, encode_properties
from tests.wire.exchange.test_credential_expiry import jwt
from wire.config_settings import AuthenticationSettings, NodeSettings
from wire.exchange.credential_expiry import ends_at_s
from wire.mqtt.reason_codes import ReasonCode

LIFE_S = 3600.0
LOOKS_S = 0.25
METHOD = "OAUTH2-JWT"
LEVEL_5 = 5
AUTH, PASSWORD = "auth", "password"


class Tokens:
    """The remote's record of who is let in until when.

    takes_auth: it lets a client renew its token by AUTH. expired: how often one ran out on a connection. renewed: by AUTH.
    """

    def __init__(self, world: World, *, takes_auth: bool, by_auth: bool) -> None:
        """by_auth: the token is authentication data, else a password."""
        self.takes_auth = takes_auth
        self.expired = self.renewed = self.refused = 0
        self.connections: dict[str, int] = {}  # by client identifier
        self.minted = 0
        self.vault_is_away = False
        self._world = world
        self._by_auth = by_auth
        self._until_s: dict[object, float] = {}  # connections that stand, as far as they were heard of

    # --- who mints ---

    def source(self, *, asked: bool) -> _Source:
        """Where the bridge gets its token, if that is ``asked`` for there."""
        return _Source(self, ("mint",) if asked else ())

    def sources(self, settings: object) -> tuple[_Source, _Source]:
        """Of the password and of the authentication data."""
        return self.source(asked=not self._by_auth), self.source(asked=self._by_auth)

    def mint(self) -> str:
        """A token of one hour from now."""
        if self.vault_is_away:
            raise OSError("the vault is sealed")
        self.minted += 1
        return jwt(exp=self._world.wall_s() + LIFE_S)

    # --- who lets in ---

    def lets_in(self, login: Login) -> bool:
        """Whether the token of ``login`` holds now."""
        told = login.data.decode() if login.data is not None else login.password or ""
        end = ends_at_s(told)
        holds = end is not None and end > self._world.wall_s()
        self.refused += not holds
        return holds

    def on_connected(self, connection: object, client_id: str, login: Login) -> None:
        """``connection`` was let in by ``login``."""
        assert login.ends_at_s is not None
        self.connections[client_id] = self.connections.get(client_id, 0) + 1
        self._until_s[connection] = login.ends_at_s

    def on_ended(self, connection: object) -> None:
        """It is gone."""
        self._until_s.pop(connection, None)

    def answer(self, connection: object, body: bytes) -> bytes:
        """The answer to an AUTH with ``body``; a DISCONNECT where it is not taken."""
        packet = mqtt_packets.judge(LEVEL_5, mqtt_packets.AUTH << 4, body, Sender.CLIENT)
        data = packet.property(mqtt_packets.AUTH_DATA)
        assert isinstance(data, bytes)
        if not self.takes_auth or packet.property(AUTH_METHOD) != METHOD or not self.lets_in(Login(data=data)):
            return mqtt_packets.packet_bytes(mqtt_packets.DISCONNECT, 0, bytes((ReasonCode.BAD_AUTHENTICATION_METHOD,)))
        self.renewed += 1
        self._until_s[connection] = float(ends_at_s(data.decode()) or 0.0)
        return mqtt_packets.packet_bytes(
            mqtt_packets.AUTH, 0, bytes((ReasonCode.SUCCESS,)) + encode_properties([(AUTH_METHOD, METHOD)])
        )

    def move(self, seconds: float) -> None:
        """The wall clock is so much further; whose token has ended by now is counted."""
        self._world.wall_shift_s += seconds
        self.expired += sum(end <= self._world.wall_s() for end in self._until_s.values())


@dataclass(frozen=True, slots=True)
class _Source:
    tokens: Tokens
    command: tuple[str, ...]
    file: str | None = None
    variable: str | None = None

    def read(self, timeout_s: float) -> str | None:
        return self.tokens.mint() if self.command else None


def with_tokens(settings: NodeSettings, *, by_auth: bool) -> NodeSettings:
    """``settings`` whose first bridge has its login from ``Tokens.sources``."""
    bridge, *others = settings.bridges
    authentication = AuthenticationSettings(method=METHOD, data_command=("mint",)) if by_auth else None
    remote = replace(bridge.remote, authentication=authentication, username="edge")
    return replace(settings, bridges=(replace(bridge, remote=remote), *others))


@contextmanager
def minted_by(tokens: Tokens) -> Iterator[None]:
    """The bridge has its tokens from there, and looks at the clock more often."""

    def wall_s() -> float:
        process = current()
        return process.world.wall_s() + process.lag_s

    patches: list[tuple[Any, str, Any]] = [
        (actors.remote.credentials, "sources_of", tokens.sources),
        (actors.remote.remote_dialer, "Credentials", partial(Credentials, wall_s=wall_s)),
        (actors.bridge.login_renewal, "PERIOD_S", LOOKS_S),
    ]
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in kept:
            setattr(owner, name, value)
