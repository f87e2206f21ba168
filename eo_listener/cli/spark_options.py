"""The option for the settings of the Spark session that reads ledgers in tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import typer

from eo_listener.errors import SettingsError
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.session.local_spark import LocalSpark

_NAME: Final = re.compile(r"spark\.[\w./-]+")

SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        help="For a ledger or a sink in an Iceberg or a Delta table: a Spark setting, key=value, "
        "such as a setting of its catalog; repeatable. Settings in spark-defaults.conf apply too.",
    ),
]


def spark_settings(pairs: Iterable[str]) -> dict[str, str]:
    """Parse settings of the form key=value. Raises SettingsError, which quotes no value."""
    return dict(map(_setting, pairs))


def spark_for(ledgers: Sequence[LedgerAddress], settings: Mapping[str, str]) -> LocalSpark:
    """Return a LocalSpark for `ledgers`, which starts Spark at the first read of a table."""
    stores = {address.store for address in ledgers}
    return LocalSpark(
        settings,
        delta=LedgerStore.DELTA in stores,
        iceberg=LedgerStore.ICEBERG in stores,
        announce=_announce,
    )


def _announce() -> None:
    text = "eo-listener: starting Spark to read tables (about half a minute)"
    print(text, file=sys.stderr, flush=True)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or _NAME.fullmatch(key.strip()) is None:
        name = _NAME.match(text.strip())  # the text after the name may be a password
        raise SettingsError(
            f"--spark-conf {name[0] if name else '...'} is not of the form spark.key=value",
            fix="Write for example --spark-conf spark.sql.catalog.lake.uri=jdbc:sqlite:catalog.db",
        )
    return key.strip(), value
