"""Clients that are not read for now, because of what they have sent: until the batch has room or has gone, until a queue has room,
until others have had their turn, or until their rate allows more. Their further input waits in their sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from actors.access.client import BEHIND, CROWDING, NO_ROOM, QUEUE_FULL, TOO_FAST, Client
from actors.process.mailbox import Mailbox

TURN_TIMER = "crowding"
RATE_TIMER = "publish_rate"
TURN_S = 0.05  # clients that are not read within it are read first in the next turn: frames and heartbeats wait no longer
NEXT_TURN_S = 0.001  # a timer that is due at once would come before the sockets are looked at

TakesOn = Callable[[Client], None]


class WaitingClients:
    """The clients that wait, and their reasons. Each method that lets clients go on is given what takes the rest of their input,
    ``take``.

    for_batch: by number, those that wait for the batch. for_room: those that wait for a bridge's queue, and for which. slowed: how
    often a client's rate was at its end.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.for_batch: dict[int, Client] = {}
        self.for_room: dict[int, tuple[Client, str]] = {}
        self._for_turn: dict[int, Client] = {}
        self._for_rate: dict[int, tuple[Client, float]] = {}
        self.slowed = 0

    def on_closed(self, client: Client) -> None:
        """The client waits for nothing any more."""
        self.for_batch.pop(client.number, None)
        self.for_room.pop(client.number, None)
        self._for_turn.pop(client.number, None)
        self._for_rate.pop(client.number, None)

    # --- for the batch ---

    def wait_for_batch(self, client: Client, why: int) -> None:
        """why: NO_ROOM, until there is room in it; BEHIND, until it has gone."""
        client.hear(False, why)
        self.for_batch[client.number] = client

    def batch_went_on(self, take: TakesOn, stays: Callable[[Client], bool]) -> None:
        """The batch has gone, or has room; who ``stays`` waits on."""
        waiting, self.for_batch = self.for_batch, {}
        now_s = self._mailbox.now_s()
        for client in waiting.values():
            if client.closed:
                continue
            if stays(client):
                self.for_batch[client.number] = client
            else:
                client.hear_again(now_s, NO_ROOM | BEHIND)
                take(client)

    def go_on(self, client: Client) -> None:
        """The client waits for the batch no longer."""
        if self.for_batch.pop(client.number, None) is not None:
            client.hear_again(self._mailbox.now_s(), NO_ROOM | BEHIND)

    # --- for room in a queue ---

    def wait_for_room(self, client: Client, bridge: str) -> None:
        """What the client publishes next goes to a queue that has no room for it."""
        client.hear(False, QUEUE_FULL)
        self.for_room[client.number] = client, bridge

    def room_came(self, bridges: Container[str] | None, take: TakesOn) -> None:
        """Something is new of these, None: of all. Who waits for one goes on, or waits again, behind those that wait longer."""
        now_s = self._mailbox.now_s()
        for number in [number for number, (_, bridge) in self.for_room.items() if bridges is None or bridge in bridges]:
            client, _ = self.for_room.pop(number, (None, ""))
            if client is None:
                continue  # it went as another one came
            client.hear_again(now_s, QUEUE_FULL)
            take(client)

    # --- for a turn ---

    def wait_a_turn(self, client: Client) -> None:
        """Others are served first."""
        client.hear(False, CROWDING)
        self._for_turn[client.number] = client
        self._mailbox.set_timer(TURN_TIMER, self._mailbox.now_s() + NEXT_TURN_S)

    def turn_has_come(self, now_s: float, take: TakesOn) -> None:
        """Go on with clients that have waited a turn, as far as there is time; those that wait longest come first."""
        for number in list(self._for_turn):
            client = self._for_turn.pop(number, None)
            if client is None:
                continue  # it went as another one came
            client.hear_again(now_s, CROWDING)
            take(client)
            if self._mailbox.now_s() - now_s > TURN_S:
                break
        if self._for_turn:
            self._mailbox.set_timer(TURN_TIMER, self._mailbox.now_s() + NEXT_TURN_S)

    # --- for its rate ---

    def hold_if_too_fast(self, client: Client) -> bool:
        """Whether it may not publish now."""
        return client.number in self._for_rate

    def slow_down(self, client: Client, until_s: float) -> None:
        """Do not read ``client`` until ``until_s``."""
        client.hear(False, TOO_FAST)
        self.slowed += client.number not in self._for_rate
        self._for_rate[client.number] = client, until_s
        self._set_rate_timer()

    def rate_allows(self, now_s: float, take: TakesOn) -> None:
        """Go on with the clients that may publish again."""
        for number in [number for number, (_, until_s) in self._for_rate.items() if until_s <= now_s]:
            client, _ = self._for_rate.pop(number, (None, 0.0))
            if client is None:
                continue  # it went as another one came
            client.hear_again(now_s, TOO_FAST)
            take(client)
        if self._for_rate:
            self._set_rate_timer()

    def _set_rate_timer(self) -> None:
        self._mailbox.set_timer(RATE_TIMER, min(until_s for _, until_s in self._for_rate.values()))
