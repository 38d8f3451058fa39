"""The key ``notify``: a topic that could not be published on, or would be another rule's, is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config.loading import load
from wire.config_settings import NodeSettings
from wire.errors import ConfigError

HEAD = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""


def loaded(folder: Path, *topics: str) -> NodeSettings:
    path = folder / "node.yaml"
    rules = "".join(f"  - {{name: r{number}, when: [disk], topic: '{topic}'}}\n" for number, topic in enumerate(topics))
    path.write_text(f"{HEAD}notify:\n{rules}")
    return load(path)


def test_a_topic_is_enough_of_a_receiver(tmp_path: Path) -> None:
    assert [rule.topic for rule in loaded(tmp_path, "notices/{node}", "others").notify] == ["notices/{node}", "others"]


@pytest.mark.parametrize(
    ("topics", "place", "hint"),
    [
        (["notices/#"], "notify[0].topic", "no topic name"),
        (["a", "notices/+/x"], "notify[1].topic", "no topic name"),
        (["$SYS/notices"], "notify[0].topic", "no bridge takes by #"),
        (["notices/edge-1", "notices/{node}"], "notify[1].topic", "as another rule's"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(tmp_path: Path, topics: list[str], place: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, *topics)
    assert place in str(refused.value)
    assert hint in str(refused.value)
