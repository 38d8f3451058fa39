"""The tree's own promises: imports point one way, each library has one owner, decisions are pure, functions fit a screen."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.coupling import collaborators, foreign_fields

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("page", "wire", "storage", "analysis", "actors", "supervisor")  # each imports itself and those to its left
LOOKS_ON = "analysis"  # at what the others make; it is imported by the commands that show it alone
SHOW_IT = ("supervisor/cli/report.py", "supervisor/cli/export.py")

# The rooms of each package from low to high; "" is its own folder. A module imports its own room and those to its left.
ROOMS = {
    "page": ("",),
    "wire": ("", "frames", "mqtt", "status", "access", "routing", "exchange"),
    "storage": (
        "",
        "engine",
        "replication",
        "queue",
        "snapshots",
        "store",
    ),
    "analysis": ("tables", "spark", "engines", "reports", "page", ""),
    "actors": ("", "system", "process", "remote", "bridge", "access", "broker", "store"),
    "supervisor": (
        "",
        "terminal",
        "config",
        "metrics",
        "control",
        "snapshots",
        "history",
        "reload",
        "http",
        "telemetry",
        "notify",
        "tree",
        "demo",
        "doctor",
        "convert",
        "backup",
        "cli",
    ),
}

# Modules whose largest class shares no word with the file: collections of small ones, and some more. It only gets shorter.
OTHER_NAMES = {
    "wire/frames/intake.py": "Append",
    "wire/frames/supervision.py": "Heartbeat",
    "wire/mqtt/packets.py": "Connect",
    "wire/status/answers.py": "HeldMessage",
    "supervisor/http/models.py": "Purge",
    "analysis/tables/schemas.py": "Column",
    "analysis/page/figure.py": "Plot",
    "analysis/reports/build.py": "Finished",
    "analysis/reports/report_parts.py": "Thresholds",
    "analysis/spark/session.py": "JavaMissing",
}

# Decisions outside wire/ that are pure as well.
PURE = (
    "wire/*",
    "actors/bridge/failed_attempts.py",
    "actors/bridge/forwarder_buffer.py",
    "actors/bridge/settlement_batching.py",
    "actors/broker/batch_pace.py",
    "actors/broker/ended_connections.py",
    "actors/broker/repeated_batches.py",
    "actors/broker/session_records.py",
    "actors/access/connection_limits.py",
    "actors/access/input_budget.py",
    "actors/access/login_limits.py",
    "actors/access/login_queue.py",
    "actors/access/publish_rate.py",
    "actors/access/untaken_input.py",
    "actors/system/certificates.py",
    "analysis/reports/snapshot_choice.py",
    "storage/queue/admission.py",
    "storage/queue/hand_out_cursor.py",
    "storage/queue/hand_out_pieces.py",
    "storage/store/next_commit.py",
    "supervisor/control/store_commands.py",
    "supervisor/metrics/metric.py",
    "supervisor/metrics/table.py",
    "supervisor/reload/differences.py",
    "supervisor/reload/losses.py",
    "supervisor/reload/plan.py",
    "supervisor/telemetry/start_times.py",
    "supervisor/tree/child_table.py",
    "supervisor/tree/event_notes.py",
    "supervisor/tree/late_heartbeats.py",
    "supervisor/tree/restart_limit.py",
    "supervisor/tree/status_figures.py",
)

# Third-party module -> the files that may import it.
OWNERS = {
    "argon2": ("actors/access/password_hashes.py",),
    "click": ("supervisor/cli/*",),
    "duckdb": ("analysis/engines/duckdb_engine.py",),
    "fastapi": ("supervisor/http/*",),
    "google": ("supervisor/telemetry/otlp.py",),
    "msgpack": ("wire/*", "storage/*", "analysis/*", "supervisor/control/control_socket.py", "supervisor/running_node.py"),
    "nats": ("storage/replication/jetstream_log.py",),
    "numpy": ("analysis/*",),
    "opentelemetry": ("supervisor/telemetry/otlp.py",),
    "paho": ("actors/remote/remote_socket.py",),
    "pyarrow": ("analysis/*",),
    "prometheus_client": ("supervisor/metrics/exposition.py",),
    "pydantic": ("supervisor/config/*", "supervisor/http/*"),
    "pydantic_core": ("supervisor/config/*",),
    "python_socks": ("actors/remote/remote_proxy.py",),
    "pykka": ("actors/process/actor.py", "actors/process/host.py", "actors/process/mailbox.py"),
    "pyspark": ("analysis/spark/*", "analysis/engines/spark_engine.py", "analysis/job.py"),
    "pythonjsonlogger": ("actors/process/logs.py",),
    "requests": ("supervisor/telemetry/otlp.py",),
    "urllib3": ("supervisor/notify/receivers.py",),
    "rich": ("analysis/console.py", "supervisor/cli/main.py", "supervisor/terminal/view.py"),
    "rocksdict": ("storage/engine/engine.py", "analysis/tables/checkpoint_reader.py"),
    "uvicorn": ("supervisor/http/limited_server.py", "supervisor/http/connection.py"),
    "wsproto": ("actors/access/websocket_layer.py",),
    "yaml": ("supervisor/config/yaml_file.py",),
    "zmq": ("actors/process/curve_router.py", "actors/process/post.py", "actors/process/request_sockets.py"),
}
REPORT = {"duckdb", "numpy", "pyarrow"}
OTEL = {"opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk", "protobuf", "requests"}
# Packages that an extra adds: a small box lacks them.
EXTRAS = {"replicated": {"nats-py"}, "report": REPORT, "analysis": REPORT | {"pyspark"}, "otel": OTEL}
# Names that are imported of those; something else has the rest of opentelemetry.
OF_EXTRAS = (
    *("duckdb", "nats", "google.protobuf", "numpy", "opentelemetry.exporter", "opentelemetry.sdk", "pyarrow", "pyspark"),
    "requests",
)
DISTRIBUTIONS = {
    "nats": "nats-py",
    "argon2": "argon2-cffi",
    "google": "protobuf",
    "opentelemetry": "opentelemetry-sdk",
    "paho": "paho-mqtt",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "python_socks": "python-socks",
    "pythonjsonlogger": "python-json-logger",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}

# Things that a decision may not touch: sockets, threads, files, clocks, random sources.
IMPURE = {
    "asyncio",
    "concurrent",
    "ctypes",
    "datetime",
    "io",
    "logging",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}

FUNCTION_LINES_MAX = 60
# One loop over received bytes is one function where a call would cost more than the work it does.
LONG_FUNCTIONS: dict[str, int] = {"wire/mqtt/publish_batch_parser.py:parse_publishes": 128}

# Ties between parts; ``tests/support/coupling.py`` says what counts. The numbers below may only fall.
COLLABORATORS_MAX = 5
COLLABORATORS: dict[str, int] = {}
# Fields that a module writes though another one owns their class.
FOREIGN_FIELDS = {
    "actors/system/tls.py": 1,  # a field of ssl's
    "supervisor/http/connection.py": 1,  # one of uvicorn's
}
ARROWS_MAX = 20
ARROWS = {
    "storage/store": 70,
    "wire/exchange": 76,
    "storage/queue": 35,
    "supervisor/tree": 54,
    "actors/broker": 76,
    "analysis/reports": 48,
    "actors/bridge": 39,
    "supervisor/cli": 34,
    "analysis/tables": 35,
    "supervisor/http": 35,
    "wire/mqtt": 35,
    "supervisor/config": 21,
    "storage/replication": 22,
    "analysis/page": 21,
}


@cache
def modules() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), module)


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Every node of the tree of ``module``: nearly every test looks at all of them."""
    return tuple(ast.walk(tree(module)))


