"""Client properties from a file, where other users of the machine do not see them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from eo_listener.cli import group
from eo_listener.cli.options import KafkaProperties, as_properties
from eo_listener.cli.preflight import preflight
from eo_listener.model.errors import SettingsError


def test_properties_of_a_file(tmp_path: Path) -> None:
    """One a line; comments and empty lines are left out, and what is typed after it counts."""
    file = tmp_path / "client.properties"
    file.write_text("# login\r\nsecurity.protocol = SASL_SSL\n\nsasl.mechanism=PLAIN\n"
                    "sasl.username=al\nsasl.password=a=b #c\n")  # fmt: skip
    assert as_properties("h:9092", [f"@{file}", "sasl.username=bo"]) == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bo",
        "sasl.password": "a=b #c",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"sasl.password=planted\nplanted", "line 2 is not of the form key=value"),
        (b"bootstrap.servers=h:1", "cannot set bootstrap.servers"),
    ],
)
def test_a_file_that_cannot_be_used(content: bytes | None, said: str, tmp_path: Path) -> None:
    """It is said why, and nothing of its content."""
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as raised:
        as_properties("h:9092", [f"@{file}"])
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize("command", [group.seed, group.rewind, group.import_, preflight])
def test_an_option_that_several_commands_share_keeps_its_names(
    command: Callable[..., None],
) -> None:
    """In every Python: typer reads them from the parameter's annotation."""
    assert signature(command).parameters["properties"].annotation == KafkaProperties
