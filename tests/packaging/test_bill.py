"""The bill of materials (``scripts/documents/bill.py``): its product, the libraries inside wheels, and identifiers of licences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.support import programs

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
OWNERS = ("PyYAML", "pyzmq", "rocksdict")
MIT = {"license": {"acknowledgement": "declared", "id": "MIT"}}


def told(text: str) -> dict[str, Any]:
    """A licence as cyclonedx-py lists one that a library tells in words."""
    return {"license": {"acknowledgement": "declared", "name": "declared license", "text": {"content": text}}}


def listed(name: str, licence: dict[str, Any]) -> dict[str, Any]:
    return {"bom-ref": f"{name}==1", "name": name, "version": "1", "type": "library", "licenses": [licence]}


def completed(folder: Path, licence: dict[str, Any]) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What is done to a bill that has protobuf with ``licence``."""
    components = [listed(name, MIT) for name in ("bascule", *OWNERS)] + [listed("protobuf", licence)]
    needs = [{"ref": "bascule==1", "dependsOn": ["rocksdict==1"]}, *({"ref": f"{name}==1"} for name in OWNERS)]
    path = folder / "bill.json"
    path.write_text(json.dumps({"metadata": {"timestamp": "then"}, "components": components, "dependencies": needs}))
    done = programs.run([sys.executable, str(ROOT / "scripts/documents/bill.py"), str(path)], timeout_s=60.0)
    return done, json.loads(path.read_text())


def test_it_says_of_which_product_it_is_and_lists_what_wheels_have_inside(tmp_path: Path) -> None:
    done, bill = completed(tmp_path, told("3-Clause BSD License"))

    assert (done.returncode, done.stderr) == (0, "")
    product = bill["metadata"].pop("component")
    assert bill["metadata"] == {"timestamp": "then"}
    assert (product["type"], product["name"], product["version"], product["licenses"]) == ("application", "bascule", "1", [MIT])
    components = {each["name"]: each for each in bill["components"]}
    assert components.keys() == {*OWNERS, "protobuf", "rocksdb", "libzmq", "libsodium", "libyaml"}
    assert components["protobuf"]["licenses"] == [{"license": {"acknowledgement": "declared", "id": "BSD-3-Clause"}}]
    assert components["libzmq"]["version"] == zmq.zmq_version()
    assert components["rocksdb"]["licenses"] == [{"expression": "Apache-2.0 OR GPL-2.0-only"}]
    needs = {each["ref"]: each.get("dependsOn") for each in bill["dependencies"]}
    assert needs["bascule==1"] == ["rocksdict==1"]
    for owner, names in {"rocksdict": ["rocksdb"], "pyzmq": ["libzmq", "libsodium"], "PyYAML": ["libyaml"]}.items():
        assert needs[f"{owner}==1"] == [components[name]["bom-ref"] for name in names]
        assert all(components[name]["version"][0].isdigit() for name in names)


def test_a_licence_without_an_identifier_is_refused(tmp_path: Path) -> None:
    done, bill = completed(tmp_path, told("Do as you like"))

    assert (done.returncode, done.stderr) == (1, "no version, or no identifier of a licence, is known of protobuf\n")
    assert "component" not in bill["metadata"]
