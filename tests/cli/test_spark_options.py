"""The Spark of a command: which settings it is given, by whom."""

from __future__ import annotations

import pytest

from eo_listener.cli import spark_options
from eo_listener.cli.spark_options import spark_for, spark_settings
from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_address import LedgerAddress


def test_settings_are_read_as_they_are_written() -> None:
    """A value may have an equals sign; of what is refused no value is shown."""
    assert spark_settings(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("a=hidden", "spark.a", "=hidden"):
        with pytest.raises(SettingsError, match=r"spark\.key=value") as raised:
            spark_settings([wrong])
        assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("addresses", "delta"),
    [
        (["sqlite:x.db"], False),
        (["iceberg:lake.db.t"], False),
        (["iceberg:l.d.t", "delta:t"], True),
    ],
)
def test_delta_lake_is_there_where_it_is_needed(
    addresses: list[str], delta: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several ledgers one is enough; it cannot be added later."""
    made: list[bool] = []
    monkeypatch.setattr(spark_options, "LocalSpark", lambda _, delta: made.append(delta))
    spark_for([LedgerAddress.parse(one) for one in addresses], {})
    assert made == [delta]


def test_no_catalog_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg makes the tables of a catalog that is not there, unless it is told not to."""
    made: dict[str, str] = {}
    monkeypatch.setattr(spark_options, "LocalSpark", lambda given, delta: made.update(given))
    spark_for([LedgerAddress.parse("iceberg:`lake`.db.t")], {"spark.a": "b"})
    assert made == {"spark.sql.catalog.lake.jdbc.init-catalog-tables": "false", "spark.a": "b"}
