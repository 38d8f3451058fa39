"""The section ``telemetry``: what cannot work is refused with the key and what to do, and no sentence tells a secret."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from supervisor.config.loading import load
from tests.support.authority import Authority
from wire.config_settings import OtlpSettings
from wire.errors import ConfigError

HEAD = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, a certificate, and what is none."""
    folder = tmp_path_factory.mktemp("files")
    Authority(folder).issue("own")
    (folder / "text").write_text("no certificate\n")
    return folder


def loaded(folder: Path, text: str) -> OtlpSettings:
    path = folder / "node.yaml"
    path.write_text(f"{HEAD}telemetry: {text}\n")
    telemetry = load(path).telemetry
    assert telemetry is not None
    return telemetry.otlp


def test_what_is_left_out_has_the_values_of_opentelemetry(tmp_path: Path) -> None:
    assert loaded(tmp_path, '{otlp: {endpoint: "http://collector:4318"}}') == OtlpSettings(
        endpoint="http://collector:4318", headers=(), interval_s=15.0, timeout_s=10.0, compression="gzip"
    )


def test_headers_may_come_from_the_environment_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTLP_TOKEN", "one")
    (tmp_path / "key").write_text("two\n")

    headers = '{authorization: "Bearer ${OTLP_TOKEN}", x: "${file:key}"}'
    otlp = loaded(tmp_path, f'{{otlp: {{endpoint: "https://[::1]/otlp", interval: 1m, headers: {headers}}}}}')

    assert otlp.headers == (("authorization", "Bearer one"), ("x", "two"))
    assert otlp.interval_s == 60.0


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("{}", "telemetry.otlp", "is missing; write otlp: {endpoint:"),
        ("{otlp: {}}", "telemetry.otlp.endpoint", "is missing; write endpoint: http://collector:4318"),
        ('{endpoint: "http://a"}', "telemetry.endpoint", "write otlp: {endpoint:"),
        ("{otlp: {url: a}}", "telemetry.otlp.url", "write endpoint"),
        ('{otlp: {endpoint: "collector:4318"}}', "telemetry.otlp.endpoint", "is not a URL"),
        ('{otlp: {endpoint: "grpc://collector:4317"}}', "telemetry.otlp.endpoint", "grpc is not spoken, but OTLP over HTTP"),
        ('{otlp: {endpoint: "http://a:b@collector:4318"}}', "telemetry.otlp.endpoint", "write headers"),
        ('{otlp: {endpoint: "http://:4318"}}', "telemetry.otlp.endpoint", "names no host"),
        ('{otlp: {endpoint: "http://[::1"}}', "telemetry.otlp.endpoint", "is not a URL"),
        ('{otlp: {endpoint: "http://collector:99999"}}', "telemetry.otlp.endpoint", "names no host"),
        ('{otlp: {endpoint: "http://collector:4318?key=a"}}', "telemetry.otlp.endpoint", "what follows ?"),
        ('{otlp: {endpoint: "http://a", headers: [a]}}', "telemetry.otlp.headers", "is not a mapping"),
        ('{otlp: {endpoint: "http://a", headers: {"a b": c}}}', "telemetry.otlp.headers", "is not the name of a header"),
        ('{otlp: {endpoint: "http://a", headers: {a: b, A: c}}}', "telemetry.otlp.headers", "twice"),
        ('{otlp: {endpoint: "http://a", interval: 500ms}}', "telemetry.otlp.interval", "from 1s to 1h"),
        ('{otlp: {endpoint: "http://a", tls: {ca_file: ca.pem}}}', "telemetry.otlp.tls", "has no effect with http"),
        ('{otlp: {endpoint: "https://a", tls: {ca_file: text}}}', "telemetry.otlp.tls.ca_file", "no certificates in PEM"),
        ('{otlp: {endpoint: "https://a", tls: {cert_file: own.pem}}}', "telemetry.otlp.tls.cert_file", "needs key_file"),
        (
            '{otlp: {endpoint: "https://a", tls: {cert_file: own.pem, key_file: ca.key}}}',
            "telemetry.otlp.tls.key_file",
            "not the key of",
        ),
    ],
)
@pytest.mark.process
def test_what_cannot_work_is_refused(text: str, key: str, hint: str, files: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(files, text)

    assert [problem for problem in refused.value.problems if f": {key}: " in problem and hint in problem], refused.value


@pytest.mark.parametrize("value", ["secret\nand more", "secret ", "sécret"], ids=["lines", "blank", "letter"])
def test_no_sentence_tells_what_a_header_has(value: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(value)

    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, '{otlp: {endpoint: "http://a", headers: {x-key: "${file:key}"}}}')

    assert "what x-key has cannot be sent" in str(refused.value)
    assert "cret" not in str(refused.value)


def test_without_the_extra_the_check_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.exporter", "opentelemetry.sdk"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)

    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, '{otlp: {endpoint: "http://collector:4318"}}')

    (problem,) = refused.value.problems
    assert "telemetry.otlp: the libraries of OpenTelemetry are not installed" in problem
    assert "[otel]" in problem
