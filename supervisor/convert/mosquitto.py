"""``mosquitto.conf`` becomes a configuration of ours: what fits one to one by the table of options, the rest by the functions here.

Mosquitto's own defaults are written where ours would change what happens to a message. What a listener or a connection cannot do
without, such as pre-shared keys, leaves it out whole: it must not come to stand there open.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from supervisor.config.yaml_file import Key
from supervisor.convert.draft import Draft, Line, literally
from supervisor.convert.mosquitto_access import passwords, rules
from supervisor.convert.mosquitto_file import MosquittoFile, Part, lines_of, option_of, read_text
from supervisor.convert.mosquitto_topics import TopicRule, in_order, rules_of
from supervisor.convert.values import flag, name_like, number, take
from supervisor.doctor.circles import comes_back
from supervisor.units import UNLIMITED, write_duration, write_size
from wire.config_settings import RuleSettings
from wire.errors import ConfigError

DEFAULT = "Mosquitto's default"
USERS = "secrets/users"
NOBODY = "# Nobody has a password yet: bascule user add FILE USER gives one.\n"

_PACKET_BYTES = 2_000_000  # the default of Mosquitto 2.1
_PACKET_MAX_BYTES = 16 << 20  # what other limits have room for as they are
_OUTPUT_BYTES = 4 << 20
_LEVELS = {"debug": 0, "all": 0, "websockets": 0, "subscribe": 0, "unsubscribe": 0, "internal": 0, "information": 1, "notice": 1}
_LEVELS |= {"warning": 2, "error": 3, "none": 3}
_LEVEL_NAMES = ("debug", "info", "warning", "error")
_EXPIRY_S = {"s": 1, "h": 3600, "d": 86400, "w": 7 * 86400, "m": 30 * 86400, "y": 365 * 86400}
_SYSTEM_AUTHORITIES = ("/etc/ssl/certs", "/etc/pki/tls/certs")
_EXPIRY_MAX_S = 10 * 365 * 86400
_BUILT_IN = ("password_file", "acl_file", "persist")  # plug-ins that Mosquitto 2.1 brings for what is built in here


def from_mosquitto(path: Path, draft: Draft) -> None:
    """Put into ``draft`` what the file ``path`` says, and what it includes and names.

    Raises:
        ConfigError: it cannot be read.
    """
    found = MosquittoFile.read(path)
    folder = path.parent
    for part in found.listeners:
        _listener(draft, part, folder)
    if not draft.count("listeners"):
        draft.put(("listeners", 0, "bind"), "127.0.0.1:1883", "no listener could be taken" if found.listeners else DEFAULT)
    draft.put(("access", "allow_anonymous"), not found.listeners, DEFAULT)
    _access(draft, ("access",), found.node.access, folder)
    let_nobody_in(draft)
    _node(draft, found.node, folder)
    for part in found.bridges:
        _bridge(draft, part, folder)
    _pass_on(draft)
    for line, why in found.lost:
        draft.refuse(line, why)


def _each(draft: Draft, base: Key, lines: Iterable[Line], folder: Path, done: Iterable[str]) -> None:
    """Take the ``lines`` whose options fit one to one; those that are ``done`` have been taken."""
    for line in lines:
        option = option_of(line.name)
        assert option is not None
        if line.name not in done:
            take(draft, base, replace(line, value=literally(line.value)), option, folder)


def _is_fatal(draft: Draft, part: Part) -> bool:
    """Whether ``part`` asks for something that it cannot do without; that is noted."""
    for line in part.lines:
        option = option_of(line.name)
        if option is not None and option.fatal:
            draft.leave(line, option)
            draft.refuse(part.head, f"all of it is left out: it cannot be without {line.name}, line {line.number}")
            return True
    return False


# --- the node ---


def _node(draft: Draft, node: Part, folder: Path) -> None:
    done = ("log_type", "persistent_client_expiration", "max_packet_size", "message_size_limit", "max_queued_bytes")
    _each(draft, (), node.lines, folder, done)
    types = [line for line in node.lines if line.name == "log_type"]
    if types:
        told = min(types, key=lambda line: _LEVELS.get(line.value, 1))
        draft.put(("log", "level"), _LEVEL_NAMES[_LEVELS.get(told.value, 1)], told)
    _packets(draft, node)
    queued = node.last("max_queued_bytes")
    if queued is not None and number(queued.value) > 0:
        draft.put(("sessions", "queue_max_bytes"), write_size(max(number(queued.value), _OUTPUT_BYTES)), queued)
    expiry = node.last("persistent_client_expiration")
    if expiry is None:
        draft.put(("sessions", "expiry_max"), UNLIMITED, f"{DEFAULT}: they wait for ever")
    else:
        word = expiry.words[0]
        seconds = number(word[:-1]) * _EXPIRY_S[word[-1]]
        draft.put(("sessions", "expiry_max"), write_duration(seconds) if seconds <= _EXPIRY_MAX_S else UNLIMITED, expiry)


def _packets(draft: Draft, node: Part) -> None:
    line = node.last("max_packet_size", "message_size_limit")
    asked = number(line.value) if line is not None else 0
    packet_bytes = min(max(asked or _PACKET_BYTES, 1024), _PACKET_MAX_BYTES)
    source: Line | str = line if line is not None and asked else f"{DEFAULT} since 2.1; 2.0 has no limit"
    draft.put(("clients", "packet_max_bytes"), write_size(packet_bytes), source, f"{asked} there" if asked > packet_bytes else "")
    if 2 * packet_bytes > _OUTPUT_BYTES:
        draft.put(("clients", "output_max_bytes"), write_size(2 * packet_bytes), source, "room for two of the largest")


# --- listeners and their access ---


def _listener(draft: Draft, part: Part, folder: Path) -> None:
    protocol, certificate = part.last("protocol"), part.last("certfile")
    if _is_fatal(draft, part):
        return
    if protocol is not None and protocol.value not in ("mqtt", "websockets"):
        draft.refuse(part.head, f"all of it is left out: protocol {protocol.value}, line {protocol.number}, is not MQTT")
        return
    base: Key = ("listeners", draft.count("listeners"))
    draft.put((*base, "bind"), *_bind(part, folder))
    web = protocol is not None and protocol.value == "websockets"
    if web or certificate is not None:
        word = {(False, True): "tls", (True, False): "ws", (True, True): "wss"}[web, certificate is not None]
        source = protocol if protocol is not None and web else certificate or part.head
        draft.put((*base, "protocol"), word, source, "at the path /mqtt; every path there" if web else "")
    done = {"listener", "port", "bind_address", "protocol", "socket_domain", "cafile", "require_certificate", "tls_version"}
    done |= {"use_identity_as_username", "use_subject_as_username", "certfile", "keyfile", "ciphers", "crlfile"}
    _each(draft, base, part.lines, folder, done - {"certfile", "keyfile", "ciphers"} if certificate is not None else done)
    if certificate is not None:
        _certificates(draft, (*base, "tls"), part, folder)
    _access(draft, (*base, "access"), part.access, folder)


def _bind(part: Part, folder: Path) -> tuple[str, Line]:
    """Where the listener is, and the line that says so."""
    named, numbered = part.last("bind_address"), part.last("port")
    line = part.head if part.head.name == "listener" else numbered or named or part.head
    port, host = "1883" if numbered is None else numbered.value, "" if named is None else named.value
    if line.name == "listener":
        port, host = (*line.words, "", "")[:2]
    if port == "0":
        return f"unix:{folder.absolute() / host}", line
    domain = part.last("socket_domain")
    if not host:
        six = domain.value == "ipv6" if domain is not None else os.path.exists("/proc/net/if_inet6")
        host = "[::]" if six else "0.0.0.0"
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}", line


def _certificates(draft: Draft, base: Key, part: Part, folder: Path) -> None:
    asked = part.last("require_certificate")
    checked_by = {
        key: line for key, name in (("ca_file", "cafile"), ("crl_file", "crlfile")) if (line := part.last(name)) is not None
    }
    if asked is not None and flag(asked.value):
        draft.put((*base, "client_certificate"), "required", asked)
        for key, line in checked_by.items():
            draft.put((*base, key), literally(str(folder.absolute() / line.value)), line)
        for name, word in (("use_identity_as_username", "common-name"), ("use_subject_as_username", "subject")):
            line = part.last(name)
            if line is not None and flag(line.value):
                draft.put((*base, "identity"), word, line)
    else:
        for line in checked_by.values():
            draft.needless.append((line.shown, "no certificate of a client is asked for, so there is none to check"))
    _version(draft, base, part.last("tls_version"))


def _version(draft: Draft, base: Key, line: Line | None) -> None:
    if line is not None and line.value == "tlsv1.3":
        draft.put((*base, "min_version"), "tls1.3", line)
    elif line is not None and line.value != "tlsv1.2":
        draft.refuse(line, "TLS 1.2 is the oldest that is spoken")


def _access(draft: Draft, base: Key, lines: Iterable[Line], folder: Path) -> None:
    """Access of the node or of a listener. Where a plug-in decides, nobody comes in without a password."""
    lines, decided = _without_plugins(draft, lines)
    by_name = {line.name.removeprefix("listener_"): line for line in lines}
    anonymous, users, acl = (by_name.get(name) for name in ("allow_anonymous", "password_file", "acl_file"))
    if decided is not None:
        draft.put((*base, "allow_anonymous"), False, decided, "the plug-in is not loaded")
        if anonymous is not None:
            draft.refuse(anonymous, "a plug-in decided there, too, who may come in")
    elif anonymous is not None:
        draft.put((*base, "allow_anonymous"), flag(anonymous.value), anonymous)
    if users is not None:
        _users(draft, base, users, folder)
    if acl is not None:
        _rules(draft, base, acl, folder)


def _without_plugins(draft: Draft, lines: Iterable[Line]) -> tuple[list[Line], Line | None]:
    """The lines of what is built in here, also where plug-ins of Mosquitto 2.1 have them; and another plug-in that decided."""
    kept: list[Line] = []
    decided: Line | None = None
    for line in lines:
        option = option_of(line.name)
        known = line.name.removeprefix("plugin_opt_")
        if known in ("password_file", "acl_file"):
            kept.append(Line(line.file, line.number, known, line.value))
        elif "plugin" in line.name and any(word in line.value for word in _BUILT_IN):
            draft.needless.append((line.shown, "what it does is built in"))
        elif option is not None and not option.key:
            draft.leave(line, option)
            decided = line if line.name in ("plugin", "auth_plugin", "global_plugin", "plugin_use") else decided
        else:
            kept.append(line)
    return kept, decided


def _users(draft: Draft, base: Key, line: Line, folder: Path) -> None:
    name = USERS if base == ("access",) else f"{USERS}-{base[1]}"
    try:
        text = read_text(folder / line.value)
    except ConfigError as error:
        text = ""
        draft.refuse(line, "; ".join(error.problems))
    split = ((place, one.partition(":")) for place, one in enumerate(text.split("\n"), start=1))
    said = [(place, user, rest.strip()) for place, (user, _, rest) in split if user.strip() and not user.startswith("#")]
    kept, refused = passwords([Line(line.value, *one) for one in said])
    for one, why in refused:
        draft.refuse(one.place, why)
    draft.add_file(name, kept or NOBODY)
    draft.put((*base, "password_file"), name, line)


def _rules(draft: Draft, base: Key, line: Line, folder: Path) -> None:
    try:
        found, refused = rules(lines_of(folder / line.value, line.value))
    except ConfigError as error:
        draft.refuse(line, f"{'; '.join(error.problems)}; so everything is denied")
        found, refused = [(line, {"permission": "deny", "topics": ["#"]})], []
    for one, why in refused:
        draft.refuse(one, why)
    for place, (one, rule) in enumerate(found):
        draft.put((*base, "acl", place), _literal_topics(rule), one)


def _literal_topics(rule: dict[str, object]) -> dict[str, object]:
    return {name: [literally(one) for one in value] if isinstance(value, list) else value for name, value in rule.items()}


def let_nobody_in(draft: Draft) -> None:
    """Where nobody could come in, there are passwords, of nobody yet: a node without any would not start."""
    for place in range(draft.count("listeners")):
        own: Key = ("listeners", place, "access")
        anonymous = draft.get(*own, "allow_anonymous")
        if anonymous is None:
            anonymous = draft.get("access", "allow_anonymous")
        known = draft.get(*own, "password_file") or draft.get("access", "password_file")
        if not anonymous and not known and draft.get("listeners", place, "tls", "identity") is None:
            draft.add_file(USERS, NOBODY)
            draft.put(("access", "password_file"), USERS, "nobody comes in without a password, and nobody has one yet")


# --- bridges ---


def _bridge(draft: Draft, part: Part, folder: Path) -> None:
    address, topics = part.last("address", "addresses"), _topics(draft, part)
    if _is_fatal(draft, part):
        return
    if address is None or not topics:
        draft.refuse(
            part.head, "it has no address" if address is None else "it has no topic that could be taken, so nothing crosses"
        )
        return
    base: Key = ("bridges", draft.count("bridges"))
    remote: Key = (*base, "remote")
    name = name_like(part.head.value)
    if name in [draft.get("bridges", place, "name") for place in range(base[1])]:  # type: ignore[arg-type]
        name = f"{name[:60]}-{base[1]}"
    draft.put((*base, "name"), name, part.head)
    draft.put((*remote, "addresses"), list(dict.fromkeys(map(_address, address.words))), address)
    identifier = part.last("remote_clientid", "clientid")
    given = identifier.value if identifier is not None else f"{socket.gethostname()}.{part.head.value}"
    draft.put((*remote, "client_id"), literally(given), identifier or f"{DEFAULT}: HOST.CONNECTION")
    new = _protocol(draft, remote, part)
    secure = _transport(draft, remote, part)
    done = {"address", "addresses", "connection", "remote_clientid", "clientid", "bridge_protocol_version"}
    done |= {"bridge_tls_use_os_certs", "topic", "bridge_outgoing_retain", "restart_timeout", "bridge_tcp_keepalive"}
    done |= {"remote_password", "password", "bridge_psk", "bridge_tls_version", "bridge_tcp_user_timeout"}
    done |= {"start_type", "threshold", "idle_timeout"}
    done |= {"notifications", "notifications_local_only", "notification_topic"}
    addresses = len(draft.get(*remote, "addresses") or ())
    lines = [line for line in part.lines if _fits(draft, line, secure=secure, new=new, addresses=addresses)]
    _each(draft, base, lines, folder, done)
    _secrets(draft, remote, part, name)
    _times(draft, base, part)
    _dial(draft, remote, part)
    _link_state(draft, (*base, "link_state"), part)
    _put_rules(draft, base, topics, part.last("bridge_outgoing_retain"))


def _pass_on(draft: Draft) -> None:
    """Have each bridge take what the others bring: there, all that comes to the broker goes on, but for where it came from.

    What would come from there again by the connection that brought it, and so go round without end, does not go on.
    """
    bridges = range(draft.count("bridges"))
    bring = {place for place in bridges if draft.count("bridges", place, "remote_subscriptions")}
    for place in bridges:
        others = sorted(bring - {place})
        if not others or not draft.count("bridges", place, "local_subscriptions"):
            continue
        if (again := next((other for other in others if _goes_round(draft, other, place)), None)) is not None:
            own, name = (draft.get("bridges", each, "name") for each in (place, again))
            why = f"what {name} brings would go back to the same remote and come by {name} again, without end"
            line = f"{draft.origin('bridges', place, 'name')} {own}"
            draft.refuse(line, f"what other connections bring does not go on by it: {why}")
        else:
            key = ("bridges", place, "loop_prevention", "max_hops")
            draft.put(key, 2, f"{DEFAULT}: what another connection brings goes on by this one")


def _goes_round(draft: Draft, brings: int, sends: int) -> bool:
    """Whether the bridge ``brings`` takes something that the bridge ``sends`` has taken back to the remote where it came from."""
    here, there = (draft.get("bridges", place, "remote", "addresses") for place in (brings, sends))
    versions = {draft.get("bridges", place, "remote", "protocol") for place in (brings, sends)}
    if set(map(str.lower, here)).isdisjoint(map(str.lower, there)) or versions == {"mqtt5"}:  # with that, its hops end it
        return False
    brought, sent = _rules_at(draft, brings, "remote_subscriptions"), _rules_at(draft, sends, "local_subscriptions")
    again = RuleSettings(filters=tuple(each for rule in brought for each in rule.filters))
    return any(comes_back(rule, again, back) for rule in brought for back in sent)


def _rules_at(draft: Draft, place: int, key: str) -> list[RuleSettings]:
    found = (draft.get("bridges", place, key, rule) for rule in range(draft.count("bridges", place, key)))
    return [RuleSettings(filters=tuple(rule["filters"]), destination=rule.get("destination", "{#}")) for rule in found]


def _dial(draft: Draft, remote: Key, part: Part) -> None:
    """Say when it connects: always, where nothing else is said."""
    start, threshold, idle = (part.last(name) for name in ("start_type", "threshold", "idle_timeout"))
    if start is not None and start.value == "once":
        draft.refuse(start, "a bridge whose connection has ended connects again")
    if start is None or start.value != "lazy":
        draft.needless.extend((line.shown, "start_type is not lazy") for line in (threshold, idle) if line is not None)
        return
    draft.put((*remote, "dial"), "when-needed", start)
    if threshold is not None:
        draft.put((*remote, "when_needed", "messages"), max(1, number(threshold.value)), threshold)
    if idle is not None:
        draft.put((*remote, "when_needed", "idle"), write_duration(max(1, number(idle.value))), idle)


def _link_state(draft: Draft, base: Key, part: Part) -> None:
    """Say where the state of the link is told: at both ends, where nothing else is said."""
    told, only_here, topic = (part.last(name) for name in ("notifications", "notifications_local_only", "notification_topic"))
    if told is not None and not flag(told.value):
        draft.needless.extend((line.shown, "there are no notifications") for line in (told, only_here, topic) if line is not None)
        return
    draft.put((*base, "local"), True, told or f"{DEFAULT}: notifications")
    if only_here is not None:
        draft.put((*base, "remote"), not flag(only_here.value), only_here)
    if topic is not None:
        draft.put((*base, "topic"), literally(topic.value), topic)


def _fits(draft: Draft, line: Line, *, secure: bool, new: bool, addresses: int) -> bool:
    """Whether ``line`` has an effect beside the others; else that is noted."""
    if line.name in ("bridge_certfile", "bridge_keyfile", "bridge_alpn", "bridge_tls_version") and not secure:
        draft.refuse(line, "without bridge_cafile, bridge_capath or bridge_tls_use_os_certs Mosquitto does not encrypt either")
    elif line.name == "bridge_capath" and line.value.rstrip("/") in _SYSTEM_AUTHORITIES:
        draft.needless.append((line.shown, "without ca_file the system's authorities are trusted"))
    elif (line.name == "bridge_session_expiry_interval" and not new) or (line.name == "bridge_max_topic_alias" and not new):
        draft.refuse(line, "MQTT 3.1.1 has none")
    elif line.name == "round_robin" and addresses == 1:
        draft.needless.append((line.shown, "there is one address"))
    elif line.name == "try_private" and new:
        draft.needless.append((line.shown, "MQTT 5 has no local and retain as published for it"))
    else:
        return True
    return False


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "1883"
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _protocol(draft: Draft, remote: Key, part: Part) -> bool:
    """Say which MQTT is spoken. Returns whether it is 5.0."""
    version = part.last("bridge_protocol_version")
    if version is not None and version.value == "mqttv50":
        draft.put((*remote, "protocol"), "mqtt5", version)
        return True
    draft.put((*remote, "protocol"), "mqtt311", version or DEFAULT, "3.1 there" if version and version.value == "mqttv31" else "")
    return False


def _transport(draft: Draft, remote: Key, part: Part) -> bool:
    """Say that it is encrypted where it is. Returns whether it is."""
    line = part.last("bridge_cafile", "bridge_capath", "bridge_tls_use_os_certs", "bridge_identity")
    if line is None or (line.name == "bridge_tls_use_os_certs" and not flag(line.value)):
        return False
    draft.put((*remote, "transport"), "tls", line)
    _version(draft, (*remote, "tls"), part.last("bridge_tls_version"))
    return True


def _secret(draft: Draft, base: Key, line: Line | None, *, beside: str, without: str, key: str, name: str) -> None:
    """Put what ``line`` says into the file ``name``, which ``key`` names; ``without`` is why not, where nothing says ``beside``."""
    if line is None:
        return
    if draft.get(*base, beside) is None:
        draft.refuse(line, without)
        return
    draft.add_file(name, f"{line.value}\n")
    draft.put((*base, key), name, line)


def _secrets(draft: Draft, remote: Key, part: Part, bridge: str) -> None:
    _secret(
        draft,
        remote,
        part.last("remote_password", "password"),
        beside="username",
        without="a password is not sent without a user name",
        key="password_file",
        name=f"secrets/{bridge}.password",
    )
    _secret(
        draft,
        (*remote, "tls"),
        part.last("bridge_psk"),
        beside="psk_identity",
        without="a pre-shared key is not used without bridge_identity",
        key="psk_file",
        name=f"secrets/{bridge}.psk",
    )


def _times(draft: Draft, base: Key, part: Part) -> None:
    unconfirmed = part.last("bridge_tcp_user_timeout")
    if unconfirmed is not None and number(unconfirmed.value) > 0:
        seconds = min(number(unconfirmed.value) / 1000, 86_400)
        draft.put((*base, "remote", "tcp_user_timeout"), write_duration(seconds), unconfirmed)
    if (line := part.last("restart_timeout")) is not None:
        first, *more = (number(word) for word in line.words[:3])
        initial = min(max(first, 1), 3600)
        backoff: dict[str, object] = {"initial": write_duration(initial), "max": write_duration(max([initial, *more[:1]]))}
        backoff |= {} if more else {"factor": 1, "jitter": 0}
        backoff |= {"stable": write_duration(more[1])} if len(more) > 1 else {}
        for key, value in backoff.items():
            draft.put((*base, "backoff", key), value, line)
    if (line := part.last("bridge_tcp_keepalive")) is not None:
        words = [number(word) for word in line.words[:3]]
        for key, value in zip(("idle", "interval", "count"), words, strict=False):
            draft.put((*base, "remote", "tcp_keep_alive", key), value if key == "count" else write_duration(value), line)


def _topics(draft: Draft, part: Part) -> list[TopicRule]:
    found: list[TopicRule] = []
    for line in part.lines:
        if line.name == "topic":
            try:
                found += rules_of(line)
            except ValueError as error:
                draft.refuse(line, str(error))
    return in_order(found)


def _put_rules(draft: Draft, base: Key, topics: list[TopicRule], retain: Line | None) -> None:
    plain: dict[str, object] = {"retained": "at-each-session"}  # there at each connect, also where the remote still has it
    plain |= {} if retain is None or flag(retain.value) else {"preserve_retain": False}
    for direction, key, more in (("out", "local_subscriptions", plain), ("in", "remote_subscriptions", {})):
        seen: set[tuple[str | None, str]] = set()
        for rule in (rule for rule in topics if rule.direction == direction):
            if (rule.shared, rule.filters[0]) in seen:
                continue  # the first that takes a topic decides, there and here
            seen.add((rule.shared, rule.filters[0]))
            renamed = {} if rule.destination == "{#}" else {"destination": literally(rule.destination)}
            filters = [literally(one) for one in rule.filters]
            shared = {} if rule.shared is None else {"shared": literally(rule.shared)}
            written = {"filters": filters, **shared, **renamed, "max_qos": rule.max_qos, **more}
            draft.put((*base, key, draft.count(*base, key)), written, rule.line)
