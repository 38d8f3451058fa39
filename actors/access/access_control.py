"""Authentication and authorization of local clients: the Listener's keeper of password files, logins and access control lists.

It owns the logins that wait, the clients' rights, and the counts; the tables are ``password_file.py``'s. The decisions are in
``wire``: ``wire/access/access_rules.py``, ``wire/access/password_table.py``, ``login_limits.py``, ``login_queue.py``, and the
CONNACK codes in ``wire/access/connect_checks.py``.

A password is verified in a thread, a few at a time, because it takes tens of milliseconds on purpose; the client's socket is not
read meanwhile. Password files are read again when they change; connections that are there stay. ACL files are read by the
supervisor, which sends their rules; the Distributor gets them from here, in order with what clients publish.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from hashlib import blake2b
from typing import Protocol

from actors.access.client import Client
from actors.access.login_limits import LoginLimits
from actors.access.login_queue import LoginQueue
from actors.access.password_file import PasswordFile
from actors.process.mailbox import Mailbox
from wire.access.access_lists import AccessLists
from wire.access.connect_checks import LoginFault
from wire.access.password_table import PasswordTable
from wire.config_settings import AccessSettings, SettingsNow
from wire.frames.frame import Frame
from wire.frames.names import DISTRIBUTOR
from wire.frames.supervision import AclChanged
from wire.mqtt.packets import Connect
from wire.status.client_figures import AccessFigures

log = logging.getLogger("bascule")
_COUNTED = tuple(each.name for each in fields(AccessFigures) if each.name != "logins_waiting")

VERIFIED_AT_ONCE = 2
WAITING_MAX = 2048
REPORT_PERIOD_S = 1.0  # of each kind of event: one line, and how many were left out
_NAME_SHOWN = 64

Verdict = LoginFault | None  # None: the client may come in
Done = Callable[[Verdict], None]


@dataclass(frozen=True, slots=True)
class Login:
    """A client whose password is to be verified; ``done`` is told the verdict."""

    client: Client
    passwords: PasswordFile
    user: str
    password: bytes
    done: Done


@dataclass(frozen=True, slots=True)
class Verified:
    """Thread -> Listener: whether the password is right for the hash ``stored``; None if that could not be found out."""

    login: Login
    stored: str
    right: bool | None


class Host(Protocol):
    """Local clients, as far as access needs them."""

    mailbox: Mailbox
    settings: SettingsNow

    def send(self, peer: str, frame: Frame) -> None: ...
    def clients(self) -> list[Client]: ...


@dataclass(frozen=True, slots=True)
class _Policy:
    """The policy of one listener."""

    allow_anonymous: bool
    passwords: PasswordFile | None


class AccessControl:
    """Judges logins and gives each client its rights."""

    def __init__(self, host: Host, send_from_thread: Callable[[Verified], bool]) -> None:
        """``send_from_thread`` has ``on_verified`` called, in the Listener's thread; it may be called in any."""
        self._host = host
        self._send_from_thread = send_from_thread
        self._limits = LoginLimits(lambda: host.settings.now.access.login_limits)
        self._queue: LoginQueue[Login] = LoginQueue(WAITING_MAX)
        self._verifying = 0
        self._key = os.urandom(32)
        self._passwords: dict[str, PasswordFile] = {}
        self._know()
        self._reported_s: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._on_denial: Callable[[Client, bytes], None] | None = None
        self._counts = dict.fromkeys(_COUNTED, 0)

    def _know(self) -> None:
        settings = self._host.settings.now
        known, self._passwords = self._passwords, {}
        self._lists = AccessLists(settings)
        self._of_node = self._policy(settings.access, known)
        self._policies = {listener.bind: self._policy(listener.access or settings.access, known) for listener in settings.listeners}
        if self._passwords and not known:
            from actors.access.password_hashes import give_memory_back  # only where there are passwords

            give_memory_back()

    def _policy(self, access: AccessSettings, known: Mapping[str, PasswordFile]) -> _Policy:
        """known: the password files that were in use."""
        path = access.password_file
        if path is not None and path not in self._passwords:
            self._passwords[path] = known.get(path) or PasswordFile(path)
        return _Policy(access.allow_anonymous, None if path is None else self._passwords[path])

    def on_settings_changed(self) -> None:
        """Others hold, for those who are here as well: each has the rights that they give. See ``unwelcome``."""
        self._know()
        self.reload()
        self._give_all_rights()

    def unwelcome(self) -> list[Client]:
        """Connected clients that could not come in any more: anonymous where that is not allowed now, or of a user that is not
        known now."""
        return [client for client in self._host.clients() if client.flow is not None and not self._would_let_in(client)]

    def _would_let_in(self, client: Client) -> bool:
        policy = self._policies.get(client.listener, self._of_node)
        if client.user is None:
            return policy.allow_anonymous
        known = policy.passwords is not None and policy.passwords.table.hash_of(client.user) is not None
        return known or client.certificate_user is not None

    def status(self) -> AccessFigures:
        """Figures for ``bascule status``."""
        return AccessFigures(**self._counts, logins_waiting=len(self._queue) + self._verifying)

    def reload(self) -> None:
        """Read what has changed; call it once a second or so."""
        for passwords in self._passwords.values():
            passwords.reload()

    # --- logins ---

    def judge(self, client: Client, connect: Connect, done: Done) -> None:
        """Find out who ``client`` is; tell ``done`` the verdict, now or when its password is verified.

        A client that has proven a user by its certificate needs no password, and the user name in its CONNECT has no effect.
        Without a password file there are no other users: whoever may come in is anonymous, whatever name it brings. A password
        without a user name proves nothing [MQTT-3.1.2.9].
        """
        if client.certificate_user is not None:
            self._counts["logins"] += 1
            client.is_user(client.certificate_user)
            done(None)
            return
        policy = self._policies.get(client.listener, self._of_node)
        passwords = policy.passwords
        if connect.user_name is None or passwords is None:
            if policy.allow_anonymous:
                done(None)
            else:
                self._refuse(client, "", LoginFault.NO_USER_NAME, done)
            return
        login = Login(client, passwords, connect.user_name, connect.password or b"", done)
        if not self._decided(login):
            gave_way = self._queue.add(client.origin, login)
            if gave_way is not None:
                self._refuse_login(gave_way, LoginFault.BUSY)
            self._verify_next()

    def on_verified(self, verified: Verified) -> None:
        """A thread has found out about a password."""
        self._verifying -= 1
        login = verified.login
        if verified.right is None:
            log.error("login.unverified", extra={"user": login.user[:_NAME_SHOWN], "why": "argon2 could not run"})
            self._refuse_login(login, LoginFault.BUSY)
        elif verified.right and login.passwords.table.hash_of(login.user) == verified.stored:  # it may be another one by now
            self._counts["logins_verified"] += 1
            self._let_in(login, *self._digests(login))
        else:
            self._on_failed(login)
        self._verify_next()

    def _verify_next(self) -> None:
        """Start as many verifications as may run; what needs none is decided on the way."""
        while self._verifying < VERIFIED_AT_ONCE:
            login = self._queue.take()
            if login is None:
                return
            if login.client.closed or self._decided(login):  # by what came of others meanwhile
                continue
            self._verifying += 1
            self._host.mailbox.in_thread("login", partial(self._verify, login, login.passwords.table))

    def _verify(self, login: Login, table: PasswordTable) -> None:
        """In a thread. A user who does not exist costs what one who does would."""
        from actors.access.password_hashes import DECOY, give_way, verify_password

        give_way()
        stored = table.hash_of(login.user)
        right = verify_password(stored or table.decoy(login.user, self._key) or DECOY, login.password)
        if stored is None and right:
            right = False
        self._send_from_thread(Verified(login, stored or "", right))

    def _decided(self, login: Login) -> bool:
        """Let in who is known, and refuse whose address or user has to wait; False where the password is to be verified."""
        origin, (user, credential), now_s = login.client.origin, self._digests(login), self._host.mailbox.now_s()
        if self._limits.is_known(origin, user, credential, now_s):
            self._let_in(login, user, credential)
        elif self._limits.refuses(origin, user, now_s):
            self._limits.guessed(origin, user, credential, now_s)
            self._refuse_login(login, LoginFault.BLOCKED)
        else:
            return False
        return True

    def _digests(self, login: Login) -> tuple[bytes, bytes]:
        """Of the user as the password file has it now, and of that with the password. A name that nobody has costs the same."""
        user = login.user.encode()
        stored = (login.passwords.table.hash_of(login.user) or "").encode()
        who = blake2b(len(user).to_bytes(4, "big") + user + stored, key=self._key, digest_size=16).digest()
        return who, blake2b(who + login.password, key=self._key, digest_size=32).digest()

    def _let_in(self, login: Login, user: bytes, credential: bytes) -> None:
        self._counts["logins"] += 1
        self._limits.let_in(login.client.origin, user, credential, self._host.mailbox.now_s())
        login.client.is_user(login.user)
        if not login.client.closed:
            login.done(None)

    def _on_failed(self, login: Login) -> None:
        self._counts["logins_failed"] += 1
        user, _ = self._digests(login)
        address_waits, user_waits = self._limits.on_failed(login.client.origin, user, self._host.mailbox.now_s())
        self._refuse_login(login, LoginFault.WRONG)
        if address_waits:
            self._counts["addresses_blocked"] += 1
            log.warning("address.blocked", extra={"address": login.client.origin, "why": "too many failed logins"})
        if user_waits:
            self._counts["users_blocked"] += 1
            log.warning("user.blocked", extra={"user": login.user[:_NAME_SHOWN], "why": "failed logins from too many addresses"})

    def _refuse_login(self, login: Login, fault: LoginFault) -> None:
        self._refuse(login.client, login.user, fault, login.done)

    def _refuse(self, client: Client, user: str, fault: LoginFault, done: Done) -> None:
        self._counts["logins_refused"] += 1
        self._log_limited("login.refused", client, user=user[:_NAME_SHOWN], why=fault.value)
        if not client.closed:
            done(fault)

    # --- rights ---

    def bind_of(self, client: Client) -> str:
        """The address of the listener by which ``client`` came: by it other processes know what rights it has."""
        return client.listener

    def give_rights(self, client: Client) -> None:
        """Give ``client`` those of its listener, user and session; again when it begins to publish, and when the rules are others.

        Where not everything is allowed, the parser asks about what it publishes.
        """
        rights = self._lists.rights_at(client.listener, client.user, client.session)
        client.may(rights, None if rights is None else partial(self.check_publish, client))

    def on_acl_changed(self, frame: AclChanged) -> None:
        """Judge everything from now on by other rules."""
        if not self._lists.change(frame):
            return
        log.info("acl.reloaded", extra={"path": frame.path, "rules": len(frame.rules)})
        self._give_all_rights()
        self._host.send(DISTRIBUTOR, frame)

    def _give_all_rights(self) -> None:
        for client in self._host.clients():
            if client.session:
                self.give_rights(client)

    def check_publish(self, client: Client, topic: bytes) -> bool:
        """Whether ``client`` may publish to ``topic``; a no is counted and logged."""
        if client.rights is None or client.rights.may_publish(topic):
            return True
        self._counts["publishes_forbidden"] += 1
        self._log_limited("publish.forbidden", client, topic=topic.decode()[:200])
        if self._on_denial is not None:
            self._on_denial(client, topic)
        return False

    def check_publish_left(self, session: str, user: str | None, listener: str, topic: bytes) -> bool:
        """Whether ``user``, who came by ``listener`` and is gone, may publish to ``topic``; a no is counted and logged."""
        rights = self._lists.rights_at(listener, user, session)
        if rights is None or rights.may_publish(topic):
            return True
        self._counts["publishes_forbidden"] += 1
        self._log_limited(
            "publish.forbidden", None, client_id=session, user=user, topic=topic.decode()[:200], why="its Will was due"
        )
        return False

    def watch_denials(self, on_denial: Callable[[Client, bytes], None] | None) -> None:
        """Have ``on_denial`` told of each PUBLISH that a client may not send; None: nobody any more."""
        self._on_denial = on_denial

    def check_subscribe(self, client: Client, topic_filter: str) -> bool:
        """Whether ``client`` may subscribe to ``topic_filter``; a no is counted and logged."""
        if client.rights is None or client.rights.may_subscribe(topic_filter):
            return True
        self._counts["subscriptions_forbidden"] += 1
        self._log_limited("subscription.forbidden", client, filter=topic_filter[:200])
        return False

    def check_take_over(self, client: Client, older: Client) -> bool:
        """Whether ``client`` may take the place of ``older``, who has the same client identifier; a no is counted and logged.

        A session of a proven user is taken over only by that user; an anonymous connection is nobody's.
        """
        if older.user is None or older.user == client.user:
            return True
        self._counts["takeovers_forbidden"] += 1
        self._log_limited("takeover.forbidden", client, owner=older.user[:_NAME_SHOWN], owner_address=older.address)
        return False

    def refuse_session(self, client: Client) -> None:
        """Count and log that the session that ``client`` asked for is another user's."""
        self._counts["takeovers_forbidden"] += 1
        self._log_limited("takeover.forbidden", client, why="its session is another user's")

    def left_out(self, count: int) -> None:
        """Count rows that were not delivered to a client because it may not read them."""
        self._counts["deliveries_forbidden"] += count

    def _log_limited(self, event: str, client: Client | None, **facts: object) -> None:
        """Log ``event``, but each kind at most once in ``REPORT_PERIOD_S``."""
        now_s = self._host.mailbox.now_s()
        if now_s - self._reported_s.get(event, float("-inf")) < REPORT_PERIOD_S:
            self._untold[event] = self._untold.get(event, 0) + 1
            return
        self._reported_s[event] = now_s
        named = {} if client is None else {"address": client.address, "client_id": client.session, "user": client.user}
        log.warning(event, extra={**named, **facts, "not_logged": self._untold.pop(event, 0)})
