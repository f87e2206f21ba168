"""Real Spark reads a locked cluster; its listener is given nothing, and goes in the same way."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.client_config.cluster import Cluster, translate
from eo_listener.client_config.sasl import LoginModule
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.events import Committed, Event
from eo_listener.kafka.group_stores import open_cluster
from eo_listener.spark.jvm.calls import JvmShimClient
from tests.broker import parse_rows
from tests.client_config.test_jaas import PLAIN, READ, REFUSED
from tests.groups import positions
from tests.secured import PASSWORDS, PLAIN_MODULE, PLANTED, TRUST, Secured, log_lines
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HANDLER = "OwnLogin"
WAYS = 13  # of `ways`
_SOURCE = """
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;

public final class OwnLogin implements AuthenticateCallbackHandler {
  @Override
  public void configure(Map<String, ?> configs, String by, List<AppConfigurationEntry> entries) {}

  @Override
  public void close() {}

  @Override
  public void handle(Callback[] callbacks) {
    for (Callback callback : callbacks) {
      if (callback instanceof NameCallback) {
        ((NameCallback) callback).setName("alice");
      } else if (callback instanceof PasswordCallback) {
        ((PasswordCallback) callback).setPassword("%s".toCharArray());
      }
    }
  }
}
"""


def add_handler(spark: SparkSession, folder: Path) -> None:
    """Compile a callback handler against Spark's own kafka-clients, and put it beside them."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    kafka = loader.loadClass("org.apache.kafka.common.security.auth.AuthenticateCallbackHandler")
    jar = kafka.getProtectionDomain().getCodeSource().getLocation().getPath()
    source = folder / f"{HANDLER}.java"
    source.write_text(_SOURCE % PASSWORDS["alice"])
    subprocess.run(
        ["javac", "--release", "11", "-cp", jar, "-d", str(folder), str(source)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    loader.addURL(jvm.java.io.File(str(folder)).toURI().toURL())


@dataclass
class ListenerOutput:
    """Events, log lines and metadata of a listener that committed."""

    events: list[Event] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    shown: str = ""
    clusters: tuple[Cluster, ...] = ()
    at: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)


def source(spark: SparkSession, options: Mapping[str, str], topic: str, group: str) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**options)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("kafka.consumer.commit.groupid", group).load().select("value")


def ways(secured: Secured) -> dict[str, dict[str, str]]:
    """Every way in, and one that only Java knows."""
    by_handler = secured.way(
        "PLAIN",
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=f"{PLAIN_MODULE} required;",
        sasl__client__callback__handler__class=HANDLER,
    )
    return {**secured.ways(), "java": by_handler}


@pytest.fixture(scope="module")
def told(
    spark: SparkSession, secured: Secured, tmp_path_factory: pytest.TempPathFactory
) -> ListenerOutput:
    """One query with a source for each way in, read to its end; each source has its group."""
    folder = tmp_path_factory.mktemp("handler")
    add_handler(spark, folder)
    topics = Topics(secured.broker.bootstrap_servers)
    topic = topics.create(partitions=1)
    topics.fill(topic, 20)
    told = ListenerOutput()
    groups = {way: unique(way) for way in ways(secured)}
    assert len(groups) == WAYS
    listener = OffsetCommitListener(observers=[told.events.append])
    spark.streams.addListener(listener)
    with log_lines() as told.lines:
        try:
            first, *others = (
                source(spark, options, topic, groups[way]) for way, options in ways(secured).items()
            )
            for other in others:
                first = first.union(other)
            writer = first.writeStream.format("noop").trigger(availableNow=True).queryName("locked")
            query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
            assert query.awaitTermination(180)
            assert listener.flush(60), told.lines
            told.shown = repr(listener) + repr(vars(listener))
            told.clusters = tuple(listener._service._committer._workers)
        finally:
            spark.streams.removeListener(listener)
            listener.close()
    names = list(groups.values())
    told.groups = set(names)
    more = [word for name in names[1:] for word in ("--group", name)]
    rows = parse_rows(secured.broker.consumer_groups(names[0], *more))
    told.at = {row.group: (row.current_offset, row.lag) for row in rows}
    for name in names:
        held = positions(secured.broker.bootstrap_servers, name).values()
        told.metadata += [position.metadata for position in held]
    return told


