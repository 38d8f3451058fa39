"""The container's recipe, its compose file and its Kubernetes manifest: they agree, what they run holds, and an image works.

``scripts/package --try`` judges both files by their schemas, builds the image from a base that debootstrap made, and runs it as the
guides say. The others need no container tool.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.access.password_hashes import hash_password
from supervisor.config.loading import load
from supervisor.version import VERSION
from tests.docs.test_guides import fault
from tests.packaging.conftest import Built
from tests.packaging.machine import SUITES, base
from tests.packaging.typed_pages import NEWER, commands, with_log
from tests.support import programs

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging" / "container"
IMAGE = f"bascule:{VERSION}"
ENTRY = FOLDER / "bascule-container"
RECIPE = (FOLDER / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
OBJECTS: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())}
POD = OBJECTS["StatefulSet"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
SERVICE = COMPOSE["services"]["bascule"]


def instruction(name: str) -> str:
    """The words of an instruction that the recipe has once."""
    (words,) = re.findall(rf"^{name} (.*)$", RECIPE, re.MULTILINE)
    return str(words)


def test_recipe_compose_file_and_manifest_agree() -> None:
    user, group = instruction("USER").split(":")
    context = POD["securityContext"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"]), str(context["fsGroup"])) == (user, group, group)
    assert f"--uid {user} " in RECIPE
    data = instruction("VOLUME")
    assert instruction("WORKDIR") == data
    assert SERVICE["volumes"] == [f"data:{data}"]
    assert {mount["mountPath"] for mount in CONTAINER["volumeMounts"]} >= {data, "/etc/bascule"}
    assert (SERVICE["image"], CONTAINER["image"]) == (IMAGE, IMAGE)
    port = instruction("EXPOSE")
    assert SERVICE["ports"] == [f"{port}:{port}"]
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert ports["mqtt"] == int(port)
    labels = OBJECTS["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert OBJECTS["Service"]["spec"]["selector"] == OBJECTS["StatefulSet"]["spec"]["selector"]["matchLabels"] == labels
    assert OBJECTS["StatefulSet"]["spec"]["serviceName"] == OBJECTS["Service"]["metadata"]["name"]
    stop_s = re.search(r"^TimeoutStopSec=(\d+)s$", (ROOT / "packaging/bascule.service").read_text(), re.MULTILINE)
    assert stop_s is not None
    assert (SERVICE["stop_grace_period"], POD["terminationGracePeriodSeconds"]) == (f"{stop_s[1]}s", int(stop_s[1]))


def test_the_manifests_configuration_holds_and_its_probes_ask_what_a_node_answers(tmp_path: Path) -> None:
    """Its files lie as Kubernetes lays them: links into a folder that is replaced as a whole."""
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    text = OBJECTS["ConfigMap"]["data"]["bascule.yaml"]
    users = f"site:{hash_password(b'secret')}\n"
    tokens = f"grafana:view:{hashlib.sha256(b'secret').hexdigest()}\n"
    for name, content in {"users": users, "tokens": tokens, "cloud.password": "secret\n"}.items():
        assert f"{mounts['secrets']}/{name}" in text
        (tmp_path / "secrets" / "..now").mkdir(mode=0o700, parents=True, exist_ok=True)
        (tmp_path / "secrets" / "..now" / name).write_text(content)
        (tmp_path / "secrets" / "..now" / name).chmod(0o400)
        (tmp_path / "secrets" / name).symlink_to(f"..now/{name}")
        assert f"--from-file={name}" in (FOLDER / "kubernetes.yaml").read_text()
    assert mounts["data"] in text
    for name in ("secrets", "data"):
        text = text.replace(mounts[name], str(tmp_path / name))
    path = tmp_path / "bascule.yaml"
    path.write_text(text)
    node = load(path)
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert node.http is not None
    assert f":{ports['http']}" in str(yaml.safe_load(text)["http"]["bind"])
    assert f":{ports['mqtt']}" in str(yaml.safe_load(text)["listeners"][0]["bind"])
    routes = re.findall(r"^### `GET (/health/\w+)`", (ROOT / "docs/reference/rest.md").read_text(), re.MULTILINE)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert CONTAINER[probe]["httpGet"]["path"] in routes
        assert CONTAINER[probe]["httpGet"]["port"] in ports


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_commands_in_comments_exist(path: Path) -> None:
    comments = [line.partition("#")[2] for line in path.read_text().splitlines() if "#" in line]
    typed = [found for line in comments for found in re.findall(r"(?:^ {3}| -- | bascule )bascule ([a-z][^(;]*)", line)]
    assert {
        words: why for words in typed if (why := fault([word for word in words.split() if word.islower() or word[0] == "-"]))
    } == {}


@pytest.fixture
def container(tmp_path: Path) -> dict[str, str]:
    """The environment of a container's command, which has this tree's ``bascule``; ``run`` says only what it would run."""
    program = tmp_path / "programs" / "bascule"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" != run ] || exec echo would "$@"\nexec "{sys.executable}" -P -m supervisor.cli "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def test_the_first_start_writes_a_configuration_that_listens_and_wants_a_login(container: dict[str, str], tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (tmp_path / "password").write_text("of-the-bridge\n")
    environment = {
        **container,
        "BASCULE_NAME": "edge-7",
        "BASCULE_REMOTE": "mqtts://edge@broker.example",
        "BASCULE_REMOTE_PASSWORD_FILE": str(tmp_path / "password"),
    }
    first = programs.run(["sh", str(ENTRY), "run"], cwd=volume, env=environment, timeout_s=60.0)
    assert (first.returncode, first.stdout) == (0, ""), first.stderr
    assert first.stderr.endswith("\nwould run\n")
    written = (volume / "bascule.yaml").read_text()
    node = load(volume / "bascule.yaml")
    assert (yaml.safe_load(written)["node"]["name"], [bridge.name for bridge in node.bridges]) == ("edge-7", ["cloud"])
    assert yaml.safe_load(written)["listeners"][0]["bind"] == "0.0.0.0:1883"
    assert not yaml.safe_load(written)["access"].get("allow_anonymous")
    assert (volume / "secrets" / "cloud.password").read_text() == "of-the-bridge\n"
    assert (volume / "secrets" / "site.password").read_text().strip()
    again = programs.run(["sh", str(ENTRY), "run"], cwd=volume, env={**container, "BASCULE_NAME": "other"}, timeout_s=60.0)
    assert again.returncode == 0, again.stderr
    assert (volume / "bascule.yaml").read_text() == written


def test_both_files_hold_by_their_schemas(tools: Path) -> None:
    judge = "import sys, compose_spec; compose_spec.PyCompose.from_yaml(open(sys.argv[1]).read()).validate()"
    done = programs.run([tools / "bin/python", "-c", judge, FOLDER / "compose.yaml"], timeout_s=60.0)
    assert done.returncode == 0, done.stdout + done.stderr
    done = programs.run([tools / "bin/kubernetes-validate", "--strict", FOLDER / "kubernetes.yaml"], timeout_s=120.0)
    assert done.returncode == 0, done.stdout + done.stderr


# Where a container may be started: the machine's network is not touched, and no right beyond root's usual ones is needed.
_FILES = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
_PODMAN = f"""\
[containers]
cgroups = "disabled"
default_ulimits = ["nofile={_FILES}:{_FILES}", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_OF_ITS_OWN = """\
ip link set lo up
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
until_done() { for _ in $(seq 120); do "$@" >/dev/null 2>&1 && return; sleep 0.5; done; echo "never done: $*"; cat log; return 1; }
"""
FIRST_MESSAGE = (
    ("PATH=", "grep -q node.ready log"),
    ("mosquitto_sub -p 1884 -t '#' -v &\n", "grep -qx 'plant/1/temperature 21.5' log && test $(grep -c node.ready log) = 1"),
    ("podman stop", "! podman container exists first"),
)
CHECKS = f"""\
until_done podman healthcheck run edge-1
! mosquitto_pub -q 1 -t plant/1 -m anonymous 2>/dev/null
mosquitto_pub -u site -P "$(podman exec edge-1 cat secrets/site.password)" -q 1 -t plant/1 -m waits
test "$(podman exec edge-1 id -u)" = {instruction("USER").partition(":")[0]}
"""
_PACKAGE = "/usr/lib/bascule/lib/python3/site-packages/supervisor"
NEWER_RECIPE = f"""\
FROM {IMAGE}
USER root
RUN sed -i 's/^VERSION = .*/VERSION = "{NEWER}"/' {_PACKAGE}/version.py && rm -r {_PACKAGE}/__pycache__
USER {instruction("USER")}
"""
WAITS = "podman exec edge-1 bascule queue list | grep -q '^bridge:cloud:0 .* 1 '\n"


@pytest.fixture
def typed(built: Built, tools: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Types commands at a machine that has the image's recipe and the package, and no other container. What they said."""
    context = tmp_path / "context"
    shutil.copytree(FOLDER, context)
    shutil.copy(built.deb, context)
    (tmp_path / "programs").mkdir()
    docker = tmp_path / "programs" / "docker"  # takes the same file
    docker.write_text('#!/bin/sh\n[ "$1" = compose ] && shift && exec podman-compose "$@"\n')
    docker.chmod(0o755)
    (tmp_path / "containers.conf").write_text(_PODMAN)
    with tempfile.TemporaryDirectory() as folder:  # the tools take only a short path
        (tmp_path / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
        )
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}/programs:{tools}/bin:{os.environ['PATH']}:/usr/sbin",
            "CONTAINERS_CONF": str(tmp_path / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }

        def typed(words: str, *around: str) -> str:
            done = programs.run([*around, "bash", "-ec", words], cwd=context, env=environment, timeout_s=600.0)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.strip()

        yield typed
        typed("podman system reset --force >/dev/null 2>&1")


def test_images_run_as_the_guide_says(typed: Callable[..., str]) -> None:
    """By podman, and by podman-compose in the place of ``docker compose``; in a network of their own, since the ports are given."""
    (taken,) = re.findall(r"^ARG BASE=(\S+)$", RECIPE, re.MULTILINE)
    typed(f"podman import --quiet {base(SUITES[-1])} {taken}")
    typed(commands("install", "podman build"))
    (told,) = json.loads(typed(f"podman image inspect {IMAGE}"))
    assert told["Config"]["Cmd"] == ["run"]
    typed(f"podman build --format docker -t bascule:{NEWER} -f - . <<'END'\n{NEWER_RECIPE}END")
    parts = [_OF_ITS_OWN]
    for begin, seen in FIRST_MESSAGE:
        parts += [with_log(commands("install", begin), "log"), f"until_done sh -c {shlex.quote(seen)}\n"]
    parts += [
        commands("install", "podman run -d"),
        "until_done podman exec edge-1 bascule status\n",
        commands("install", "podman exec"),
    ]
    parts += [
        CHECKS,
        WAITS,
        commands("upgrade", "podman exec edge-1 bascule backup"),
        "until_done podman exec edge-1 bascule status\n",
    ]
    parts += [commands("upgrade", "podman exec edge-1 bascule --version"), WAITS]
    parts += ["podman stop edge-1 >/dev/null\n", commands("install", "docker compose up")]
    parts += ["until_done podman healthcheck run bascule_bascule_1\n", commands("install", "docker compose exec")]
    parts += ["docker compose down -v >/dev/null\n"]
    said = typed("".join(parts), "unshare", "--mount", "--net")
    assert f"bascule {NEWER}\n" in said