def imports(module: str) -> Iterator[tuple[int, str]]:
    """(line, top-level name) of every import, also those inside functions or under TYPE_CHECKING."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            assert node.module is not None
            yield node.lineno, node.module.partition(".")[0]


def imported_modules(module: str) -> set[str]:
    """Our modules that ``module`` imports when it runs, also inside functions."""
    runs = [node for node in tree(module).body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    froms = [node for each in runs for node in ast.walk(each) if isinstance(node, ast.ImportFrom)]
    names = [f"{node.module}.{alias.name}" for node in froms for alias in node.names] + [str(node.module) for node in froms]
    return {path for name in names if (ROOT / (path := name.replace(".", "/") + ".py")).exists()}


def all_imported_modules(module: str) -> set[str]:
    """Our modules that ``module`` names in an import, also those for its types alone."""
    froms = [node for node in nodes(module) if isinstance(node, ast.ImportFrom)]
    names = [f"{node.module}.{alias.name}" for node in froms for alias in node.names] + [str(node.module) for node in froms]
    names += [alias.name for node in nodes(module) if isinstance(node, ast.Import) for alias in node.names]
    return {path for name in names if (ROOT / (path := name.replace(".", "/") + ".py")).exists()}


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def for_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Makes a test of one module that of all ``names``: some thousand tests of a millisecond each would cost their bookkeeping."""

    def whole(test: Callable[[str], None]) -> Callable[[], None]:
        def test_all() -> None:
            wrong = []
            for name in names:
                try:
                    test(name)
                except AssertionError as error:
                    wrong.append(f"{name}: {error}")
            assert not wrong, "\n".join(wrong)

        test_all.__name__ = test.__name__
        return test_all

    return whole


