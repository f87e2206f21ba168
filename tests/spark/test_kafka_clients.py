"""Where Kafka's Java client is found, and what is said where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.model.errors import SettingsError, UnavailableError
from eo_listener.spark.shim_process import kafka_clients

OTHERS = ["jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api"]


@pytest.fixture(autouse=True)
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark, no Kafka, and no cache of Ivy."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def others() -> list[str]:
    return [f"{name}-2.0.jar" for name in OTHERS]


def test_the_libs_of_kafka(tmp_path: Path) -> None:
    """The newest client, by its numbers; no sources, no tests, and nothing else of the folder."""
    files = ["kafka-clients-3.9.0.jar", "kafka-clients-3.10.1.jar", "kafka-clients-4.0-test.jar"]
    libs = put(tmp_path / "libs", *files, *others(), "jackson-core-asl-1.9.jar", "log4j-2.0.jar")
    found = [jar.name for jar in kafka_clients(libs)]
    assert found == ["kafka-clients-3.10.1.jar", *others()]


def test_what_spark_has_resolved(tmp_path: Path) -> None:
    """The client is in Ivy's folder, and the rest among Spark's own jars."""
    put(tmp_path / "spark/jars", *others())
    ivy = put(tmp_path / "home/.ivy2.5.2/jars", "org.apache.kafka_kafka-clients-3.9.0.jar")
    assert kafka_clients()[0] == ivy / "org.apache.kafka_kafka-clients-3.9.0.jar"
    assert {jar.parent.name for jar in kafka_clients()[1:]} == {"jars"}
    own = put(tmp_path / "spark/jars", "kafka-clients-3.4.1.jar")
    assert kafka_clients()[0] == own / "kafka-clients-3.4.1.jar", "Spark's own goes first"


def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places are named, and the option."""
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "kafka"))
    with pytest.raises(UnavailableError, match="--kafka-clients") as raised:
        kafka_clients()
    assert str(tmp_path / "kafka/libs") in str(raised.value)
    with pytest.raises(SettingsError, match=r"no kafka-clients-\*\.jar"):
        kafka_clients(put(tmp_path / "empty"))
    with pytest.raises(UnavailableError):
        kafka_clients(put(tmp_path / "half", "kafka-clients-3.9.0.jar"))
