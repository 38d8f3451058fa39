"""Makes the pages of docs/reference that say what the program says: commands, configuration, events, status, metrics,
$SYS topics, options of other bridges.

    python scripts/documents/reference.py           writes them
    python scripts/documents/reference.py --check   names those that differ, and ends with 1 if there is one

Commands are those of click, keys those of the settings, events those of their module's table, status and metrics those of the
figures where they are declared, topics those that the node sends, options those of the tables of bascule convert.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from bridge_options import bridge_options
from command_tree import leaves, tasks
from rest_page import rest_page

from supervisor.cli.main import cli
from supervisor.config.setting_annotations import Setting, about, settings_of
from supervisor.metrics.metric import Metric
from supervisor.metrics.table import sections
from supervisor.units import write_duration, write_size
from wire.config_settings import NodeSettings
from wire.figure import held, of_map
from wire.routing.sys_topics import LoadAverages, SysFigures, SysLane, listener_values, node_values
from wire.setting_kinds import Duration, Effect, Number, SettingForm, Size
from wire.status.bridges import QueueFigures
from wire.status.client_figures import DistributorFigures, TrafficFigures
from wire.status.event_kinds import EventKind
from wire.status.histogram import HistogramFigures
from wire.status.store import SessionFigures
from wire.typed_values import field_types

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
MADE = "<!-- Made by scripts/docs; change the program instead. -->\n"


def main(argv: list[str]) -> int:
    """Write the pages, or compare them; the exit status."""
    pages = {"commands.md": commands(), "configuration.md": configuration(), "events.md": events(), "sys-topics.md": sys_topics()}
    pages |= {"bridge-options.md": MADE + bridge_options(table_of)}
    pages |= {"rest.md": MADE + rest_page(), "metrics.md": metrics(), "status.md": status()}
    if argv == ["--check"]:
        differ = [name for name, text in pages.items() if not _is(REFERENCE / name, text)]
        print("".join(f"docs/reference/{name} is out of date; run: scripts/docs\n" for name in differ), end="")
        return int(bool(differ))
    for name, text in pages.items():
        (REFERENCE / name).write_text(text)
    return 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def table_of(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """The Markdown of a table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)]) + "\n"


# --- commands ---


def commands() -> str:
    """Every command with its help, arguments and options."""
    head = f"""{MADE}
# Commands

## Which node

CONFIG is the configuration file of a node on this machine. It is the first argument, or given with `-c`, before the command or
behind it. When it is left out it is what the environment has in `BASCULE_CONFIG`, or `/etc/bascule/bascule.yaml`. Where what
follows CONFIG may be left out as well, as in `bascule queue list [CONFIG] [BRIDGE]`, a single argument is CONFIG if it is a file
or ends in `.yaml` or `.yml`.

A node elsewhere is given by `--node ADDRESS` and `--key FILE` in front of the command, or by `BASCULE_NODE` and `BASCULE_KEY`;
[from another machine](../guides/from-another-machine.md) sets that up. Arguments go before the environment.
Commands that read the node's own files say so: `bascule check`, `bascule doctor`, `bascule run`, `bascule snapshot list` and
`bascule snapshot copy`.

## What all have

`-h` or `--help` explains each; with `--json` a command answers a program. Each ends with one of the
[exit statuses](exit-statuses.md). A node logs to standard error, in lines of text on a terminal and of JSON elsewhere, or as
`log.format` says. When its listeners accept, `bascule run` logs `node.ready`, and prints it as a JSON line on standard output
where that is another place.

| option before the command | effect |
|---|---|
{_global_options()}
## Completion

A shell completes commands, options and files, and the names that a running node knows: bridges, lanes, sessions, members, keys,
snapshots, users and tokens of a file, kinds of events. It asks the node that the words before give, waits for at most a second, and
offers none when no node runs. Names that a shell would not take as one plain word are left out; so are those with a colon in bash.
The Debian package brings it along. Elsewhere, for the shell that is in use:

    eval "$(_BASCULE_COMPLETE=bash_source bascule)"               # in ~/.bashrc
    eval "$(_BASCULE_COMPLETE=zsh_source bascule)"                # in ~/.zshrc, behind compinit
    _BASCULE_COMPLETE=fish_source bascule | source                # in ~/.config/fish/config.fish

## The commands

"""
    return head + "".join(_index(task, names) for task, names in tasks()) + "".join(_command(path, one) for path, one in leaves())


def _index(task: str, names: tuple[str, ...]) -> str:
    """The commands of one task, a line each."""
    rows = [(path, one) for path, one in leaves() if path.split()[1] in names]
    table = table_of(("command", "effect"), [(f"[`{path}`](#{_anchor(path)})", _first(one)) for path, one in rows])
    return f"**{task}**\n\n{table}\n"