@for_each(modules())
def test_imports_point_to_the_left_only(module: str) -> None:
    allowed = PACKAGES[: PACKAGES.index(module.partition("/")[0]) + 1]

    wrong = [
        f"{module}:{line} imports {name}" for line, name in imports(module) if name in (*PACKAGES, "tests") and name not in allowed
    ]

    assert wrong == []


@for_each([name for name in modules() if not name.startswith(f"{LOOKS_ON}/") and name not in SHOW_IT])
def test_the_product_does_not_know_what_looks_at_it(module: str) -> None:
    assert LOOKS_ON not in {name for _, name in imports(module)}


def room(module: str) -> int:
    """How high the room of ``module`` is in its package."""
    package, _, rest = module.partition("/")
    return ROOMS[package].index(rest.rpartition("/")[0])


@for_each(modules())
def test_imports_between_rooms_point_to_the_left_only(module: str) -> None:
    package = module.partition("/")[0]

    wrong = [
        f"{module} imports {other}"
        for other in all_imported_modules(module)
        if other.startswith(f"{package}/") and room(other) > room(module)
    ]

    assert wrong == []


def test_each_folder_is_a_room_and_each_room_a_folder() -> None:
    folders = {str(Path(module).parent) for module in modules()}

    assert folders == {f"{package}/{room}".rstrip("/") for package, rooms in ROOMS.items() for room in rooms}


def test_no_import_goes_in_a_circle() -> None:
    graph = {module: imported_modules(module) for module in modules()}
    assert "wire/frames/names.py" in graph["actors/broker/listener.py"]

    TopologicalSorter(graph).prepare()  # its error names the circle


@for_each(modules())
def test_each_library_is_imported_by_its_owner_only(module: str) -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for line, name in imports(module)
        if name not in sys.stdlib_module_names
        and name not in PACKAGES
        and not any(fnmatch(module, owner) for owner in OWNERS.get(name, ()))
    ]

    assert wrong == []


@for_each([name for name in modules() if any(fnmatch(name, pure) for pure in PURE)])
def test_what_can_be_said_and_decided_is_pure(module: str) -> None:
    wrong = [f"{module}:{line} imports {name}" for line, name in imports(module) if name in IMPURE]
    wrong += [
        f"{module}:{node.lineno} calls {node.func.id}"
        for node in nodes(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("open", "print", "input", "exec", "eval")
    ]

    assert wrong == []


# Modules that may give names on disk, or sync, besides ``storage/files.py``; nobody goes by what these leave after a loss of power.
NAMERS = {
    "storage/engine/store_folder.py": {"mkdir", "link", "write_bytes", "unlink", "fsync"},  # evidence, the spare, rests of no store
    "storage/engine/disk_reserve.py": {"unlink"},  # room on the disk, without a content
    "storage/engine/engine.py": {"fsync", "unlink"},  # a probe that comes and goes
    "storage/engine/commit_mark.py": {"fsync"},  # of its own descriptor
    "storage/engine/store_identity.py": {"fsync"},  # of its own descriptor
    "storage/snapshots/snapshot_folder.py": {"mkdir", "link", "unlink"},  # in a folder that is half made by its name
    "storage/snapshots/snapshot_copy.py": {"link", "unlink"},  # likewise
    "supervisor/tree/pauses.py": {"unlink"},  # of what could not be made
    "actors/access/listening_sockets.py": {"unlink"},  # sockets
    "actors/process/failed_actor.py": {"write_text"},  # a last word of the process, for its supervisor alone; a sync could hang
    "supervisor/config/loading.py": {"write_text"},  # the schema, for developers
    "supervisor/demo/demo.py": {"write_text"},
    "supervisor/demo/replicated_demo.py": {"write_text"},
    "supervisor/doctor/machine.py": {"fdatasync"},  # of a file without a name, to see how long it takes
}
ANALYSIS = f"{LOOKS_ON}/"  # reports are made anew; what ``bascule export`` writes goes by ``files``
NAMING = {
    "mkdir",
    "makedirs",
    "rename",
    "renames",
    "link",
    "hardlink_to",
    "symlink_to",
    "touch",
    "write_bytes",
    "write_text",
    "unlink",
}
NAMING |= {"fsync", "fdatasync"}


def _names_on_disk(call: ast.Call) -> str | None:
    """The word by which ``call`` gives or takes a name, or syncs; ``replace`` with one argument is a path's."""
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) == "files":
        return None
    word, of_os = call.func.attr, ast.unparse(call.func.value) == "os"
    if word in NAMING or (word in ("replace", "remove") and of_os):
        return word
    return word if word == "replace" and len(call.args) == 1 and not call.keywords else None


