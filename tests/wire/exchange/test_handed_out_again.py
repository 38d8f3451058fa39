"""HandedOutAgain: what a client has had, when the store is new or has lost some of it."""

from __future__ import annotations

from tests.wire.outbound_model import lane_opened
from wire.exchange.handed_out_again import HandedOutAgain


def test_what_a_new_store_has_settled_of_what_was_to_come_again_is_lost() -> None:
    """0 to 5 may have been sent; 2 was settled, 3 released, and 0 is handed out before the store is new."""
    again = HandedOutAgain()
    again.opened(lane_opened(dup_below=6, settled=[2], released=[3], session="client"))
    assert again.dup_below == 6
    again.handed_out(0, [0])
    assert again.carried_on(lane_opened(head=2, dup_below=6, settled=[4], session="client"), skip_below=1) == ((1, 2), (4, 5))
    assert again.skip_below == 1
    assert again.carried_on(lane_opened(head=2, dup_below=6, settled=[4], session="client"), skip_below=1) == (), "told once"


def test_a_session_that_is_on_no_record_had_nothing() -> None:
    again = HandedOutAgain()
    again.opened(lane_opened(dup_below=6))
    assert again.carried_on(lane_opened(head=4, dup_below=6), skip_below=4) == ()