def test_each_group_is_at_the_end(told: ListenerOutput) -> None:
    """With nothing but the source's own options, Kafka's tool shows lag 0 for each way in."""
    assert told.at == dict.fromkeys(told.groups, (20, 0))
    assert len(told.at) == WAYS


def test_each_way_by_its_client(told: ListenerOutput) -> None:
    """Only what librdkafka cannot do goes through Java, and only stores are read by it."""
    assert len(told.clusters) == WAYS
    (why,) = (cluster.java_reason for cluster in told.clusters if cluster.client == "java")
    assert "kafka.sasl.client.callback.handler.class" in (why or "")
    uses = sorted("+".join(store.use for store in one.stores) for one in told.clusters)
    assert uses[-5:] == ["trust", "trust", "trust", "trust", "trust+key"]
    assert not any(uses[:-5])


def test_nothing_shows_a_secret(told: ListenerOutput, secured: Secured) -> None:
    """No log line of any level, event, repr or commit metadata holds a password or a key."""
    assert sum(isinstance(event, Committed) for event in told.events) >= WAYS
    assert any("committed" in line for line in told.lines)
    assert len(told.metadata) == WAYS
    shown = "\n".join(
        [*told.lines, repr(told.events), told.shown, repr(told.clusters), *told.metadata]
    )
    assert PLANTED not in shown
    for secret in secured.keys.secrets:
        assert secret not in shown


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (TRUST, TRUST + "-not", "password"),
        ("trust.jks", "gone.jks", "no such file"),
        ("trust.jks", "dora.pem", "cannot be read"),
    ],
)
def test_a_store_that_java_cannot_read(
    spark: SparkSession, secured: Secured, old: str, new: str, why: str
) -> None:
    """A wrong password, file or kind of store is reported as such, and shows no secret."""
    options = {k: v.replace(old, new) for k, v in secured.ways()["tls-jks"].items()}
    cluster = Cluster.from_properties({"bootstrap.servers": "127.0.0.1:9"}, translate(options))
    with pytest.raises(KafkaError, match="could not be read") as caught:
        open_cluster(cluster, "simple", JvmShimClient())
    assert caught.value.code == "_NO_STORE"
    assert why in (caught.value.cause or "")
    assert PLANTED not in repr(caught.value) + repr(caught.value.__cause__)


def java(spark: SparkSession, text: str) -> tuple[str, dict[str, str]] | None:
    """What Kafka's own client makes of `sasl.jaas.config`; None if it refuses it."""
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    options.put("sasl.jaas.config", jvm.org.apache.kafka.common.config.types.Password(text))
    try:
        context = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(options)
    except Exception:  # noqa: BLE001  # pyspark turns Java's into several kinds of its own
        return None
    entry = context.configurationEntries().get(0)
    return entry.getLoginModuleName(), dict(entry.getOptions())


def test_what_is_read_of_a_login(spark: SparkSession) -> None:
    """Every text that is read here means the same there."""
    for text, options in READ:
        whole = text.replace("{m}", PLAIN)
        assert java(spark, whole) == (PLAIN, options), whole


def test_what_is_refused_of_a_login(spark: SparkSession) -> None:
    """What is refused here is refused there, but for an open quote and a nameless option."""
    lenient = [text for text, _ in REFUSED if java(spark, text) is not None]
    assert all(text.count('"') % 2 or " ==" in text for text in lenient), lenient


def test_random_logins(spark: SparkSession) -> None:
    """Whatever is read here is read there, and as the same."""
    words = [PLAIN, "required", "a", "b-c", "x.y", '"q w"', "'s'", '"\\"\\n\\61"', "=", "=",
             ";", " ", " ", "\n", "// c\n", "/* d */", "9", "-", "/", "@", '"', "ü", "€",
             ' a="1"', " b=c ", "x='y'"]  # fmt: skip
    randomness = random.Random(6)
    read = 0
    for _ in range(400):
        tail = "".join(randomness.choices(words, k=randomness.randint(0, 9)))
        text = f"{PLAIN} required {tail}{randomness.choice([';', ' ;', ''])}"
        try:
            ours = LoginModule.parse(text)
        except SettingsError:
            continue
        read += 1
        assert java(spark, text) == (ours.name, dict(ours.options)), text
    assert read > 20