@for_each([name for name in modules() if name != "storage/files.py" and not name.startswith(ANALYSIS)])
def test_names_on_disk_have_one_owner(module: str) -> None:
    calls = [node for node in nodes(module) if isinstance(node, ast.Call)]
    found = {word: call.lineno for call in calls if (word := _names_on_disk(call)) is not None}

    allowed = NAMERS.get(module, set())
    assert {f"{module}:{line} {word}" for word, line in found.items() if word not in allowed} == set()
    assert allowed <= set(found), "an exception that is no longer needed goes"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException") for kind in kinds)


@for_each([name for name in modules() if name != "actors/process/host.py"])
def test_a_broad_except_is_at_the_edge_of_the_process_only(module: str) -> None:
    handlers = [node for node in nodes(module) if isinstance(node, ast.ExceptHandler)]

    assert [f"{module}:{handler.lineno}" for handler in handlers if _is_broad(handler)] == []


@for_each(modules())
def test_a_function_fits_a_screen(module: str) -> None:
    too_long = []
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONG_FUNCTIONS.get(f"{module}:{node.name}", FUNCTION_LINES_MAX):
                too_long.append(f"{module}:{node.lineno} {node.name} has {lines} lines")

    assert too_long == []


@cache
def parsed() -> dict[str, tuple[ast.AST, ...]]:
    return {module: nodes(module) for module in modules()}


def test_a_constructor_takes_few_collaborators() -> None:
    counted = {name: len(taken) for name, taken in collaborators(parsed()).items()}

    over = {name: count for name, count in counted.items() if count > COLLABORATORS_MAX}
    assert {name: count for name, count in over.items() if count > COLLABORATORS.get(name, 0)} == {}
    assert COLLABORATORS.keys() - over.keys() == set(), "an exception that is no longer needed goes"


def test_a_field_is_written_by_the_module_of_its_class_only() -> None:
    found = foreign_fields(parsed())

    assert {module: names for module, names in found.items() if len(names) > FOREIGN_FIELDS.get(module, 0)} == {}
    assert FOREIGN_FIELDS.keys() - found.keys() == set(), "an exception that is no longer needed goes"


def test_the_modules_of_a_room_hold_little_of_each_other() -> None:
    arrows = Counter(
        str(Path(module).parent)
        for module in modules()
        for other in all_imported_modules(module)
        if other != module and Path(other).parent == Path(module).parent
    )

    assert {room: count for room, count in arrows.items() if count > ARROWS.get(room, ARROWS_MAX)} == {}


