"""The forms for issues are such as the site takes, and ask for what helps: what doctor says, and commands that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.docs.test_guides import fault

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
KINDS = {"markdown", "input", "textarea", "dropdown", "checkboxes"}


def read(form: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(form.read_text())
    return read


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_is_one_that_the_site_takes(form: Path) -> None:
    found = read(form)
    fields = [field for field in found["body"] if field["type"] != "markdown"]

    assert found.keys() == {"name", "description", "labels", "body"}
    assert {field["type"] for field in found["body"]} <= KINDS
    assert all(field["attributes"]["label"] and re.fullmatch(r"\w+", field["id"]) for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_names_commands_and_files_that_there_are(form: Path) -> None:
    text = form.read_text()
    commands = re.findall(r"`bascule ([^`]+)`", text)

    assert [fault([word for word in command.split() if word != "CONFIG"]) for command in commands] == [""] * len(commands)
    assert [path for path in re.findall(r"`([\w./-]+\.md)`", text) if not (ROOT / path).exists()] == []


def test_who_tells_of_a_fault_is_asked_what_doctor_says() -> None:
    (doctor,) = (field for field in read(FORMS[0])["body"] if field.get("id") == "doctor")

    assert "`bascule doctor CONFIG`" in doctor["attributes"]["description"]
    assert doctor["validations"]["required"]
