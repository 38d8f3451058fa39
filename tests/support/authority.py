"""Certificates for tests, made by the openssl command: an authority, and what it issues, as PEM files in one folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """A certificate and its key."""

    cert_file: Path
    key_file: Path


class Authority:
    """``folder/name.pem`` with its key; ``issue`` makes others that it has signed."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_file = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 takes no authority without it
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "30", "-subj", f"/CN={name}"), *usage, "-keyout", self._key, "-out", self.ca_file
        )

    def issue(self, name: str, subject: str = "/CN=localhost", *, days: int = 30) -> Pair:
        """A certificate for ``subject``, good for 127.0.0.1 and localhost; with ``days`` below 0 it has expired."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, names = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        key, certificate = self.folder / f"{name}.key.new", self.folder / f"{name}.pem.new"
        _openssl("req", *_NEW_KEY, "-utf8", "-multivalue-rdn", "-subj", subject, "-keyout", key, "-out", request)
        signing = ("-CA", self.ca_file, "-CAkey", self._key, "-CAcreateserial", "-days", str(days), "-extfile", names)
        _openssl("x509", "-req", "-in", request, *signing, "-out", certificate)
        key.replace(pair.key_file)  # both at once: who watches them finds a pair
        certificate.replace(pair.cert_file)
        return pair

    def revoke(self, *pairs: Pair) -> Path:
        """A list that revokes the certificates of ``pairs``."""
        index, crl, config = self.folder / "index", self.folder / "revoked.crl", self.folder / "crl.conf"
        index.write_text("")
        config.write_text(f"[ca]\ndefault_ca = ca\n[ca]\ndatabase = {index}\ndefault_md = sha256\ndefault_crl_days = 30\n")
        by = ("-config", config, "-cert", self.ca_file, "-keyfile", self._key)
        for pair in pairs:
            _openssl("ca", *by, "-revoke", pair.cert_file)
        _openssl("ca", *by, "-gencrl", "-out", crl)
        return crl


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def tls_keys(pair: Pair, **keys: str) -> dict[str, str]:
    """The ``tls`` of a listener with ``pair``, and ``keys``."""
    return {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file), **keys}


def client_words(ca_file: Path, pair: Pair | None = None) -> Sequence[str]:
    """Options of mosquitto_pub and mosquitto_sub."""
    own = [] if pair is None else ["--cert", str(pair.cert_file), "--key", str(pair.key_file)]
    return ["--cafile", str(ca_file), *own]
