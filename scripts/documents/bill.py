"""Completes a bill of materials that cyclonedx-py made, in place: ``python bill.py BILL``, by the Python of what it lists.

Afterwards it says of which product and version it is. It also lists the libraries in C and C++ that wheels have inside, each at the
version that the library says of itself. Each licence is an identifier or an expression of SPDX.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any

Component = dict[str, Any]

PRODUCT = "bascule"
TEXTS = {"3-Clause BSD License": "BSD-3-Clause"}  # licences that a library tells in words, and their identifiers


@dataclass(frozen=True, slots=True)
class Inside:
    """A library inside the wheel of ``owner``; ``licence`` is an expression of SPDX."""

    owner: str
    name: str
    licence: str
    version: Callable[[], str]

    def component(self) -> Component:
        """Its entry in the bill."""
        version = self.version()
        return {
            "bom-ref": f"{self.owner}/{self.name}=={version}",
            "description": f"inside the wheel of {self.owner}",
            "licenses": [{"expression": self.licence}],
            "name": self.name,
            "purl": f"pkg:generic/{self.name}@{version}",
            "type": "library",
            "version": version,
        }


def rocksdb_version() -> str:
    """The version that RocksDB writes into the log of a new store."""
    from rocksdict import Rdict

    with tempfile.TemporaryDirectory() as folder:
        Rdict(f"{folder}/store").close()
        said = Path(folder, "store", "LOG").read_text(encoding="utf-8").splitlines()[0]
    return said.partition("RocksDB version: ")[2]


def libzmq_version() -> str:
    """The version that libzmq tells."""
    import zmq

    return zmq.zmq_version()


def libsodium_version() -> str:
    """The version that libsodium tells, which lies beside libzmq."""
    (path,) = (file.locate() for file in files("pyzmq") or () if file.name.startswith("libsodium"))
    version = ctypes.CDLL(str(path)).sodium_version_string
    version.restype = ctypes.c_char_p
    said: bytes = version()
    return said.decode()


def libyaml_version() -> str:
    """The version that LibYAML tells."""
    from yaml import _yaml

    return str(_yaml.get_version_string())


INSIDE = (
    Inside("rocksdict", "rocksdb", "Apache-2.0 OR GPL-2.0-only", rocksdb_version),
    Inside("pyzmq", "libzmq", "MPL-2.0", libzmq_version),
    Inside("pyzmq", "libsodium", "ISC", libsodium_version),
    Inside("PyYAML", "libyaml", "MIT", libyaml_version),
)


def has_identifier(component: Component) -> bool:
    """Whether a licence of ``component`` is an identifier or an expression of SPDX."""
    return any("expression" in entry or "id" in entry["license"] for entry in component.get("licenses", []))


def _licence(entry: dict[str, Any]) -> dict[str, Any]:
    """``entry`` with the identifier of a licence that is told in words that are known."""
    told = entry.get("license", {})
    known = TEXTS.get(told.get("text", {}).get("content", ""))
    return entry if known is None else {"license": {"acknowledgement": told["acknowledgement"], "id": known}}


def complete(bill: dict[str, Any]) -> dict[str, Any]:
    """The bill as it is to be."""
    (product,) = (each for each in bill["components"] if each["name"] == PRODUCT)
    refs = {each["name"]: each["bom-ref"] for each in bill["components"]}
    needs = {each["ref"]: list(each.get("dependsOn", [])) for each in bill["dependencies"]}
    components = [
        {**each, "licenses": [_licence(entry) for entry in each.get("licenses", [])]}
        for each in bill["components"]
        if each != product
    ]
    for library in INSIDE:
        found = library.component()
        components.append(found)
        needs[refs[library.owner]].append(found["bom-ref"])
        needs[found["bom-ref"]] = []
    dependencies = [{"ref": ref, **({"dependsOn": on} if on else {})} for ref, on in needs.items()]
    metadata = {**bill["metadata"], "component": {**product, "type": "application"}}
    return {**bill, "components": components, "dependencies": dependencies, "metadata": metadata}


def main(argv: list[str]) -> int:
    """Complete the file; the exit status: 1 if a licence or a version is not known."""
    path = Path(argv[1])
    bill = complete(json.loads(path.read_text(encoding="utf-8")))
    unknown = [each["name"] for each in bill["components"] if not has_identifier(each) or not each["version"]]
    if unknown:
        print(f"no version, or no identifier of a licence, is known of {', '.join(unknown)}", file=sys.stderr)
        return 1
    path.write_text(f"{json.dumps(bill, indent=2)}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
