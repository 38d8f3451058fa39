"""The Listener's keeper of access: what is verified when, and what a login costs."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.access.access_control import VERIFIED_AT_ONCE, AccessControl, Verified
from actors.access.client import Client
from actors.access.login_limits import KNOWN_S
from actors.access.password_file import PasswordFile, read_passwords
from actors.access.password_hashes import hash_password
from actors.process.mailbox import Mailbox
from tests.supervisor.settings import node_settings
from tests.support.settings import node
from wire.access.access_rules import AccessRules
from wire.access.connect_checks import LoginFault
from wire.config_settings import AccessSettings, AclRuleSettings, ListenerSettings, LoginLimitSettings, NodeSettings, SettingsNow
from wire.errors import ConfigError
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import from_rows
from wire.frames.frame import Frame
from wire.frames.names import DISTRIBUTOR
from wire.frames.supervision import AclChanged
from wire.mqtt.packets import Connect

HASH = hash_password(b"right")


class Clock(Mailbox):
    """A mailbox of which only the clock and the threads are used; jobs wait until the test runs them."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.jobs: list[Callable[[], None]] = []

    def now_s(self) -> float:
        return self.at_s

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        self.jobs.append(job)


class Host:
    """Stands for the Listener."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.mailbox: Mailbox = self.clock
        self.settings = SettingsNow(node())
        self.access: AccessControl | None = None
        self.connected: list[Client] = []
        self.verified = 0
        self.sent: list[tuple[str, Frame]] = []

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))

    def send_from_thread(self, message: Any) -> bool:
        assert isinstance(message, Verified)
        assert self.access is not None
        self.verified += 1
        self.access.on_verified(message)
        return True

    def clients(self) -> list[Client]:
        return self.connected

    def run_jobs(self, most: int = 10_000) -> None:
        while self.clock.jobs and most:
            assert len(self.clock.jobs) <= VERIFIED_AT_ONCE
            self.clock.jobs.pop(0)()
            most -= 1


class Group:
    """Stands for the poll group."""

    def watch(self, fd: int, events: int, token: object) -> None: ...
    def forget(self, fd: int) -> None: ...


@pytest.fixture(autouse=True)
def in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs run here, and this thread must not give way for good."""
    monkeypatch.setattr(os, "setpriority", lambda *arguments: None)


@pytest.fixture
def new_client() -> Iterator[Callable[[str], Client]]:
    sockets: list[socket.socket] = []

    def make(address: str = "192.0.2.1:1") -> Client:
        with socket.create_server(("127.0.0.1", 0)) as server:
            sockets.append(socket.create_connection(server.getsockname()))
            near, _ = server.accept()
        sockets.append(near)
        return Client(near, address, len(sockets), Group(), 0.0)  # type: ignore[arg-type]  # what is used of it

    yield make
    for sock in sockets:
        sock.close()


NewClient = Callable[[str], Client]


def settings(tmp_path: Path, **keys: Any) -> NodeSettings:
    path = tmp_path / "passwords"
    if not path.exists():
        path.write_text("".join(f"user-{number}:{HASH}\n" for number in range(50)))
    limits = LoginLimitSettings(failures_max=3, period_s=60.0, block_s=60.0)
    access = AccessSettings(**{"allow_anonymous": False, "login_limits": limits, "password_file": str(path), **keys})
    whole = node_settings(tmp_path)
    listener = ListenerSettings(bind="127.0.0.1:1", access=access)
    return NodeSettings(**{**{name: getattr(whole, name) for name in whole.__slots__}, "access": access, "listeners": (listener,)})


def keeper(tmp_path: Path, **keys: Any) -> tuple[AccessControl, Host]:
    host = Host()
    host.settings = SettingsNow(settings(tmp_path, **keys))
    host.access = AccessControl(host, host.send_from_thread)
    return host.access, host


def connect(user: str | None, password: bytes | None) -> Connect:
    return Connect(level=5, client_id="c", clean_start=True, keep_alive_s=0, user_name=user, password=password)


def judge(access: AccessControl, client: Client, user: str | None, password: bytes | None = b"right") -> list[LoginFault | None]:
    verdicts: list[LoginFault | None] = []
    access.judge(client, connect(user, password), verdicts.append)
    return verdicts


