"""Finds the Spark installation that pyspark will start, and its versions."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eo_listener.errors import SettingsError, install

OLDEST: Final = (3, 5)
CONNECTOR: Final = "spark-sql-kafka-0-10"

_HADOOP: Final = re.compile(r"hadoop-client-api-(\d+)\.(\d+)\.(\d+).*\.jar")
# Hadoop before 3.4.2 calls Subject.getSubject, which throws from Java 23 on (HADOOP-19212): the
# session would end in JAVA_GATEWAY_EXITED.
_HADOOP_FOR_JAVA_23: Final = (3, 4, 2)

_SPARK_SQL: Final = re.compile(r"spark-sql_(\d+\.\d+)-((\d+)\.(\d+).*)\.jar")
# Characters that Spark strips from both ends of a value: those of Java's trim(), without CR and LF,
# which come from escapes.
_TRIMMED: Final = "".join(chr(code) for code in range(33) if chr(code) not in "\r\n")


def spark_homes() -> tuple[Path, ...]:
    """Return `$SPARK_HOME`, if it is set, and the Spark inside pyspark, if that is installed.

    pyspark itself starts Spark from the first of these folders, whatever the folder contains.
    """
    named = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(named)] if named else []
    if spec is not None and spec.origin is not None:  # a plain folder named pyspark has no origin
        homes.append(Path(spec.origin).parent)
    return tuple(homes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The location and versions of Spark, such as `4.0.0` (`version`) and `2.13` (`scala`)."""

    home: Path
    scala: str
    version: str

    @classmethod
    def find(cls) -> Installation:
        """Return `$SPARK_HOME`, or the Spark inside pyspark.

        Raises SettingsError if there is no Spark, or if Spark is older than 3.5.
        """
        homes = spark_homes()
        if not homes:
            raise SettingsError("pyspark is not installed", fix=install("spark"))
        home = homes[0]
        names = sorted(file.name for file in home.glob("jars/spark-sql_*.jar"))
        match = next((m for name in names if (m := _SPARK_SQL.fullmatch(name))), None)
        if match is None:
            raise SettingsError(
                f"{home} has no Spark: it lacks jars/spark-sql_*.jar",
                cause="SPARK_HOME names the wrong folder, or pyspark-client is installed",
                fix=f"{install('spark')}; or correct or unset SPARK_HOME",
            )
        scala, version, major, minor = match.groups()
        if (int(major), int(minor)) < OLDEST:
            raise SettingsError(
                f"Spark {version} in {home} is too old",
                cause="eo-listener needs Spark 3.5 or later",
                fix="Run pip install 'pyspark>=3.5,<4.3', and check SPARK_HOME",
            )
        return cls(home=home, scala=scala, version=version)

    @property
    def connector(self) -> str:
        """The Maven coordinates of this Spark's Kafka connector."""
        return f"org.apache.spark:{CONNECTOR}_{self.scala}:{self.version}"

    @property
    def oldest_java(self) -> int:
        """The oldest Java version on which this Spark and the shim run."""
        return 11 if self.version.startswith("3.") else 17

    @property
    def newest_java(self) -> int | None:
        """The newest Java version on which this Spark starts, or None if no limit is known."""
        for jar in self.home.glob("jars/hadoop-client-api-*.jar"):
            match = _HADOOP.fullmatch(jar.name)
            if match and tuple(map(int, match.groups())) < _HADOOP_FOR_JAVA_23:
                return 22
        return None

    @property
    def has_connector(self) -> bool:
        """True if the connector is among Spark's own jars."""
        return any(self.home.glob(f"jars/{CONNECTOR}_*.jar"))


def read_settings(file: Path) -> dict[str, str]:
    """Return the settings that Spark reads from a file such as `spark-defaults.conf`.

    The result is empty if the file does not exist. Raises SettingsError if the file cannot be read.
    """
    import javaproperties  # noqa: PLC0415  # a program that only listens does not need it

    try:
        with file.open(encoding="utf-8") as text:  # as Spark does; bytes would be read as Latin-1
            settings = javaproperties.load(text)
    except FileNotFoundError:
        return {}
    except javaproperties.InvalidUEscapeError:  # not shown: its text quotes a part of the value
        raise SettingsError(
            f"{file} cannot be read: a \\u in it is not followed by four hexadecimal digits",
            fix="Write a backslash as \\\\",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{file} cannot be read: {error}", fix="Make it a readable text file in UTF-8"
        ) from error
    return {name: value.strip(_TRIMMED) for name, value in settings.items()}
