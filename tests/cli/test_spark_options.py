"""The Spark of a command: which settings it is given, by whom."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.cli import spark_options
from eo_listener.cli.spark_options import spark_for, spark_settings
from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_address import LedgerAddress


def test_settings_are_read_as_they_are_written() -> None:
    """A value may have an equals sign; of what is refused no value is shown."""
    assert spark_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("a=hidden", "spark.a", "=hidden", "spark.a hidden", "spark.a:hidden", "hidden"):
        with pytest.raises(
            SettingsError, match=r"(spark\.a|\.\.\.) is not .* spark\.key=value"
        ) as raised:
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
    addresses: list[str],
    delta: bool,
    iceberg: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of several ledgers one is enough; it cannot be added later. That it takes long is said."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(spark_options, "LocalSpark", lambda _, **given: made.append(given))
    spark_for([LedgerAddress.parse(one) for one in addresses], {})
    made[0].pop("announce")()
    assert made == [{"delta": delta, "iceberg": iceberg}]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "starting Spark, by which tables are read: about half a minute" in printed.err
