"""The option for a Spark of the command's own, by which ledgers in tables are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.session.local_spark import LocalSpark

SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        help="For a ledger in an Iceberg or a Delta table: a setting of Spark, key=value, such as "
        "those of its catalog; repeatable. Those in spark-defaults.conf count too.",
    ),
]


def spark_settings(given: Iterable[str]) -> dict[str, str]:
    """Read the settings. Raises SettingsError, which quotes no value."""
    return dict(map(_setting, given))


def spark_for(ledgers: Sequence[LedgerAddress], settings: Mapping[str, str]) -> LocalSpark:
    """The Spark for these ledgers, which starts when one of them is read by it."""
    kinds = [one.kind for one in ledgers]
    lakes = [one.place.partition(".")[0].strip("`") for one in ledgers if one.kind == "iceberg"]
    # A catalog that is not there yet would be made: its tables, in the database that is named.
    absent = {f"spark.sql.catalog.{lake}.jdbc.init-catalog-tables": "false" for lake in lakes}
    return LocalSpark({**absent, **settings}, delta="delta" in kinds)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip().startswith("spark."):
        raise SettingsError(
            f"--spark-conf {key!r} is not of the form spark.key=value",
            fix="Write for example --spark-conf spark.sql.catalog.lake.uri=jdbc:sqlite:catalog.db",
        )
    return key.strip(), value