def test_passwords_are_verified_aside_and_a_few_at_a_time(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    verdicts = [judge(access, new_client(f"192.0.2.{number}:1"), f"user-{number}") for number in range(5)]
    assert verdicts == [[]] * 5, "nothing is decided in the Listener's own thread"
    assert len(host.clock.jobs) == VERIFIED_AT_ONCE
    assert access.status().logins_waiting == 5
    host.run_jobs()
    assert verdicts == [[None]] * 5
    assert access.status().logins_verified == 5


def test_a_user_who_does_not_exist_costs_a_verification(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    verdicts = judge(access, new_client("192.0.2.1:1"), "nobody")
    assert len(host.clock.jobs) == 1
    host.run_jobs()
    assert verdicts == [LoginFault.WRONG], "even with a password that somebody has"
    assert host.verified == 1


def test_a_success_is_remembered_until_it_is_old_or_the_password_changes(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    judge(access, new_client("192.0.2.1:1"), "user-1")
    host.run_jobs()
    assert judge(access, new_client("192.0.2.1:2"), "user-1") == [None]
    assert judge(access, new_client("192.0.2.1:2"), "user-1", b"wrong") == []
    assert judge(access, new_client("192.0.2.1:2"), "user-2") == []
    host.run_jobs()
    host.clock.at_s += KNOWN_S
    assert judge(access, new_client("192.0.2.1:3"), "user-1") == [], "old"
    host.run_jobs()
    (tmp_path / "passwords").write_text(f"another:{HASH}\nuser-1:{HASH}\n")
    access.reload()
    assert judge(access, new_client("192.0.2.1:4"), "user-1") == [None]
    (tmp_path / "passwords").write_text(f"user-1:{hash_password(b'new')}\n")
    access.reload()
    verdicts = judge(access, new_client("192.0.2.1:5"), "user-1")
    assert verdicts == [], "what is known of the other password counts no more"
    host.run_jobs()
    assert verdicts == [LoginFault.WRONG]


def test_many_clients_of_one_user_cost_one_verification_each_at_once(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    verdicts = [judge(access, new_client(f"192.0.2.1:{port}"), "user-1") for port in range(40)]
    host.run_jobs()
    assert verdicts == [[None]] * 40
    assert host.verified <= VERIFIED_AT_ONCE


def test_a_password_that_changed_while_it_was_verified_counts_no_more(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    verdicts = judge(access, new_client("192.0.2.1:1"), "user-1")
    (tmp_path / "passwords").write_text(f"user-1:{hash_password(b'new')}\n")
    access.reload()
    host.run_jobs()
    assert verdicts == [LoginFault.WRONG]


def test_after_enough_failures_those_that_wait_are_refused_without_a_look(tmp_path: Path, new_client: NewClient) -> None:
    """access.failed-logins-wait"""
    access, host = keeper(tmp_path)
    guesses = [judge(access, new_client(f"192.0.2.1:{port}"), "user-1", b"guess-%d" % port) for port in range(20)]
    other = judge(access, new_client("192.0.2.2:1"), "user-2")
    host.run_jobs(2 * 3)
    assert other == [None], "another address does not wait behind them"
    host.run_jobs()
    found = [verdict for (verdict,) in guesses]
    assert found.count(LoginFault.WRONG) <= 3 + VERIFIED_AT_ONCE - 1
    assert found.count(LoginFault.WRONG) + found.count(LoginFault.BLOCKED) == 20
    assert judge(access, new_client("192.0.2.1:99"), "user-2") == [LoginFault.BLOCKED], "even if it is right"
    host.clock.at_s = 61.0
    late = judge(access, new_client("192.0.2.1:99"), "user-2")
    host.run_jobs()
    assert late == [None]


def test_who_became_known_while_it_waited_is_let_in_though_its_address_is_refused(tmp_path: Path, new_client: NewClient) -> None:
    """access.known-login-let-in: for as long as there is that user with that password."""
    access, host = keeper(tmp_path)
    first = judge(access, new_client("192.0.2.1:1"), "user-1")
    guesses = [judge(access, new_client(f"192.0.2.1:{port}"), "user-2", b"guess-%d" % port) for port in range(2, 12)]
    behind = judge(access, new_client("192.0.2.1:99"), "user-1")
    host.run_jobs()
    assert (first, behind) == ([None], [None])
    assert {verdict for (verdict,) in guesses} == {LoginFault.WRONG, LoginFault.BLOCKED}
    assert judge(access, new_client("192.0.2.1:100"), "user-1", b"guess") == [LoginFault.BLOCKED]
    assert judge(access, new_client("192.0.2.1:100"), "user-1") == [None]
    (tmp_path / "passwords").write_text(f"user-2:{HASH}\n")
    access.reload()
    assert judge(access, new_client("192.0.2.1:101"), "user-1") == [LoginFault.BLOCKED], "there is no such user any more"


def test_a_client_that_has_gone_is_not_verified_and_not_told(tmp_path: Path, new_client: NewClient) -> None:
    access, host = keeper(tmp_path)
    clients = [new_client(f"192.0.2.{number}:1") for number in range(4)]
    verdicts = [judge(access, client, f"user-{number}") for number, client in enumerate(clients)]
    clients[0].close()
    clients[3].close()
    host.run_jobs()
    assert verdicts == [[], [None], [None], []]
    assert host.verified == 3


def test_a_certificate_needs_no_password_and_a_name_without_a_file_proves_nothing(tmp_path: Path, new_client: NewClient) -> None:
    access, _ = keeper(tmp_path)
    known = new_client("192.0.2.1:1")
    known.certificate_user = "by-certificate"
    assert judge(access, known, "user-1", b"wrong") == [None], "what CONNECT says about users has no effect"
    assert known.user == "by-certificate"
    access, _ = keeper(tmp_path, password_file=None, allow_anonymous=True)
    unproven = new_client("192.0.2.1:1")
    assert judge(access, unproven, "root", b"x") == [None]
    assert unproven.user is None


@pytest.mark.parametrize(
    ("owner", "newcomer", "allowed"),
    [
        (None, None, True),
        (None, "ada", True),
        ("ada", "ada", True),
        ("ada", "bob", False),
        ("ada", None, False),
    ],
)
def test_only_its_own_user_takes_a_connection_over(
    tmp_path: Path, new_client: NewClient, owner: str | None, newcomer: str | None, allowed: bool
) -> None:
    access, _ = keeper(tmp_path)
    older, client = new_client("192.0.2.1:1"), new_client("192.0.2.2:1")
    older.user, client.user = owner, newcomer
    assert access.check_take_over(client, older) is allowed
    assert access.status().takeovers_forbidden == (not allowed)


@pytest.mark.parametrize(
    ("address", "host"),
    [("192.0.2.1:1883", "192.0.2.1"), ("2001:db8::7:1883", "2001:db8::7"), ("::1:65535", "::1"), ("unix:pid=7,uid=0", "")],
)
def test_a_client_s_host_is_its_address_without_the_port(new_client: NewClient, address: str, host: str) -> None:
    assert new_client(address).host == host


def test_a_password_file_that_cannot_be_used_at_the_start_lets_nobody_in(
    tmp_path: Path, new_client: NewClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The Listener may be started again at any time; it must not fall over a file that somebody is just editing."""
    (tmp_path / "passwords").write_text("half a li")
    with caplog.at_level(logging.ERROR, "bascule"):
        access, host = keeper(tmp_path)
        for _ in range(3):
            access.reload()
    assert [record.message for record in caplog.records] == ["passwords.refused"]
    verdicts = judge(access, new_client("192.0.2.1:1"), "user-1")
    host.run_jobs()
    assert verdicts == [LoginFault.WRONG]
    (tmp_path / "passwords").unlink()
    access.reload()
    settings(tmp_path)
    access.reload()
    verdicts = judge(access, new_client("192.0.2.1:1"), "user-1")
    host.run_jobs()
    assert verdicts == [None]


def test_each_refusal_is_counted_and_few_are_logged(
    tmp_path: Path, new_client: NewClient, caplog: pytest.LogCaptureFixture
) -> None:
    access, host = keeper(tmp_path)
    with caplog.at_level(logging.WARNING, "bascule"):
        for _ in range(10):
            assert judge(access, new_client("192.0.2.1:1"), None) == [LoginFault.NO_USER_NAME]
        host.clock.at_s = 2.0
        judge(access, new_client("192.0.2.1:1"), None)
    assert access.status().logins_refused == 11
    assert [record.__dict__["not_logged"] for record in caplog.records if record.message == "login.refused"] == [0, 9]


def test_new_rules_reach_connections_that_are_there(tmp_path: Path, new_client: NewClient) -> None:
    def rule(topic: str) -> AclRuleSettings:
        return AclRuleSettings((topic,))

    access, host = keeper(tmp_path, acl=(rule("a"),), acl_file="rules.yaml")
    client = new_client("192.0.2.1:1")
    client.session = "c"
    client.flow = ReceiverHalf(number=1, session="c", level=5, receive_maximum=1, topic_alias_maximum=0)
    host.connected.append(client)
    access.give_rights(client)
    may_publish = client.flow.may_publish
    assert may_publish is not None
    assert (may_publish(b"a"), may_publish(b"b")) == (True, False)
    access.on_acl_changed(AclChanged(path="another.yaml", rules=()))
    assert host.sent == []
    changed = AclChanged(path="rules.yaml", rules=((("b",), True, "both", (), False, ()),))
    access.on_acl_changed(changed)
    assert host.sent == [(DISTRIBUTOR, changed)]
    may_publish = client.flow.may_publish
    assert may_publish is not None
    assert (may_publish(b"a"), may_publish(b"b")) == (False, True)
    assert access.status().publishes_forbidden == 2


def test_rows_are_left_out_by_rights() -> None:
    rules = AccessRules(
        [
            AclRuleSettings(("a/#",), action="subscribe", users=("ada",)),
            AclRuleSettings(("#",), action="subscribe", users=("bob",)),
        ]
    )
    ada, bob, eve = (rules.for_client(user, "c") for user in ("ada", "bob", "eve"))
    batch = from_rows([(b"a/1", 0, b""), (b"b/1", 0, b""), (b"a/2", 0, b""), (b"b/1", 0, b"")])
    copies = Copies(batch, 0)
    assert len(copies.readable(ada)) == 2
    assert copies.readable(ada).qos0(4, 100) == Copies(batch.select([0, 2]), 0).qos0(4, 100)
    assert copies.readable(bob) is copies
    assert len(copies.readable(eve)) == 0
    assert copies.readable(ada) is copies.readable(ada), "made once for all who may receive the same"


def test_a_password_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_bytes(b"ada:" + HASH.encode() + b"\n\xff:\n")
    with pytest.raises(ConfigError) as caught:
        read_passwords(path)
    assert caught.value.problems == (f"{path}:2: not UTF-8; save it as UTF-8",)
    assert len(PasswordFile(str(tmp_path / "none")).table) == 0
