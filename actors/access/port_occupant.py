"""The holder of an address that cannot be had: the process that the system names, as far as it lets us look."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

_PROC = Path("/proc")
_TABLES = ("net/tcp", "net/tcp6")
_LISTENS = "0A"

Address = IPv4Address | IPv6Address


def holder_of_port(host: str, port: int) -> str:
    """Name and number of the process that keeps others from listening on ``host`` and ``port``, such as ``mosquitto, pid 77``.

    Empty where the system does not tell: the process is another user's, or in another container.
    """
    try:
        wanted = _plain(ip_address(host))
    except ValueError:
        wanted = IPv4Address(0)  # a name: whoever has the port, at whatever address
    found = [
        (state != _LISTENS, inode) for address, number, state, inode in _sockets() if number == port and _meet(address, wanted)
    ]
    return _holder_of([inode for _, inode in sorted(found)])


def holder_of_path(path: str) -> str:
    """Name and number of the process that listens on the Unix socket ``path``; empty where the system does not tell."""
    rows = (line.split(maxsplit=7) for line in _lines("net/unix"))
    return _holder_of([row[6] for row in rows if len(row) == 8 and row[7] == path])


def belongs_to(holder: str, pid: int) -> bool:
    """Whether ``holder``, as the functions above name it, is the process ``pid`` or a child of it, as far as the system tells."""
    number = holder.rpartition(" ")[2]
    try:
        parent = (_PROC / number / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return True
    return str(pid) in (number, parent)


def _sockets() -> Iterator[tuple[Address, int, str, str]]:
    """Local address, port, state and inode of every TCP socket that belongs to somebody."""
    for table in _TABLES:
        for line in _lines(table):
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[9] != "0":
                yield _plain(_address(address)), int(port, 16), fields[3], fields[9]


def _lines(table: str) -> list[str]:
    try:
        return (_PROC / table).read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []  # there is no such table: the kernel has no IPv6, or /proc is not mounted


def _address(digits: str) -> Address:
    """The address that a table shows: words of 32 bits, each in this machine's order."""
    words = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    return ip_address(b"".join(words))


def _plain(address: Address) -> Address:
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _meet(one: Address, other: Address) -> bool:
    """Whether two sockets with one port cannot have these addresses both."""
    return one == other or one.is_unspecified or other.is_unspecified


def _holder_of(inodes: list[str]) -> str:
    """The process that has the first of these sockets open for which there is one that we may look at."""
    for inode in inodes:
        for process in sorted((entry for entry in _PROC.iterdir() if entry.name.isdigit()), key=lambda entry: int(entry.name)):
            if _has_open(process, f"socket:[{inode}]"):
                return f"{_name(process)}, pid {process.name}"
    return ""


def _has_open(process: Path, link: str) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return False  # it has ended, or is another user's
    for descriptor in descriptors:
        try:
            if str(descriptor.readlink()) == link:
                return True
        except OSError:
            continue
    return False


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"
