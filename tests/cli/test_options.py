"""Settings that commands are given: client properties in a file, and those of their Spark."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from eo_listener.cli import group, spark_options
from eo_listener.cli.options import KafkaProperties, as_properties
from eo_listener.cli.preflight import preflight
from eo_listener.cli.spark_options import spark_for, spark_settings
from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_address import LedgerAddress


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
        (b"sasl.password=planted\nplanted", "line 2.*key=value"),
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


def test_settings_are_read_as_they_are_written() -> None:
    """A value may have an equals sign; of what is refused no value is shown."""
    assert spark_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("a=hidden", "spark.a", "=hidden", "spark.a hidden", "spark.a:hidden", "hidden"):
        with pytest.raises(SettingsError, match=r"(spark\.a|\.\.\.) .* spark\.key=") as raised:
            spark_settings([wrong])
        assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("addresses", "delta", "iceberg"),
    [
        (["sqlite:x.db"], False, False),
        (["iceberg:lake.db.t"], False, True),
        (["iceberg:l.d.t", "delta:t"], True, True),
    ],
)
def test_what_a_table_needs_is_there(
    addresses: list[str], delta: bool, iceberg: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of several ledgers one is enough; it cannot be added later. That it takes long is said."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(spark_options, "LocalSpark", lambda _, **given: made.append(given))
    spark_for([LedgerAddress.parse(one) for one in addresses], {})
    made[0].pop("announce")()
    assert made == [{"delta": delta, "iceberg": iceberg}]
    printed = capsys.readouterr()
    assert (printed.out, "starting Spark" in printed.err) == ("", True)
