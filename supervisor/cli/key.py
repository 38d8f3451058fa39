"""``bascule key``: who may ask a node over the network. A client makes its pair; the node's operator lets the public key in.

These commands change files; a running node notices at once.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from storage import files
from supervisor.cli.node_calls import JSON, GivenNode, about_node, load, told
from supervisor.control.roles import ROLES, Role
from wire.errors import ConfigError


@click.group()
def key() -> None:
    """Make keys for asking a node elsewhere, and authorize them."""


@key.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--node", "address", metavar="ADDRESS", default="", help="The node it is for, such as tcp://edge-1:7000.")
@click.option("--server-key", metavar="KEY", default="", help="Its public key, or a file with that: bascule key show CONFIG.")
@JSON
def make(file: Path, address: str, server_key: str, as_json: bool) -> int:
    """Make a key pair for commands to nodes elsewhere.

    FILE gets the secret key and is readable by its owner only. FILE.pub gets the public key, which the node's operator is given.
    With --node and --server-key, bascule --key FILE status needs no more.
    """
    from actors.process.request_sockets import new_key_pair
    from supervisor.control.key_files import KeyFile, public_key, write_key

    if file.exists():
        raise click.UsageError(f"{file} is there already; a key is never replaced")
    if address and not address.startswith("tcp://"):
        raise click.BadParameter(f"an address is such as tcp://edge-1:7000, not {address!r}", param_hint="--node")
    server = public_key(server_key) if server_key else ""
    public, secret = new_key_pair()
    public_file = file.with_name(f"{file.name}.pub")
    try:
        write_key(file, KeyFile(public=public, secret=secret, node=address, server=server), "A pair of keys. Secret.")
        write_key(public_file, KeyFile(public=public), "A public key, for bascule key add.")
    except OSError as error:
        raise files.unwritable(file, error) from error
    words = [f"{file}: the secret key", f"{public_file}: the public key, {public}"]
    words.append(f"  next, where the node is: bascule key add CONFIG NAME {public_file.name}")
    return told({"file": str(file), "public_file": str(public_file), "public_key": public}, as_json, "\n".join(words))


@key.command()
@about_node(name="NAME", given="KEY")
@click.option("--role", type=click.Choice(ROLES), default="view", show_default=True, help="The role of the key.")
@JSON
def add(node: GivenNode, name: str, given: str, role: Role, as_json: bool) -> int:
    """Authorize KEY, a public key or a file with one.

    The key is called NAME from now on. The role view sees the status, operate also sees messages and gives orders that can be
    undone, admin may give every command. A NAME that exists already gets this key and role.
    """
    from supervisor.control.key_files import NAME, SUFFIX, KeyFile, public_key, write_key

    if NAME.fullmatch(name) is None:
        raise click.BadParameter("a name has 1 to 64 of A-Z a-z 0-9 _ -", param_hint="NAME")
    public = public_key(given)
    folder = _folder(node)
    path = folder / f"{name}{SUFFIX}"
    try:
        files.make_folder(folder)
        write_key(path, KeyFile(public=public, role=role), f"Let in as {name} by bascule key.")
    except OSError as error:
        raise files.unwritable(path, error) from error
    return told({"name": name, "role": role, "public_key": public}, as_json, f"{name}: authorized as {role}")


@key.command("list")
@about_node()
@JSON
def list_keys(node: GivenNode, as_json: bool) -> int:
    """List the authorized keys and their roles."""
    from supervisor.control.key_files import read_allowed

    allowed, problems = read_allowed(_folder(node))
    rows = [{"name": one.name, "role": one.role, "public_key": one.public} for one in allowed]
    if as_json:
        print(json.dumps({"keys": rows, "problems": problems}))
        return 0
    if rows:
        from supervisor.terminal.view import print_columns

        print_columns(("name", "role", "public key"), [tuple(row.values()) for row in rows], headed=False)
    else:
        print("no keys: nobody is authorized over the network")
    for problem in problems:
        click.echo(f"bascule: {problem}", err=True)
    return 0


@key.command()
@about_node(key_name="NAME")
@JSON
def remove(node: GivenNode, key_name: str, as_json: bool) -> int:
    """Remove the authorization of the key NAME.

    Clients that are connected by it are refused from now on.
    """
    from supervisor.control.key_files import SUFFIX, key_names, read_allowed

    folder = _folder(node)
    known = key_names(folder)
    if key_name not in known:
        raise ConfigError(f"there is no key {key_name}; there are: {', '.join(known) or 'none'}")
    try:
        files.remove(path := folder / f"{key_name}{SUFFIX}")
    except OSError as error:
        raise files.unwritable(path, error) from error
    left = len(read_allowed(folder)[0])
    return told({"name": key_name, "keys": left}, as_json, f"{key_name}: no longer authorized")


@key.command()
@about_node()
@JSON
def show(node: GivenNode, as_json: bool) -> int:
    """Show the node's own public key, which its clients must know.

    The pair is made if there is none yet.
    """
    from supervisor.control.key_files import server_key

    public = server_key(Path(node.place.data_dir)).public
    return told({"public_key": public}, as_json, public)


def _folder(node: GivenNode) -> Path:
    """The folder of the keys that the node lets in.

    Raises:
        ConfigError: the node does not listen on the network.
    """
    control = load(node.config).control
    if control is None:
        text = f"{node.config}: control is missing; write control: {{bind: tcp://0.0.0.0:7000, allowed_keys: keys}}"
        raise ConfigError(text)
    return Path(control.allowed_keys)
