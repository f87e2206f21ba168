"""Where Kafka's Java client is on this machine, for commands that have no Spark to ask."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eo_listener.model.errors import SettingsError, UnavailableError
from eo_listener.spark.session.installation import spark_homes

# Beside the client itself; Spark's own jars and those of Kafka have them too.
_NEEDED: Final = ("jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api")
# As Ivy names what spark-submit has resolved for --packages, in the cache of Spark 4 or 3.5.
_IVY: Final = ("~/.ivy2.5.2", "~/.ivy2")


def kafka_clients(named: Path | None = None) -> tuple[Path, ...]:
    """The jars of kafka-clients and of what it needs, the newest of each.

    `named` is a folder that the user has named: then there alone, and among Spark's own jars. Else
    they are looked for where Spark and Kafka have them. Raises SettingsError for a folder without
    them, and UnavailableError where there are none.
    """
    if named is not None and _newest(named, "kafka-clients") is None:
        raise SettingsError(
            f"there is no kafka-clients-*.jar in {named}",
            fix="Name the folder that has it, such as the libs of Kafka",
        )
    folders = list(_places()) if named is None else [named]
    for folder in folders:
        client = _newest(folder, "kafka-clients")
        if client is not None:
            others = [_found(name, folder) for name in _NEEDED]
            if None not in others:
                return (client, *(jar for jar in others if jar is not None))
    raise UnavailableError(
        "Kafka's Java client was not found on this machine, with what it needs",
        cause="librdkafka cannot ask for transactions; kafka-clients-*.jar is in none of "
        + ", ".join(map(str, folders)),
        fix="Name a folder that has it: --kafka-clients /opt/kafka/libs; or run the command where "
        "Spark's Kafka connector is installed, or was used before",
    )


def _places() -> Iterator[Path]:
    """Spark's own jars first, since that client is known to reach the cluster."""
    for home in spark_homes():
        yield home / "jars"
    if os.environ.get("KAFKA_HOME"):
        yield Path(os.environ["KAFKA_HOME"], "libs")
    for ivy in _IVY:
        yield Path(ivy).expanduser() / "jars"
        yield Path(ivy).expanduser() / "cache/org.apache.kafka/kafka-clients/jars"


def _found(name: str, folder: Path) -> Path | None:
    jars = (_newest(one, name) for one in (folder, *(home / "jars" for home in spark_homes())))
    return next((jar for jar in jars if jar is not None), None)


def _newest(folder: Path, name: str) -> Path | None:
    others = "(?!.*(?:test|sources|javadoc))"  # of the same version, and not the client
    named = re.compile(rf"(?:[\w.]+_)?{name}-(\d+(?:\.\d+)*){others}[\w.+-]*\.jar")
    found = [
        (tuple(map(int, match[1].split("."))), path)
        for path in folder.glob(f"*{name}-*.jar")
        if (match := named.fullmatch(path.name))
    ]
    return max(found)[1] if found else None