def _words(name: str) -> set[str]:
    """The beginnings of its words: of ``StoreFigures`` and of ``store_figures`` the same."""
    return {re.sub(r"(?<!s)s$", "", word.lower())[:5] for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def test_the_largest_class_of_a_module_shares_a_word_with_its_file() -> None:
    largest = {
        module: max(classes, key=lambda one: (one.end_lineno or 0) - one.lineno).name
        for module in modules()
        if (classes := [one for one in tree(module).body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")])
    }

    strange = {
        module: name
        for module, name in largest.items()
        if not _words(name) & _words(Path(module).stem) and Path(module).stem.replace("_", "") not in name.lower()
    }
    assert strange == OTHER_NAMES, "an exception that is no longer needed goes"


def test_each_long_function_still_is_one() -> None:
    """An exception that is no longer needed goes."""
    for name in LONG_FUNCTIONS:
        module, _, function = name.partition(":")
        found = [node for node in nodes(module) if isinstance(node, ast.FunctionDef) and node.name == function]
        assert any((node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX for node in found), name


@for_each(modules())
def test_each_module_says_what_it_owns(module: str) -> None:
    assert ast.get_docstring(tree(module)), f"{module} has no docstring"


def test_each_exception_and_each_pure_module_is_there() -> None:
    assert [name for name in PURE if not any(fnmatch(module, name) for module in modules())] == []


def test_an_init_holds_a_docstring_and_nothing_else() -> None:
    assert [module for module in modules() if module.endswith("/__init__.py") and len(tree(module).body) != 1] == []


def test_the_distribution_has_exactly_the_packages_of_the_tree() -> None:
    listed = setup()["options"]["packages"].split()

    assert sorted(listed) == sorted(
        str(Path(module).parent).replace("/", ".") for module in modules() if module.endswith("__init__.py")
    )


def test_the_distribution_requires_exactly_what_is_imported() -> None:
    required = {re.split(r"[<>=~!]", line)[0].lower() for line in setup()["options"]["install_requires"].split()}

    imported = {DISTRIBUTIONS.get(name, name) for module in modules() for _, name in imports(module) if name in OWNERS}
    assert required == imported - set().union(*EXTRAS.values())


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_requires_exactly_what_it_adds(extra: str) -> None:
    required = {re.split(r"[<>=~!]", line)[0].lower() for line in setup()["options.extras_require"][extra].split()}

    assert required == EXTRAS[extra]


@pytest.mark.process
def test_a_node_starts_and_is_commanded_without_the_extras() -> None:
    """In a Python that cannot import them: whoever needs one imports it when asked to work."""
    block = "".join(f"sys.modules[{name!r}] = None; " for name in OF_EXTRAS)
    program = f"import sys; {block} import actors.process.main, analysis.tables.reader, supervisor.cli.main"

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize(
    ("lock", "extra"),
    [
        ("requirements.lock", "otel"),
        ("requirements-report.lock", "report"),
        ("requirements-analysis.lock", "analysis"),
        ("requirements-dev.lock", "dev"),
    ],
)
def test_a_lock_file_pins_every_requirement_and_names_no_host(lock: str, extra: str) -> None:
    wanted = setup()["options"]["install_requires"].split() + setup()["options.extras_require"][extra].split()

    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in pins(lock)}
    assert {re.split(r"[<>=~!]", line)[0].lower() for line in wanted} <= pinned


def pins(lock: str) -> list[str]:
    """The lines of a lock file that name a version, without their hashes, of which each has some; nothing else is in it."""
    text = "".join(line for line in (ROOT / lock).read_text().splitlines(keepends=True) if not line.startswith("#"))
    lines = text.replace("\\\n", "").splitlines()
    found = [
        re.fullmatch(
            r"([A-Za-z0-9_.-]+==[A-Za-z0-9_.]+)( ; [a-z_]+ [!<>=]+ '[A-Za-z0-9.]+')?( +--hash=sha256:[0-9a-f]{64})+ *", line
        )
        for line in lines
    ]
    assert [line for line, match in zip(lines, found, strict=True) if match is None] == []
    return [match[1] for match in found if match is not None]


@pytest.mark.parametrize("lock", ["requirements-build.lock", "requirements-audit.lock", "requirements-trial.lock"])
def test_what_builds_and_lists_is_pinned_by_hash_too(lock: str) -> None:
    assert pins(lock)


@for_each(["scripts/env.sh", "scripts/package", "packaging/debian/build.sh", "scripts/audit", "scripts/release"])
def test_what_is_installed_from_a_lock_file_is_compared_with_its_hashes(script: str) -> None:
    text = (ROOT / script).read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if re.search(r"install .*-r ", line) and not line.startswith("#")]
    assert installs
    assert [line for line in installs if "--require-hashes" not in line] == []


def test_the_lock_files_agree() -> None:
    run, report, analysis, dev = (set(pins(f"requirements{name}.lock")) for name in ("", "-report", "-analysis", "-dev"))

    assert run <= report <= analysis <= dev