def _global_options() -> str:
    options = [option for option in cli.params if isinstance(option, click.Option)]
    return "".join(f"| {_option_names(option)} | {_cell(_option_text(option))} |\n" for option in options)


def _option_names(option: click.Option) -> str:
    return _code(", ".join(option.opts) + (f" {_metavar(option)}" if not option.is_flag else ""))


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _help(command: click.Command) -> str:
    return re.sub(r"``", "`", re.sub(r"\n +", "\n", (command.help or "").strip()))


def _first(command: click.Command) -> str:
    return _help(command).partition("\n\n")[0]


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [
        (_option_names(option), _option_text(option))
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts
    ]
    text = f"\n## {path}\n\n    {path} {usage}\n\n{_help(command)}\n"
    return text + ("\n" + table_of(("option", "effect"), options) if options else "")


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    match option.type:
        case click.Choice():
            return " | ".join(map(str, option.type.choices))
        case click.IntRange():
            return "N"
        case click.Path():
            return "DIR"
        case _:
            return "TEXT"


def _option_text(option: click.Option) -> str:
    default = option.default if option.show_default and option.default is not None else None
    return (option.help or "") + (f" Default: `{default}`." if default is not None else "")


# --- configuration ---


def configuration() -> str:
    """Every key with what it takes, its default and what it is for."""
    head = f"""{MADE}
# Configuration

One YAML file. `configs/default.yaml` in the checkout shows every key with its default and a comment;
`configs/bascule.schema.json` is its JSON Schema, by which editors complete and check. `bascule check` names file, line,
column and key of every error.

- Durations are written `250ms`, `60s`, `2m`, `1h`, `7d`.
- Sizes are written `512B`, `64KiB`, `16MiB`, `50GiB` (powers of 1024), `1kB`, `1MB`, `1GB` (powers of 1000).
- A value may hold `${{NAME}}` or `${{NAME:-otherwise}}`, from the environment, and `${{file:PATH}}`, the content of a file.
  `$${{` is `${{` itself.
- `include` adds the bridges and listeners of more files, in the order of their names.
- Unknown keys are errors.
- Relative paths count from the file's folder.
- A key without a default must be given, unless its default is *none*.
- `bascule reload` has a running node take [a change](../guides/change-it-live.md): `live` at once, `reconnect` by a new
  connection of the bridge, `restart` by a new process, `node-restart` when the node is started again. A change that gives
  something up wants `--yes`, whatever stands here.

[Rules](../guides/rules.md) explains `destination`, [durability](../guides/durability.md) what an acknowledgement is worth,
[full disk](../guides/full-disk.md) the limits.
"""
    return head + "".join(_sections("", about(NodeSettings), settings_of(NodeSettings), Effect.NODE_RESTART, ""))


def _sections(path: str, doc: str, settings: Sequence[Setting], effect: Effect, inherits: str) -> Iterator[str]:
    """The section at ``path`` and those below it. inherits: the section that has the values of what is left out."""
    title = f"`{path}`" if path else "The file"
    below = [(one, f"{path}.{one.key}".lstrip("."), one.effect or effect) for one in settings]
    rows = [
        (
            _code(one.key),
            what_it_takes(one),
            f"that of `{inherits}`" if inherits else default_of(one),
            "" if one.section is not None or one.key == "include" else str(taken),
            one.says,
        )
        for one, _, taken in below
    ]
    yield f"\n## {title}\n\n{doc}\n\n" + table_of(("key", "takes", "default", "a change", "what it is for"), rows)
    for one, key, taken in below:
        if one.section is not None:
            yield from _sections(key + ("[]" if one.many else ""), about(one.section), one.below(), taken, one.inherits)


def what_it_takes(one: Setting) -> str:
    """The values that a key takes, in words."""
    if one.section is not None:
        return "a list, see below" if one.many else "keys, see below"
    or_word = "" if one.never is MISSING else f" or `{one.word}`"
    match one.amount:
        case Duration(min_s=least, max_s=most):
            return f"a duration, {write_duration(least)} to {write_duration(most)}{or_word}"
        case Size(min_bytes=least):
            return f"a size from {write_size(least)}{or_word}"
        case Number(least=least, most=most):
            return f"{least:g} to {most:,.0f}{or_word}"
    if one.choices:
        return ", ".join(_code(str(word)) for word, _ in one.choices)
    if one.held is bool:
        return "`true`, `false`"
    if one.written in (SettingForm.PROPERTIES, SettingForm.HEADERS, SettingForm.REFUSALS):
        return "a mapping"
    if one.written is SettingForm.ONLY:
        return "`all`, `changed`, `{one_per: 10s}`"
    return "a list of texts" if one.many else "a text"


