"""``bascule check`` finds what a configuration asks in vain, and says in which line of which file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from tests.support.authority import Authority
from tests.support.ports import free_port


def written(folder: Path, *bridges: str, bind: str = "", more: str = "", data_dir: str = "data") -> tuple[Path, int]:
    """A configuration, a bridge a line from line 5 on; and the port of its listener. PORT in ``bridges`` is that."""
    port = free_port()
    path = folder / "bascule.yaml"
    lines = [
        f"node: {{name: edge, data_dir: {data_dir}}}",
        f"listeners: [{{bind: '{bind or f'127.0.0.1:{port}'}'}}]",
        "access: {allow_anonymous: true}",
        "bridges:" if bridges else "bridges: []",
        *(f"- {bridge.replace('PORT', str(port))}" for bridge in bridges),
        more,
    ]
    path.write_text("\n".join(lines))
    return path, port


def bridge(address: str, *, rules: str = 'local_subscriptions: [{filters: ["#"]}]', name: str = "a", remote: str = "") -> str:
    return f'{{name: {name}, remote: {{addresses: ["{address}"], client_id: edge{remote}}}, {rules}}}'


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of what is wrong with ``path``; none if it is well."""
    status = main(["check", str(path)])
    said = capsys.readouterr()
    assert (status == 78) == bool(said.err), (status, said)
    return said.err.splitlines()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]"])
def test_a_bridge_to_its_own_listener_is_found(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = written(tmp_path, bridge(f"{host}:PORT"))

    (line,) = check(path, capsys)

    assert line.startswith(f"{path}:5:")
    assert "bridges[0].remote.addresses[0]: leads to a listener of this node" in line


def test_so_is_one_that_goes_by_the_name_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    path, _ = written(tmp_path, bridge(f"{socket.gethostname()}:{port}"), bind=f"0.0.0.0:{port}")

    assert "leads to a listener" in check(path, capsys)[0]


@pytest.mark.parametrize(
    "made",
    [
        bridge("127.0.0.2:1"),
        bridge("broker.example:PORT"),
        bridge("127.0.0.1:PORT", rules='local_subscriptions: [{filters: ["a/#"], destination: "b/{2-#}"}]'),
        bridge("127.0.0.1:PORT", rules='local_subscriptions: [{filters: ["a/#"], excludes: ["a/b/#"], destination: "a/b/{#}"}]'),
    ],
    ids=["another port", "another machine", "other topics", "excluded topics"],
)
def test_what_does_not_come_back_is_no_circle(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = written(tmp_path, made)

    assert check(path, capsys) == []


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"bind": "192.0.2.1:1883"}, "2: listeners[0].bind: no interface of this machine has the address 192.0.2.1"),
        ({"more": "http: {bind: '192.0.2.1:8080'}"}, "http.bind: no interface of this machine"),
        ({"more": "control: {bind: 'tcp://192.0.2.1:7000', allowed_keys: keys}"}, "control.bind: no interface of this machine"),
        ({"data_dir": "/proc/bascule/data"}, "node.data_dir: /proc takes no folder"),
    ],
)
def test_what_this_machine_does_not_have_is_told_with_its_line(
    keys: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "http" in keys.get("more", ""):
        tokens = tmp_path / "tokens"
        assert main(["token", "add", str(tokens), "ada"]) == 0
        capsys.readouterr()
        keys = {"more": keys["more"].replace("}", f", tokens_file: {tokens}}}")}
    path, _ = written(tmp_path, **keys)

    (line,) = check(path, capsys)

    assert line.startswith(f"{path}:")
    assert says.partition(": ")[2] in line


def test_a_port_that_a_node_has_already_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path, _ = written(tmp_path, bind=f"127.0.0.1:{taken.getsockname()[1]}")

        assert check(path, capsys) == []


@pytest.mark.parametrize(("section", "prefix"), [("http", ""), ("control", "tcp://")])
def test_two_interfaces_on_one_port_are_refused(
    section: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    keys = ", allowed_keys: keys" if section == "control" else ""
    path, _ = written(tmp_path, bind=f"127.0.0.1:{port}", more=f"{section}: {{bind: '{prefix}127.0.0.1:{port}'{keys}}}")

    (line,) = check(path, capsys)

    assert f"{section}.bind: {port} is the port of listeners[0] already" in line


def test_the_line_is_that_of_an_included_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, port = written(tmp_path)
    (tmp_path / "bridges.yaml").write_text(f"bridges:\n- {bridge(f'127.0.0.1:{port}')}\n")
    path.write_text(path.read_text().replace("bridges: []", "include: [bridges.yaml]"))

    (line,) = check(path, capsys)

    assert line.startswith(f"{tmp_path / 'bridges.yaml'}:2:")


@pytest.mark.process
def test_a_key_that_does_not_fit_is_found_for_remotes_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one"), authority.issue("other")
    tls = f", transport: tls, tls: {{cert_file: {one.cert_file}, key_file: {other.key_file}}}"
    path, _ = written(tmp_path, bridge("broker.example:8883", remote=tls))

    (line,) = check(path, capsys)

    assert line.startswith(f"{path}:5:")
    assert "bridges[0].remote" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may have every port")
def test_a_port_below_1024_without_the_right_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = written(tmp_path, bind="127.0.0.1:83")

    assert "this user may not have port 83" in check(path, capsys)[0]
