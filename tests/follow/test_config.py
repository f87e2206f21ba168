"""The file with many checkpoints, and groups as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.errors import SettingsError
from eo_listener.follow.config import parse_groups, read

WHOLE = """
bootstrap_servers = "a:1"
group = "shared"
interval = 2
guard = "warn"
kafka = { "security.protocol" = "SSL", "enable.ssl.certificate.verification" = false }

[[checkpoint]]
location = "/one"

[[checkpoint]]
location = "s3a://bucket/two"
bootstrap_servers = "b:2"
groups = { flights = "g", "*" = "rest" }
name = "flights"
storage = { anon = true }
kafka = { "security.protocol" = "PLAINTEXT" }
"""

NO_GROUP = "bootstrap_servers = 'a:1'\n[[checkpoint]]\nlocation = '/c'\n"


def test_each_checkpoint_has_its_own_and_the_shared_settings(tmp_path: Path) -> None:
    """What a table says goes before what the file says for all."""
    file = tmp_path / "follow.toml"
    file.write_text(WHOLE)
    config = read(file)
    one, two = config.targets
    assert dict(config.service) == {"interval": 2, "guard": "warn"}
    assert (one.location, one.cluster.servers, one.group("t"), one.name) == (
        "/one",
        "a:1",
        "shared",
        None,
    )
    assert dict(one.cluster.properties)["enable.ssl.certificate.verification"] == "false"
    assert (two.cluster.servers, two.name, two.storage) == ("b:2", "flights", {"anon": True})
    assert (two.group("flights"), two.group("other")) == ("g", "rest")
    assert dict(two.cluster.properties)["security.protocol"] == "PLAINTEXT"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no checkpoint"),
        ("checkpoint = 5", "not [[checkpoint]] tables"),
        ("checkpoint = [5]", "must be a table"),
        ("[[checkpoint]]\nlocatoin = '/c'", "Write location"),
        ("[[checkpoint]]\nlocation = 5", "not a text"),
        ("[[checkpoint]]\ngroup = 'g'", "has no location"),
        ("[[checkpoint]]\nlocation = '/c'\ngroup = 'g'", "no bootstrap_servers"),
        (NO_GROUP, "names no group"),
        (f"{NO_GROUP}group = ' '", "must have 1 to"),
        (f"{NO_GROUP}groups = {{ t = 'g ' }}", "'t' 'g ' begins"),  # Kafka would take another
        (f"{NO_GROUP}group = 'g'\ngroups = {{ '*' = 'h' }}", "two groups"),
        (f"{NO_GROUP}groups = {{ t = 5 }}", "not a string"),
        (f"{NO_GROUP}group = 'g'\nkafka = {{ a = [1] }}", "property 'a'"),
        (f"kafka = {{ 'bootstrap.servers' = 'a:1' }}\n{NO_GROUP}group = 'g'", "bootstrap_servers"),
        ("interval = '5'", "not a number"),
        ("interval = true", "not a number"),
        ("[[checkpoint", "not valid TOML"),
    ],
)
def test_a_file_that_is_wrong_is_one_clear_error(text: str, words: str, tmp_path: Path) -> None:
    """It names the file, the entry, and what to write."""
    file = tmp_path / "follow.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read(file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value) or words in ("must have 1 to", "'t' 'g ' begins")
    assert caught.value.fix


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    """Not there, or no text: one clear error."""
    file = tmp_path / "follow.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match="--config"):
        read(file)


def test_groups_as_they_are_typed() -> None:
    """A group for all, for one topic, and one with an equals sign in its name."""
    assert parse_groups(["g"]) == {"*": "g"}
    assert parse_groups(["t=g", "h"]) == {"t": "g", "*": "h"}
    assert parse_groups(["*=a=b"]) == {"*": "a=b"}
    with pytest.raises(SettingsError, match="two groups are named for all topics"):
        parse_groups(["g", "h"])