def default_of(one: Setting) -> str:
    """A key's default as it is written."""
    if one.required:
        return "*must be given*"
    if one.section is not None and not one.many and one.default is not None:
        return ""
    match one.as_written(one.default):
        case None | "":
            return "*none*"
        case bool() as flag:
            return _code(str(flag).lower())
        case ():
            return "`[]`"
        case dict() as mapping:
            return _code("{" + ", ".join(f"{key}: {value}" for key, value in mapping.items()) + "}")
        case default:
            return _code(str(default))


# --- events ---


def events() -> str:
    """The kinds of events."""
    head = f"""{MADE}
# Events

`bascule events CONFIG` shows what happened to a node, by time. With `--json` each is one line: `number`, `at_ms` (UTC,
milliseconds), `kind`, `bridge`, `lane`, `actor`, `reason`, `count`, `details`. What does not apply is empty, and -1 for
`lane`. Events are numbered from 0, and a number is never given twice.

`persistence.events` says how many are kept, and how long. Events never hold up an acknowledgement. Those on their way may be
lost when a process is killed, and those of the last second when the power goes.

"""
    return head + table_of(("kind", "what it tells"), [(_code(kind), kind.tells) for kind in EventKind])


# --- metrics ---


def metrics() -> str:
    """The table of metrics, by its headings."""
    head = f"""{MADE}
# Metrics

`/metrics` of the [HTTP interface](../guides/http.md) and `bascule metrics` tell these, in Prometheus's text format; to whoever
asks for it, `/metrics` speaks OpenMetrics. A [collector of OpenTelemetry](../guides/monitoring.md#opentelemetry) gets the same,
with counters called without `_total`. [Monitoring](../guides/monitoring.md) sets it up, with alerts and a dashboard.

Each is a field of the [status](status.md) under another name. What nobody has reported yet and what is not configured is left out.
Units are seconds and bytes; true is 1. Counters of queues are on record and outlive restarts; others begin with the life of their
process. Where the status has a rate, the metrics have the counter.

A metric of kind `states` is a gauge with the label `state`: 1 for the state that holds, 0 for the others. One of kind `info` is
always 1, and its labels tell. Texts change, so alerts go by states, and show the text of an `info` in an annotation.
"""
    return head + "".join(_metrics_section(path, section) for path, _, section in sections() if section)


def _metrics_section(path: str, section: tuple[Metric, ...]) -> str:
    rows = [(_code(one.name), one.told_as, ", ".join(map(_code, one.labels)), _code(_field(one)), one.text) for one in section]
    return f"\n## {_heading(path)}\n\n" + table_of(("metric", "kind", "labels", "status field", "what it is"), rows)


def _field(metric: Metric) -> str:
    """The place in the status, for people; of an info, its words."""
    below = ", ".join(f"{metric.path}.{path}".lstrip(".") for _, path in metric.words)
    return below or re.sub(r"\{.*\}", "", metric.path)


def _heading(path: str) -> str:
    return _code(re.sub(r"\{.*\}", "", path)) if path else "The node"


# --- the status ---


def status() -> str:
    """The tables of the status: each field with its sentence."""
    head = f"""{MADE}
# Status

`bascule status CONFIG --json` prints one object, and the [HTTP interface](../guides/http.md) answers `/api/v1/status` with it. A
figure that nobody has reported yet is `null`, and so is one that is said to be absent; a part is an empty object then. Times end in
`_s` (seconds) or `_ms` (milliseconds; points in time are UTC), sizes in `bytes`. Counters of queues are on record and outlive
restarts; others begin with the life of their process.

A node is ready while all its actors work; one that [stands by](../guides/cluster.md) is, too, and has no bridges. Worth watching:
`ready`, and of each bridge `state`, `depth`, `oldest_age_s`, `refused`, `dropped` and `ledger_closes`; of the store `state`.
"""
    told, parts = set(), []
    for path, kind, _ in sections():
        if kind not in told:  # the histograms are all alike
            told.add(kind)
            parts.append(_status_section(path, kind))
    return head + "".join(parts)


def _status_section(path: str, kind: Any) -> str:
    title = "Histograms" if kind is HistogramFigures else _heading(path)
    rows = [
        (_code(each.name), _typed(hint), each.metadata["text"])
        for each, (_, hint) in zip(fields(kind), field_types(kind), strict=True)
    ]
    intro = " ".join((kind.__doc__ or "").split())
    return f"\n## {title}\n\n{intro}\n\n" + table_of(("field", "type", "what it is"), rows)


