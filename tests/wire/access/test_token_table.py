"""The tokens file: what its lines mean, and how it is changed."""

from __future__ import annotations

import pytest

from wire.access.token_table import PREFIX, Token, digest_of, parse_tokens, with_token, without_token

SECRET = PREFIX + "x" * 43
ADA = Token("ada", "admin", digest_of(SECRET))


def test_a_token_is_found_by_itself_and_not_by_its_hash() -> None:
    table, faults = parse_tokens(with_token("# ours\n\n", ADA))

    assert faults == []
    assert [table.find(text) for text in (SECRET, digest_of(SECRET), SECRET[:-1], "")] == [ADA, None, None, None]
    assert SECRET not in with_token("", ADA)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ada", "name:role:sha256"),
        (f"ada:admin:{digest_of(SECRET)}:x", "name:role:sha256"),
        (f"ada:admin:{digest_of(SECRET).upper()}", "name:role:sha256"),
        (f"ada:root:{digest_of(SECRET)}", "view, operate, admin"),
        (f"a da:view:{digest_of(SECRET)}", "letters"),
        (f":view:{digest_of(SECRET)}", "letters"),
    ],
)
def test_a_line_that_is_wrong_is_named(line: str, said: str) -> None:
    table, [(number, fault)] = parse_tokens(f"# first\n{line}\n")

    assert len(table) == 0
    assert number == 2
    assert said in fault


def test_a_name_stands_once() -> None:
    text = with_token(with_token("", ADA), Token("ada", "view", digest_of("other")))

    assert parse_tokens(text)[1] == [(2, "the token ada stands in line 1 already; keep one")]


def test_other_lines_stay_as_they_are() -> None:
    text = with_token("# ours\nbob:view:" + "0" * 64, ADA)

    assert text == f"# ours\nbob:view:{'0' * 64}\nada:admin:{ADA.digest}\n"
    assert without_token(text, "bob") == f"# ours\nada:admin:{ADA.digest}\n"
    assert without_token(text, "eve") is None
