"""Files of CURVE keys, as pyzmq and CZMQ read them: a node's own pair, a client's pair, and a list of clients' public keys.

    metadata
        role = "operate"
    curve
        public-key = "..."
        secret-key = "..."

Facts that only Bascule knows stand under ``metadata``: in the node's list the role of a key, in a client's own file the node it is
for.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from actors.process.request_sockets import new_key_pair, public_of
from storage import files, trusted_files
from supervisor.control.roles import ROLES, Role
from wire.errors import ConfigError, Unavailable

SUFFIX, SECRET_SUFFIX = ".key", ".key_secret"
SERVER_FILE = f"control{SECRET_SUFFIX}"  # in the data folder
PUBLIC_MODE = 0o644
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LINE = re.compile(r"""\s*(role|node|server-key|public-key|secret-key)\s*=\s*["']?(.*?)["']?\s*""")
_KEY = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")  # Z85, which has neither quotes nor blanks


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """The contents of one file; empty is what it has not. role: of whoever shows the key. node, server: whom the pair is for."""

    public: str
    secret: str = ""
    role: str = ""
    node: str = ""
    server: str = ""


def is_key(text: str) -> bool:
    """Whether ``text`` may be a key in Z85."""
    return _KEY.fullmatch(text) is not None


def read_key(path: Path | str) -> KeyFile:
    """The contents of ``path``.

    Raises:
        ConfigError: it has no key, or one that is none.
        Unavailable: it cannot be read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is no text"
        raise Unavailable(f"the key {path} cannot be read: {why}") from error
    if is_key(text.strip()):  # as bascule key show prints it
        return KeyFile(public=text.strip())
    found = {match[1]: match[2] for line in text.splitlines() if (match := _LINE.fullmatch(line))}
    secret = found.get("secret-key", "")
    try:
        public = public_of(secret) if secret else found.get("public-key", "")
    except ValueError as error:
        raise ConfigError(f"{path}: secret-key: {error}") from error
    for name, key in (("public-key", public), ("server-key", found.get("server-key", ""))):
        if not is_key(key) and (key or name == "public-key"):
            raise ConfigError(f"{path}: {name}: a key has 40 characters of Z85; bascule key make FILE makes a pair")
    return KeyFile(
        public=public, secret=secret, role=found.get("role", ""), node=found.get("node", ""), server=found.get("server-key", "")
    )


def public_key(text: str) -> str:
    """The public key that ``text`` is, or that is in the file of that name.

    Raises:
        ConfigError: it is neither.
        Unavailable: the file cannot be read.
    """
    return text if is_key(text) else read_key(text).public


def write_key(path: Path, key: KeyFile, comment: str) -> None:
    """Have ``key`` at ``path``, readable by its owner only if it is secret.

    Raises:
        OSError: the disk refuses.
    """
    said = [("role", key.role), ("node", key.node), ("server-key", key.server)]
    lines = [f"# {comment}", "metadata", *(f'    {name} = "{text}"' for name, text in said if text), "curve"]
    lines.append(f'    public-key = "{key.public}"')
    if key.secret:
        lines.append(f'    secret-key = "{key.secret}"')
    files.write(path, ("\n".join(lines) + "\n").encode(), mode=files.PRIVATE if key.secret else PUBLIC_MODE)


def server_key(data_dir: Path) -> KeyFile:
    """The node's own pair, which is made if there is none.

    Raises:
        ConfigError: the file has none.
        Unavailable: the file cannot be read or made, or others can read it.
    """
    path = data_dir / SERVER_FILE
    try:
        if not path.exists():
            public, secret = new_key_pair()
            files.make_folder(data_dir)
            write_key(path, KeyFile(public=public, secret=secret), "The node's own keys, for its control socket. Secret.")
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise files.unwritable(path, error) from error
    if mode & 0o077:
        raise Unavailable("others can read the node's secret key; chmod 600, or remove it for a new one", path=str(path))
    if fault := trusted_files.fault(path):
        raise Unavailable("others can replace the node's secret key", path=str(path), error=fault)
    key = read_key(path)
    if not key.secret:
        raise ConfigError(f"{path}: secret-key is missing; remove the file for a new pair")
    return key


@dataclass(frozen=True, slots=True)
class Allowed:
    """A key that is let in: its name, which is its file's, and its role."""

    name: str
    role: Role
    public: str


def key_names(folder: Path) -> list[str]:
    """The names of the keys in ``folder``, whole or not."""
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))


def read_allowed(folder: Path) -> tuple[list[Allowed], list[str]]:
    """The keys in ``folder`` by name, and what is wrong with its other files, a line each. No folder: no keys."""
    allowed, problems = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if fault := trusted_files.fault(path):
            problems.append(f"{path} lets nobody in: {fault}")
            continue
        try:
            key = read_key(path)
        except (ConfigError, Unavailable) as error:
            problems.append(str(error))
            continue
        role = next((role for role in ROLES if role == (key.role or "view")), None)
        if role is None:
            problems.append(f"{path}: role: {key.role!r} is not one of {', '.join(ROLES)}")
        else:
            allowed.append(Allowed(path.stem, role, key.public))
    return allowed, problems
