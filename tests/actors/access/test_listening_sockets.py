"""Doors that are opened and shut while others stay open."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from actors.access.closing_connections import ClosingConnections
from actors.access.listening_sockets import OPEN_TIMER, ListeningSockets
from actors.process.mailbox import Mailbox, PollGroup
from tests.support.ports import accepts, free_port
from tests.support.settings import node
from wire.config_settings import ListenerSettings, ProxyProtocolSettings, SettingsNow


class Desk:
    """The mailbox, as far as doors need it."""

    def __init__(self) -> None:
        self.watched: dict[int, Any] = {}
        self.timers: dict[str, float] = {}

    def now_s(self) -> float:
        return 1.0

    def random(self) -> float:
        return 0.5

    def watch(self, fd: int, events: int, token: Any) -> None:
        self.watched[fd] = token

    def forget(self, fd: int) -> None:
        self.watched.pop(fd, None)

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s


class Doors:
    """A Reception with real sockets."""

    def __init__(self, *listeners: ListenerSettings) -> None:
        self.desk = Desk()
        mailbox = cast(Mailbox, self.desk)
        self.reception = ListeningSockets(mailbox, cast(PollGroup, None), ClosingConnections(mailbox), SettingsNow(node()))
        self.reception.open(listeners)

    def rearrange(self, *listeners: ListenerSettings) -> set[str]:
        return self.reception.rearrange(listeners)

    @property
    def sockets(self) -> list[int]:
        assert sorted(self.desk.watched) == sorted(door.sock.fileno() for door in self.reception.listening_sockets)
        return [door.sock.fileno() for door in self.reception.listening_sockets]


def tcp(port: int, **changed: Any) -> ListenerSettings:
    return replace(ListenerSettings(bind=f"127.0.0.1:{port}"), **changed)


def test_a_door_knows_its_proxies_as_they_are_set_now() -> None:
    port = free_port()
    doors = Doors(tcp(port))
    [door] = doors.reception.listening_sockets
    assert not door.is_proxy("10.1.0.7")
    doors.rearrange(tcp(port, proxy_protocol=ProxyProtocolSettings(sources=("10.1.0.0/24", "2001:db8::/64"))))
    hosts = ("10.1.0.7", "::ffff:10.1.0.7", "2001:db8::7", "10.1.1.7", "::ffff:10.1.1.7", "2001:db8:0:1::7", "fe80::7%eth0")
    assert [door.is_proxy(host) for host in hosts] == [True, True, True, False, False, False, False]
    doors.reception.close()


def test_a_door_that_stays_is_the_same_socket_and_the_others_come_and_go() -> None:
    stays, goes, comes = free_port(), free_port(), free_port()
    doors = Doors(tcp(stays), tcp(goes))
    kept = doors.sockets[0]
    assert doors.rearrange(tcp(comes), tcp(stays, connections_max=3)) == {f"127.0.0.1:{goes}"}
    assert doors.sockets[0] == kept
    assert doors.reception.listening_sockets[0].settings.connections_max == 3
    assert (accepts(stays), accepts(goes), accepts(comes)) == (True, False, True)
    doors.reception.close()
    assert not accepts(comes)


def test_the_same_address_with_another_protocol_is_another_door() -> None:
    port = free_port()
    doors = Doors(tcp(port))
    assert doors.rearrange(tcp(port, protocol="ws")) == {f"127.0.0.1:{port}"}
    assert [door.settings.protocol for door in doors.reception.listening_sockets] == ["ws"]
    assert accepts(port)


def test_a_wider_address_takes_the_place_of_a_narrower_one() -> None:
    port = free_port()
    doors = Doors(tcp(port))
    doors.rearrange(tcp(port, bind=f"0.0.0.0:{port}"))
    assert doors.reception.refusal == ""
    assert accepts(port)


def test_an_address_that_is_taken_is_tried_again_while_the_others_are_served() -> None:
    stays, taken = free_port(), free_port()
    doors = Doors(tcp(stays))
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        doors.rearrange(tcp(stays), tcp(taken))
        assert f"127.0.0.1:{taken}: the port is taken by" in doors.reception.refusal
        assert doors.desk.timers.pop(OPEN_TIMER) > 1.0
        assert accepts(stays)
        doors.reception.open_missing((tcp(stays), tcp(taken)))
        assert OPEN_TIMER in doors.desk.timers
    doors.reception.open_missing((tcp(stays), tcp(taken)))
    assert doors.reception.refusal == ""
    assert accepts(taken)
    assert len(doors.sockets) == 2


def test_a_unix_socket_with_another_mode_is_made_anew_and_one_that_goes_is_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "mqtt")
    unix = ListenerSettings(bind=f"unix:{path}", unix_mode=0o600)
    doors = Doors(unix)
    doors.rearrange(replace(unix, unix_mode=0o660))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    doors.rearrange(tcp(free_port()))
    assert not os.path.exists(path)


def test_who_paused_hears_no_new_door_before_it_goes_on() -> None:
    first, second = free_port(), free_port()
    doors = Doors(tcp(first))
    doors.reception.pause(1.0, "no descriptor")
    doors.rearrange(tcp(first), tcp(second))
    assert doors.desk.watched == {}
    doors.reception.resume()
    assert len(doors.sockets) == 2
