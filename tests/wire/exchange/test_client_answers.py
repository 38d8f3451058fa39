"""How the acknowledgements of a local client are taken."""

from __future__ import annotations

import pytest

from wire.errors import PeerViolation
from wire.exchange.client_answers import whole


def test_what_is_plain_is_whole_and_what_is_not_is_looked_at() -> None:
    assert whole(bytes((0x40, 2, 0, 1)), 0, 4)
    assert whole(bytes((0x40, 3, 0, 1, 0x10)), 0, 5)
    assert not whole(bytes((0x40, 4, 0, 1, 0x10)), 0, 5), "the property length is to come"


@pytest.mark.parametrize(("packet", "level"), [((0x40, 2, 0, 0), 4), ((0x40, 3, 0, 1, 0x33), 5)])
def test_no_identifier_and_a_reason_code_that_does_not_exist_are_violations(packet: tuple[int, ...], level: int) -> None:
    with pytest.raises(PeerViolation):
        whole(bytes(packet), 0, level)
