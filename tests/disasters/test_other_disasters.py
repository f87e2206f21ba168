"""Disasters that a start alone does not repair: a transaction, lost rows, on a secured broker."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.offsets import TopicPartition
from tests import hanging
from tests.broker import Broker
from tests.disasters.documented import audit_says
from tests.disasters.pipeline import Pipeline
from tests.disasters.said import NOTHING
from tests.disasters.stores import KafkaStore, PostgresStore, SqlStore
from tests.documents.markdown import DOCS
from tests.foreach_batch.conftest import LEFT_SOCKETS
from tests.secured import PLANTED, Keys, Secured, secured_broker
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]

_producer_ids = itertools.count(800_000_000 + 1000 * os.getpid())
_HALF_AN_HOUR = 1800
PAGE = DOCS / "how-to" / "postgres.md"


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_hanging_transaction_is_ended_by_what_is_printed(
    pipeline: Pipeline, broker: Broker
) -> None:
    """`audit` prints `txn list`, that prints Kafka's own command; then the query reads the rest."""
    pipeline.source["kafka.isolation.level"] = "read_committed"
    pipeline.work()
    held = TopicPartition(pipeline.topic, 0)
    written = 1000 * (int(time.time()) - _HALF_AN_HOUR)
    with hanging.unverified(broker.bootstrap_servers):
        hanging.append(broker.bootstrap_servers, held, next(_producer_ids), written=written)
    pipeline.work()
    assert pipeline.records() - pipeline.store.rows() == {}
    said = pipeline.audit("--rows", "--read-committed")
    (found,) = said.to_act_on
    (words,) = audit_says("a transaction hangs")
    assert words in found.what
    (command,) = found.choices[0].commands
    listed = pipeline.do(command)
    assert listed.code == 1
    (command,) = re.findall(r"kafka-transactions\.sh .*", listed.text)
    hanging.type_command(broker, command)
    pipeline.run()
    after = pipeline.audit("--rows", "--read-committed")
    assert (after.code, after.verdict) == (0, NOTHING), after.text
    assert pipeline.store.rows() == pipeline.records()
    assert pipeline.records().total() == 40


def to_rows(records: DataFrame) -> DataFrame:
    return records.selectExpr("topic", "partition", "offset", "string(value) AS value")


def run_page(pipeline: Pipeline, spark: SparkSession, starts: str, ends: str) -> None:
    """Run the program on PostgreSQL's page, with other places and offsets."""
    _, _, section = PAGE.read_text().partition("#### Only the table was restored\n")
    code = section.partition("```python\n")[2].partition("```")[0]
    code = re.sub(r"^(from transforms import|spark =) .*$", "", code, flags=re.MULTILINE)
    code = re.sub(r"^begin = .*$", f"begin = {starts}", code, flags=re.MULTILINE)
    code = re.sub(r"^end = .*$", f"end = {ends}", code, flags=re.MULTILINE)
    code = code.replace("localhost:9092", pipeline.servers)
    code = code.replace("postgresql://etl@db.example/flights", pipeline.store.address)
    names = {"spark": spark, "to_delays": to_rows}
    exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102  # the document's own


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_a_table_that_was_rolled_back_is_filled_by_a_batch_query(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    """Its ledger was not: `--rows` names the offsets, and they are read once more as it says."""
    assert isinstance(pipeline.store, SqlStore)
    pipeline.work()
    before = pipeline.ends()
    pipeline.store.back_up()
    pipeline.work()
    pipeline.store.restore_rows()
    said = pipeline.audit("--rows")
    (found,) = said.to_act_on
    assert (said.verdict.proved, said.verdict.counts[0]) == (False, "20 records")
    (words,) = audit_says("only the table was")
    assert words in found.what
    for tp, end in before.items():
        assert f"{tp} {end}..{pipeline.ends()[tp]}" in found.what
    assert all(word in found.fix for word in ("spark.read", "startingOffsets", "endingOffsets"))
    starts, ends = (
        json.dumps({pipeline.topic: {tp.partition: at for tp, at in one.items()}})
        for one in (before, pipeline.ends())
    )
    if isinstance(pipeline.store, PostgresStore):
        run_page(pipeline, spark, starts, ends)
    else:
        options = {**pipeline.options, "startingOffsets": starts, "endingOffsets": ends}
        again = to_rows(spark.read.format("kafka").options(**options).load())
        pipeline.store.append(tuple(row) for row in again.collect())
    pipeline.work()
    assert pipeline.audit("--rows").verdict == NOTHING
    assert pipeline.store.rows() == pipeline.records()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker on which carol may do everything, by SASL_SSL with SCRAM."""
    keys = Keys(tmp_path_factory.mktemp("keys"))
    with secured_broker(keys) as broker:
        made = Secured(broker, keys)
        made.enrol("carol")
        for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"):
            made.allow("carol", kind, "*", "ALL")
        made.allow("carol", "BROKER", "kafka-cluster", "ALL")
        yield made


@pytest.mark.slow
def test_on_a_secured_broker(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    """A group that expired, and a checkpoint that was deleted; no output holds a secret."""
    topics = Topics(secured.broker.bootstrap_servers)
    login = secured.ways()["scram-512"]
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=carol\n"
        f"sasl.password={PLANTED}carol\nssl.ca.location={secured.keys.authority_file}\n"
    )
    store = KafkaStore(topics, login, topics.create("target", 1), unique("ledger"))
    pipeline = Pipeline.begin(spark, topics, store, tmp_path, login, properties)
    pipeline.work()
    assert pipeline.audit().verdict == NOTHING
    pipeline.delete_group()
    (found,) = pipeline.audit().to_act_on
    pipeline.repair(found)
    assert pipeline.audit().verdict == NOTHING
    pipeline.delete_checkpoint()
    pipeline.fill()
    (found,) = pipeline.audit().to_act_on
    pipeline.repair(found)
    pipeline.go_on()
    assert pipeline.audit().verdict == NOTHING
    assert store.rows() == pipeline.records()
    assert pipeline.printed
    assert not [one for one in pipeline.printed if PLANTED in one]
