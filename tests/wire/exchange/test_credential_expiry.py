"""When a credential ends and is to be made anew, on a clock of the test's."""

from __future__ import annotations

import base64
import json

import pytest

from wire.exchange.credential_expiry import CredentialRenewal, ends_at_s

HOUR_S = 3600.0


def jwt(**claims: object) -> str:
    """A JSON Web Token that says ``claims``; nobody checks its signature here."""
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*encoded, "c2lnbmF0dXJl"))


SAS = "SharedAccessSignature sr=hub.example.net%2Fdevices%2Fedge&sig=aGFzaA%3D%3D&se={}&skn=device"


@pytest.mark.parametrize(
    ("secret", "end"),
    [
        (jwt(exp=1_800_000_000, sub="edge"), 1_800_000_000),
        (jwt(exp=1_800_000_000.5), 1_800_000_000.5),
        (SAS.format(1_800_000_000), 1_800_000_000),
        ("SharedAccessSignature se=1800000000&sr=hub", 1_800_000_000),
        ("https://hub.example.net/?sr=hub&se=1800000000&sig=x", 1_800_000_000),
        (jwt(sub="edge"), None),
        (jwt(exp="soon"), None),
        (jwt(exp=True), None),
        (jwt(exp=-1), None),
        (SAS.format("never"), None),
        ("SharedAccessSignature sr=hub&phase=1800000000", None),
        ("a plain password", None),
        ("with.two.points", None),
        ("a.W10.c", None),  # a list
        ("", None),
    ],
)
def test_a_jwt_and_a_sas_token_say_when_they_end_and_no_other_text_does(secret: str, end: float | None) -> None:
    assert ends_at_s(secret) == end


def test_a_token_that_lives_long_is_renewed_a_set_time_before_its_end_and_a_short_one_after_half_of_its_life() -> None:
    renewal = CredentialRenewal(300.0)
    renewal.on_used(HOUR_S, 0.0)
    assert not renewal.is_due(HOUR_S - 301)
    assert renewal.is_due(HOUR_S - 300)
    renewal.on_used(100.0, 0.0)
    assert renewal.due_at_s == 50.0
    renewal.on_used(None, 0.0)
    assert not renewal.is_due(1e12)


def test_while_there_is_no_newer_one_it_is_tried_the_more_often_the_nearer_the_end_and_told_once() -> None:
    renewal = CredentialRenewal(300.0)
    renewal.on_used(HOUR_S, 0.0)
    told, tries, now_s = [], 0, HOUR_S - 300
    while now_s < HOUR_S:
        told.append(renewal.on_no_newer(now_s))
        tries += 1
        assert renewal.due_at_s is not None
        assert 1.0 <= renewal.due_at_s - now_s <= 60.0
        now_s = renewal.due_at_s
    assert told == [True] + [False] * (tries - 1)
    assert tries > 20
    renewal.on_no_newer(now_s)
    assert renewal.due_at_s == now_s + 60.0, "it has ended: the connection will too"
    renewal.on_used(3 * HOUR_S, now_s)
    assert not renewal.overdue


def test_tokens_of_one_hour_are_renewed_for_two_days_and_never_run_out_though_each_tenth_reading_fails() -> None:
    """A clock of 48 hours: what holds is never older than its end."""
    renewal, end_s, now_s, readings, renewed = CredentialRenewal(300.0), HOUR_S, 0.0, 0, 0
    renewal.on_used(end_s, now_s)
    while now_s < 48 * HOUR_S:
        assert renewal.due_at_s is not None
        now_s = max(now_s, renewal.due_at_s)
        assert now_s < end_s, "the one in use has run out"
        readings += 1
        if readings % 10 == 0:
            renewal.on_no_newer(now_s)
            continue
        end_s = now_s + HOUR_S
        renewal.on_used(end_s, now_s)
        renewed += 1
    assert renewed == 53  # each after 55 minutes, or a little more
