"""The text of a password file."""

from __future__ import annotations

import pytest

from wire.access.password_table import PasswordTable, name_fault, parse_passwords, with_password, without_user

HASH = "$argon2id$v=19$m=19456,t=2,p=1$jYjCJdrAuCUddmrc7FCavg$ZBDshqPydcO0+t1XvrBA5DGFfmJvUYIFNkavDtsYg/I"
MOSQUITTO = f"$7$101${'s' * 16}${'h' * 86}=="  # by PBKDF2, as Mosquitto 2.0 has it; 2.1 has salts of 64 bytes
OTHER = HASH.replace("jY", "Yj")


def test_users_comments_and_empty_lines() -> None:
    table, faults = parse_passwords(f"# who\n\nada:{HASH}\r\nbob smith:{OTHER}\n")
    assert faults == []
    assert len(table) == 2
    assert (table.hash_of("ada"), table.hash_of("bob smith"), table.hash_of("eve")) == (HASH, OTHER, None)


@pytest.mark.parametrize("stored", [MOSQUITTO, MOSQUITTO.replace("s" * 16, f"{'s' * 86}==").replace("101", "1000")])
def test_hashes_of_mosquitto_may_stand_there(stored: str) -> None:
    table, faults = parse_passwords(f"ada:{HASH}\nbob:{stored}\n")
    assert (faults, table.hash_of("bob")) == ([], stored)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ada", "name:argon2id-hash"),
        (f":{HASH}", "empty"),
        ("ada:secret", "not an argon2id hash"),
        ("ada:$7$101$abc==", "bascule user"),
        (f"ada:$6${'s' * 16}${'h' * 86}==", "bascule user"),
        (f"ada:{MOSQUITTO.replace('101', '0')}", "not an argon2id hash"),
        (f"ada:{MOSQUITTO.replace('101', '500001')}", "500000 iterations"),
        (f"ada:{HASH.replace('argon2id', 'argon2i')}", "not an argon2id hash"),
        (f"ada:{HASH.replace('19456', '99999999')}", "m=99999999"),
        (f"ada:{HASH.replace('t=2', 't=0')}", "t=0"),
        (f"bob:{HASH}", "line 1 already"),
        (f"a\x07b:{HASH}", "control"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(line: str, hint: str) -> None:
    _, faults = parse_passwords(f"bob:{HASH}\n{line}\n")
    ((number, fault),) = faults
    assert number == 2
    assert hint in fault
    assert "secret" not in fault


@pytest.mark.parametrize("name", ["", "a:b", "#a", " a", "a ", "a\nb", "x" * 65_536])
def test_what_cannot_be_a_user_name(name: str) -> None:
    assert name_fault(name) is not None


@pytest.mark.parametrize("name", ["ada", "bob smith", "a/b", "Ωmega", "#a"[1:]])
def test_what_can_be_a_user_name(name: str) -> None:
    assert name_fault(name) is None


def test_a_change_leaves_everything_else_as_it_is() -> None:
    text = f"# first\nada:{HASH}\n\n# \u2028 odd\nbob:{HASH}"
    changed = with_password(text, "ada", OTHER)
    assert changed == f"# first\nada:{OTHER}\n\n# \u2028 odd\nbob:{HASH}\n"
    assert with_password(changed, "eve", HASH) == f"{changed}eve:{HASH}\n"
    assert with_password("", "eve", HASH) == f"eve:{HASH}\n"
    assert without_user(changed, "ada") == f"# first\n\n# \u2028 odd\nbob:{HASH}\n"
    assert without_user(changed, "eve") is None


def test_a_user_who_does_not_exist_always_costs_the_same_hash() -> None:
    table = PasswordTable({"ada": HASH, "bob": OTHER})
    key = b"k" * 32
    assert {table.decoy(f"user-{number}", key) for number in range(50)} == {HASH, OTHER}
    assert len({table.decoy("eve", key) for _ in range(10)}) == 1
    assert PasswordTable({}).decoy("eve", key) is None
