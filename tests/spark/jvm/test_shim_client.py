"""What the shim does for Python inside the JVM, over py4j."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eo_listener.client_config.tls import REQUEST, KeyStore
from eo_listener.errors import JvmError
from eo_listener.spark import java
from eo_listener.spark.jvm.calls import JvmShimClient

pytestmark = pytest.mark.spark

PASSWORD = "hunter2-store"  # noqa: S105  # planted: it must be in no error


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PKCS12 store with one key and its certificate."""
    file = tmp_path_factory.mktemp("stores") / "store.p12"
    keytool = java.find().executable.resolve().with_name("keytool")
    made = ["-keystore", str(file), "-storetype", "PKCS12", "-storepass", PASSWORD]
    subprocess.run(
        [keytool, "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=a", *made],
        check=True,
        capture_output=True,
    )
    return file


def test_a_key_store_becomes_pem_that_openssl_takes(
    spark: SparkSession, keystore: Path, tmp_path: Path
) -> None:
    """Key and certificate of a store come out as PEM, which another TLS library loads."""
    store = KeyStore(use="key", location=str(keystore), type="PKCS12", password=PASSWORD)
    answer = json.loads(JvmShimClient().call(REQUEST, store.argument()))
    file = tmp_path / "both.pem"
    file.write_text(answer["certificates"] + answer["key"])
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(file)
    trust = KeyStore(use="trust", location=str(keystore), type="PKCS12", password=PASSWORD)
    answer = json.loads(JvmShimClient().call(REQUEST, trust.argument()))
    assert answer["key"] is None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=answer["certificates"])
    assert context.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("what", "argument", "told"),
    [
        (REQUEST, {"password": PASSWORD}, '"location" must be a string'),
        (REQUEST, {"location": "nosuch", "password": PASSWORD}, "no such file"),
        (REQUEST, {"location": __file__, "password": PASSWORD}, "cannot be read"),
        ("groups.steal", {"password": PASSWORD}, "of another version"),
        ("groups.commit", {"properties": {"x": PASSWORD}}, '"group" must be a string'),
    ],
)
def test_what_cannot_be_done_is_said_without_the_secret(
    spark: SparkSession, what: str, argument: dict[str, object], told: str
) -> None:
    """The error gives the reason in our own words; no part of its chain has the password."""
    with pytest.raises(JvmError) as failed:
        JvmShimClient().call(what, json.dumps(argument))
    assert told in str(failed.value)
    error: BaseException | None = failed.value
    while error is not None:
        assert PASSWORD not in f"{error!s}{error!r}"
        error = error.__cause__ or error.__context__


def test_one_shim_client_serves_many_threads(spark: SparkSession) -> None:
    """Calls from several threads at once are each answered, by one object."""
    shim_client = JvmShimClient()

    def ask(_: int) -> list[str]:
        return [shim_client.call("groups.close", '{"client":"nobody"}') for _ in range(20)]

    with ThreadPoolExecutor(5) as pool:
        answers = [*chain.from_iterable(pool.map(ask, range(5)))]
    assert [json.loads(answer) for answer in answers] == [{"v": 1, "closed": 0}] * 100


PROGRAM = """
import json, sys
from eo_listener.errors import JvmAlreadyRunningError, JvmError, KafkaError
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.spark.session.configure import configure
from eo_listener.spark.jvm.calls import JvmShimClient
from eo_listener.offsets import Position, TopicPartition

def say():
    try:
        JvmShimClient().call("groups.close", '{"client":"x"}')
        print("SAID nothing")
    except JvmError as error:
        print("SAID", error)
    store = JavaGroups(JvmShimClient(), {"bootstrap.servers": "127.0.0.1:1"})
    try:
        store.commit("g", {TopicPartition("t", 0): Position(offset=1)}, timeout=5)
    except KafkaError as error:
        print("SAID", error.code, error.cause)
    store.close()

say()
from tests.spark_session import builder, new_session
spark = new_session(connector=False, shim="shim" in sys.argv)
say()
for state in ("live", "stopped"):
    try:
        configure(builder())
    except JvmAlreadyRunningError as error:
        print("REFUSED", state, error)
    spark.stop()
"""


@pytest.mark.parametrize(
    ("given", "shim_client", "groups"),
    [
        ("none", "`eo-listener jar`", "`eo-listener jar`"),
        ("shim", "nothing", "its Kafka connector"),
    ],
)
def test_what_is_not_loaded_is_named(given: str, shim_client: str, groups: str) -> None:
    """The error says what to give Spark; for `configure` it is too late, also after a stop."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        cwd=Path(__file__).parents[3],
        env={k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"},  # this one's jars
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID")]
    assert len(said) == 4, done.stderr[-3000:]
    assert "this process has no JVM" in said[0]
    assert said[1].startswith("SAID _JVM")
    assert shim_client in said[2]
    assert groups in said[3]
    refused = [line for line in done.stdout.splitlines() if line.startswith("REFUSED")]
    assert [line.split()[1] for line in refused] == ["live", "stopped"]
    assert all("before the first session" in line for line in refused)