def _typed(hint: Any) -> str:
    """The type of a field for people."""
    kind, within = held(hint)
    words = {bool: "true or false", int: "integer", float: "number", str: "text"}
    if kind is not None:
        return "histogram" if kind is HistogramFigures else {tuple: "rows", dict: "parts by name"}.get(within, "part")
    first = next((one for one in (get_args(hint) or (hint,)) if one is not type(None)), hint)
    origin = get_origin(hint)
    if origin in (tuple, dict):
        return f"list of {words[first]}s" if origin is tuple else f"{words[get_args(hint)[1]]} by name"
    return words[first] + (", or `null`" if type(None) in get_args(hint) else "")


# --- $SYS ---

_BROKER_TEXTS = {
    "version": 'such as `0.1.0`, behind the words "bascule version"',
    "uptime": "seconds since the node started",
    "subscriptions/count": "subscriptions of local clients",
    "clients/connected": "clients connected now",
    "clients/active": "as `clients/connected`",
    "clients/maximum": "most clients connected at a time",
    "clients/disconnected": "sessions kept whose client is away",
    "clients/inactive": "as `clients/disconnected`",
    "clients/total": "connected and away together",
    "clients/expired": "sessions that have expired",
    "retained messages/count": "retained messages",
    "messages/stored": "messages in the queues of bridges and sessions, and retained ones",
    "store/messages/count": "as `messages/stored`",
    "store/messages/bytes": "the bytes of those",
    "messages/received": "packets of all types from local clients",
    "messages/sent": "packets of all types to local clients",
    "publish/messages/received": "PUBLISHes from local clients",
    "publish/messages/sent": "PUBLISHes to local clients",
    "bytes/received": "bytes from local clients, above TLS",
    "bytes/sent": "bytes to local clients, above TLS",
}
_BASCULE_TEXTS = {
    "sessions/kept": "sessions on record",
    "sessions/depth": "messages that wait for sessions",
    "bridge/NAME/LANE/connected": "1 while the lane is connected, else 0",
    "bridge/NAME/LANE/depth": "messages that wait in the lane's queue",
    "bridge/NAME/LANE/refused": "messages that the lane's full queue refused for good",
    "batches/outstanding": "batches that are being committed",
    "refused/messages": "messages that were refused for want of room",
    "refused/reserved_topic": "PUBLISHes and Wills of clients below `$SYS/` that were not taken",
    "refused/LIMIT": "what the limit LIMIT refused, such as `subscriptions_max`",
}


def sys_topics() -> str:
    """The topics that a node sends, each with a word on it; fails if one has none."""
    lane = SysLane("NAME", 0, True, QueueFigures(depth=0, refused=0))
    of_node = node_values(of_map(DistributorFigures, {}), of_map(SessionFigures, {}), [lane])
    figures = SysFigures(
        connected=0, most_connected=0, outstanding_batches=0, refused_messages=0, reserved_publishes=0, refused={"LIMIT": 0}
    )
    topics = [*(topic.replace("/0/", "/LANE/") for topic in of_node), *listener_values(TrafficFigures(), figures)]
    names = ("version", "uptime", "clients/inactive", "clients/total")  # of the batch itself
    topics += [f"$SYS/broker/{name}" for name in names]
    texts = {f"$SYS/broker/{name}": text for name, text in _BROKER_TEXTS.items()}
    texts |= {f"$SYS/bascule/{name}": text for name, text in _BASCULE_TEXTS.items()}
    assert set(topics) == set(texts), set(topics) ^ set(texts)
    loads = LoadAverages(0.0).values()
    head = f"""{MADE}
# `$SYS` topics

A client that subscribes to `$SYS/#` or below gets the latest values at once, then all of them every `clients.sys_period` (10
s; `0s` is never), at QoS 0 with RETAIN. `#` does not match them [MQTT-4.7.2-1]. Clients cannot publish there, and no bridge
takes them. Names are those that users know from Mosquitto where there is the same figure; what only Bascule has is below
`$SYS/bascule`. Counters begin with the life of the process `clients`, the uptime with that of the node.

<!-- not run: tests/broker/test_sys_topics.py types it -->
```sh
mosquitto_sub -p 1883 -t '$SYS/#' -v --retained-only -W 1    # the latest values; without the last two it goes on
```

"""
    table = table_of(("topic", "value"), [(_code(topic), texts[topic]) for topic in sorted(topics)])
    return head + table + "\nAverages of what each counter grows in a minute, over 1, 5 and 15 minutes:\n\n" + _loads(list(loads))


def _loads(topics: list[str]) -> str:
    kinds = dict.fromkeys(topic.rpartition("/")[0] for topic in topics)
    return "".join(f"- `{kind}/1min`, `5min`, `15min`\n" for kind in kinds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
