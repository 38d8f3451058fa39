"""The files of a Mosquitto, moved to where a test may run them: other ports and addresses, other folders, a log, nothing else.

``moved`` is that one rule. ``for_version_2_0`` takes away what a Mosquitto 2.0 does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_LISTENER = re.compile(r"^(?:listener|port) (\d+)", re.MULTILINE)
_SYSTEM_FOLDER = re.compile(r"/(?:run|var/lib|var/log)/mosquitto\b")
_SYSTEM_AUTHORITIES = "/etc/ssl/certs"
_SYSTEM_FILE = "/etc/ssl/certs/ca-certificates.crt"
_PLUGIN = "/usr/lib/mosquitto_"
_ENCRYPTS = ("bridge_cafile", "bridge_capath", "bridge_tls_use_os_certs")
# 2.1 alone knows these; what is encrypted stays so.
_IN_PLACE = {"listener_allow_anonymous": "allow_anonymous", "bridge_tls_use_os_certs true": f"bridge_capath {_SYSTEM_AUTHORITIES}"}
_NEW = re.compile(
    r"^(bridge_session_expiry_interval|bridge_receive_maximum|bridge_max_topic_alias|bridge_tcp_user_timeout|bridge_tcp_keepalive"
    r"|bridge_ciphers_tls1.3|bridge_reload_type|topic \"[^\" ]+ )\b.*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Connection:
    """A ``connection`` of such a file: its lines, by words."""

    name: str
    lines: list[list[str]] = field(default_factory=list)

    def last(self, *names: str) -> str:
        """What the last of its lines called so says; empty if there is none."""
        return next((" ".join(words[1:]) for words in reversed(self.lines) if words[0] in names), "")

    @property
    def address(self) -> str:
        """Where it leads to, or where it leads to first."""
        return self.last("address", "addresses").partition(" ")[0]

    @property
    def encrypts(self) -> bool:
        """Whether it speaks TLS."""
        return any(self.last(name) for name in _ENCRYPTS)

    def topics(self, direction: str) -> list[str]:
        """Topics that its lines take at the site (out) or at the remote (in), and some that none may take."""
        found = ["elsewhere/x"]
        for words in self.lines:
            if words[0] == "topic":
                _, pattern, *more = words
                way, _, local, remote = (*more, *("out", "0", "", "")[len(more) :])[:4]
                prefix = local if direction == "out" else remote
                if way.lower() in (direction, "both"):
                    taken = prefix + pattern
                    found += [taken.replace("+", "p").replace("#", "q/r"), taken.removesuffix("/#").replace("+", "p")]
                    found.append(f"{taken[:2]}other")
        return [topic for topic in dict.fromkeys(found) if topic and not set("#+$") & set(topic)]

    def count(self, direction: str) -> int:
        """How many lines go in that direction."""
        return sum(words[0] == "topic" and "".join(words[2:3]).lower() in (direction, "both") for words in self.lines)


def connections_of(texts: Iterable[str]) -> list[Connection]:
    """The connections of these files."""
    found: list[Connection] = []
    for text in texts:
        for line in text.splitlines():
            if words := _words(line):
                if words[0] == "connection":
                    found.append(Connection(words[1]))
                if found:
                    found[-1].lines.append(words)
    return found


def listeners_of(texts: Iterable[str]) -> dict[str, str]:
    """The listeners of the files by port, as they have it, each with its lines; 1883 where they have none."""
    parts = _LISTENER.split("\n".join(texts))
    return dict(zip(parts[1::2], parts[2::2], strict=True)) or {"1883": ""}


def moved(text: str, folder: str, listeners: dict[str, int], remote: Callable[[str], int]) -> str:
    """``text`` with the ports of ``listeners``, the port of ``remote`` for each address, and ``folder`` for those of the system."""

    def line(found: str) -> str:
        words = _words(found)
        match words[:1]:
            case ["listener" | "port"]:
                return " ".join((words[0], str(listeners[words[1]]), *words[2:]))
            case ["address" | "addresses"]:
                return " ".join((words[0], *(f"127.0.0.1:{remote(one)}" for one in words[1:])))
            case ["max_connections"] if not _LISTENER.search(text):
                return f"port {listeners['1883']}\n{found}"  # that opens the default listener
            case ["log_type"]:
                return "log_type notice"  # a test waits for what is told
            case ["bridge_bind_address"]:
                return "bridge_bind_address 127.0.0.1"
        return _SYSTEM_FOLDER.sub(folder, found)

    text = text.replace(_SYSTEM_FILE, "certs/ca.pem")
    return "".join(f"{line(one)}\n" for one in text.splitlines())


def for_version_2_0(text: str) -> str:
    """``text`` without what a Mosquitto 2.0 does not start with."""
    for there, here in _IN_PLACE.items():
        text = text.replace(there, here)
    return _NEW.sub("", text)


def run_by_root(text: str) -> str:
    """``text`` with which a Mosquitto that root starts stays root, and so reads what a test has made."""
    return "user root\n" + re.sub(r"^user .*$", "", text, flags=re.MULTILINE)


def with_own(text: str, authorities: str, plugins: str) -> str:
    """``text`` for Mosquitto itself, which takes a folder of authorities for the system's, and plug-ins from another folder."""
    return text.replace(_SYSTEM_AUTHORITIES, authorities).replace(_PLUGIN, f"{plugins}/mosquitto_")


def _words(line: str) -> list[str]:
    """The words of ``line`` up to a comment, those in quotes without them. A topic may be ``#`` alone."""
    words = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line)]
    end = next((place for place, word in enumerate(words) if word.startswith("#") and (word, place) != ("#", 1)), len(words))
    return words[:end]
