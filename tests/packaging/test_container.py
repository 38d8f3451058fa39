"""The container's recipe, its compose file and its Kubernetes manifest: they agree, what they run holds, and an image works.

``scripts/package --try`` judges both files by their schemas, builds the image from a base that debootstrap made, and runs it. The
others need no container tool.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
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
from tests.packaging.typed_pages import commands
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
    assert (first.returncode, first.stdout) == (0, "would run\n"), first.stderr
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


SCENARIO = """\
set -eu
ip link set lo up
inside() { buildah run $environment "$container" -- "$@"; }
environment="--env BASCULE_NAME=edge-1 --env BASCULE_REMOTE=mqtt://127.0.0.1:1884"
mosquitto -p 1884 >/dev/null 2>&1 &
remote=$!
inside bascule-container run >node.log 2>&1 &
node=$!
until inside $health >/dev/null 2>&1; do kill -0 $node; sleep 0.5; done
password=$(inside cat secrets/site.password)
mosquitto_sub -p 1884 -t '#' -C 1 -v -W 60 >arrived &
subscriber=$!
until mosquitto_pub -p 1883 -u site -P "$password" -q 1 -t plant/1 -m 21.5; do sleep 0.5; done
wait $subscriber
! mosquitto_pub -p 1883 -q 1 -t plant/1 -m anonymous 2>/dev/null
inside id -u >user
inside bascule stop >/dev/null
wait $node
kill $remote
"""


@pytest.fixture
def running() -> Iterator[str]:
    """A folder for container tools, which take only a short path."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_an_image_is_built_listens_wants_a_login_bridges_and_is_healthy(built: Built, running: str, tmp_path: Path) -> None:
    """With the storage and the isolation that need nothing of the machine; in a network of its own, since the port is given."""
    programs_folder = tmp_path / "programs"
    programs_folder.mkdir()
    for name in ("podman", "buildah"):
        storage = f"--root {tmp_path}/storage --runroot {running} --storage-driver vfs"
        (programs_folder / name).write_text(f'#!/bin/sh\nexec {shutil.which(name)} {storage} "$@"\n')
        (programs_folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs_folder}:{os.environ['PATH']}:/usr/sbin", "BUILDAH_ISOLATION": "chroot"}
    context = tmp_path / "context"
    shutil.copytree(FOLDER, context)
    shutil.copy(built.deb, context)

    def typed(words: str) -> str:
        done = programs.run(["sh", "-ec", words], cwd=context, env=environment, timeout_s=600.0)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    (taken,) = re.findall(r"^ARG BASE=(\S+)$", RECIPE, re.MULTILINE)
    typed(f"podman import --quiet {base(SUITES[-1])} {taken}")
    typed(commands("install", "podman build"))
    (told,) = json.loads(typed(f"podman image inspect {IMAGE}"))
    health = told.get("Healthcheck", told.get("HealthCheck"))["Test"]
    assert health[0] == "CMD"
    assert told["Config"]["Cmd"] == ["run"]
    variables = {**environment, "container": typed(f"buildah from --pull-never {IMAGE}"), "health": " ".join(health[1:])}
    done = programs.run(["unshare", "--net", "sh", "-c", SCENARIO], cwd=tmp_path, env=variables, timeout_s=180.0)
    log = (tmp_path / "node.log").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + log
    assert (tmp_path / "arrived").read_text() == "plant/1 21.5\n"
    assert (tmp_path / "user").read_text().strip() == instruction("USER").partition(":")[0]
