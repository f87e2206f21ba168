"""What Spark has planned, read from the live query and from its checkpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener.commit.tracking.routing import TOKENS
from eo_listener.errors import JvmError, KafkaError, SettingsError
from eo_listener.foreach_batch.exactly_once import QueryPlanReader
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.model.planned_batch import BATCHES, PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.planned_batches import CheckpointPlans
from eo_listener.spark.jvm.calls import JvmShimClient
from eo_listener.spark.jvm.planned_batches import LivePlans
from tests.attack import surgery
from tests.foreach_batch.conftest import Jobs
from tests.spark.checkpoint.recorded import unpack
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


class Recorder:
    """A function for foreachBatch that records the plans of its batches, by both ways."""

    def __init__(self, checkpoint: Path) -> None:
        self.plans: list[PlannedBatch] = []
        self.files: list[PlannedBatch] = []
        self.logs = SourceLogs(JvmShimClient())
        self._live = LivePlans(self.logs.snapshot)
        self._files = CheckpointPlans(str(checkpoint), "run")

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.record(frame, batch_id)
        frame.write.format("noop").mode("overwrite").save()

    def record(self, frame: DataFrame, batch_id: int) -> None:
        self.plans.append(self._live.plan(frame, batch_id))
        self.files.append(self._files.plan(frame, batch_id))


@pytest.fixture
def recorder(jobs: Jobs) -> Recorder:
    return Recorder(jobs.checkpoint())


def by_partition(plan: PlannedBatch, source: int = 0) -> dict[int, OffsetRange]:
    return {tp.partition: span for tp, span in plan.sources[source].items()}


def test_the_plan_of_each_batch(jobs: Jobs, topics: Topics, recorder: Recorder) -> None:
    """Batch 0 starts where the query began, later ones where the last ended; Kafka's side of it."""
    topic = topics.create(partitions=2)
    topics.fill(topic, 20)
    topics.forget_before(topic, {1: 2})
    began = json.dumps({topic: {"0": 3, "1": 2}})
    query = jobs.start(jobs.read(topic, startingOffsets=began), recorder, drain=False)
    query.processAllAvailable()
    topics.fill(topic, 20)
    query.processAllAvailable()
    first, second = recorder.plans[0], recorder.plans[-1]
    assert [plan.batch_id for plan in recorder.plans] == list(range(len(recorder.plans)))
    assert (first.query_id, first.run_id, first.query) == (query.id, query.runId, "q")
    query.stop()
    assert by_partition(first)[0].start == 3
    assert by_partition(first)[1].start == 2
    for before, after in zip(recorder.plans, recorder.plans[1:], strict=False):  # may be several
        assert {p: span.until for p, span in by_partition(before).items()} == {
            p: span.start for p, span in by_partition(after).items()
        }
    assert first.log_starts == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 2}
    assert second.log_ends == {tp: span.until for tp, span in second.sources[0].items()}
    assert first.topic_ids.keys() == {topic}
    assert first.counted is None
    assert not first.stateful
    assert [dict(plan.sources) for plan in recorder.files] == [
        dict(plan.sources) for plan in recorder.plans
    ]
    assert recorder.files[0].query_id == query.id


def noting(
    planning: QueryPlanReader, plans: list[PlannedBatch]
) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch that keeps the plan of each batch."""
    return lambda frame, batch_id: plans.append(planning.plan(frame, batch_id))


def test_what_spark_knows_of_rows_that_change(jobs: Jobs, topics: Topics) -> None:
    """A random filter or a UDF before foreachBatch, of which the batch's frame shows nothing.

    Of a query without a name no name.
    """
    topic = topics.create(partitions=1)
    topics.fill(topic, 3)
    # Spark folds a comparison with rand() that is always true.
    once = F.udf(lambda value: value, "string").asNondeterministic()
    data = jobs.read(topic)
    for number, frame in enumerate(
        (data, data.where("rand() < 0.5"), data.withColumn("value", once("value")))
    ):
        planning, plans = QueryPlanReader(None, {}), list[PlannedBatch]()
        jobs.drain(frame, noting(planning, plans), checkpoint=str(number), name=None)
        planning.close()
        assert [(plan.query, plan.deterministic) for plan in plans] == [(None, number == 0)]


def test_several_sources(jobs: Jobs, topics: Topics, recorder: Recorder) -> None:
    """Sources go by their index in progress events; an idle one has empty ranges."""
    one, two, three = (topics.create(partitions=1) for _ in range(3))
    for topic in (one, two, three):
        topics.fill(topic, 5)
    first = jobs.read(one)
    data = first.union(jobs.read(two, three)).union(first)
    jobs.drain(data, recorder)
    topics.fill(three, 4)
    jobs.drain(data, recorder)
    plan = recorder.plans[-1]
    assert plan.sources == {
        0: {TopicPartition(one, 0): (5, 5)},
        1: {
            tp: (5, 9) if tp.topic == three else (5, 5)
            for tp in sorted(TopicPartition(topic, 0) for topic in (two, three))
        },
    }
    assert plan.topic_ids.keys() == {one, two, three}
    assert [dict(plan.sources) for plan in recorder.files] == [
        dict(plan.sources) for plan in recorder.plans
    ]


def test_other_sources_are_named(jobs: Jobs, topics: Topics, recorder: Recorder) -> None:
    """A source that is not Kafka is counted, live and by the files alike, over a restart too."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 5)
    rate = jobs.spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    kafka = jobs.read(topic).select("value")
    data = rate.selectExpr("string(value) AS value").union(kafka)
    for _ in range(2):
        query = jobs.start(data, recorder, drain=False)
        query.processAllAvailable()
        query.stop()
        if len(surgery.batches(jobs.checkpoint(), "commits")) == len(recorder.plans):
            surgery.before_commit(jobs.checkpoint())
    assert len(recorder.plans) > 2
    for live, files in zip(recorder.plans, recorder.files, strict=True):
        assert live.counted == files.counted
        assert live.continued == files.continued
        assert live.sources.keys() == files.sources.keys() == {1}
    known: dict[int, str] = {}
    for plan in recorder.plans:
        counted = plan.counted
        assert counted is not None
        assert counted.indices == (0,)
        assert (BATCHES in plan.continued) is (plan.batch_id > 0)
        assert counted.plan_id == known.setdefault(plan.batch_id, counted.plan_id)
        assert counted.before == known.get(plan.batch_id - 1)
    assert len(set(known.values())) == len(known)


def test_each_query_finds_itself(jobs: Jobs, topics: Topics) -> None:
    """With several queries at once, and from threads of Python's own, each run has its own plan."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 5)
    found: dict[str, list[str]] = {"a": [], "b": []}
    together = threading.Barrier(2, timeout=60)

    def function(name: str) -> Callable[[DataFrame, int], None]:
        def record(frame: DataFrame, batch_id: int) -> None:
            together.wait()

            def ask() -> None:
                plans = LivePlans(SourceLogs(JvmShimClient()).snapshot)
                found[name].append(plans.plan(frame, batch_id).run_id)

            thread = threading.Thread(target=ask)
            thread.start()
            thread.join(60)
            ask()

        return record

    queries: dict[str, StreamingQuery] = {
        name: jobs.start(jobs.read(topic), function(name), name=name, checkpoint=name)
        for name in found
    }
    for query in queries.values():
        assert query.awaitTermination(120)
    assert found == {name: [query.runId] * 2 for name, query in queries.items()}


def test_a_batch_of_no_query(jobs: Jobs, recorder: Recorder, spark: SparkSession) -> None:
    """A DataFrame that no running query has planned is a typed error."""
    with pytest.raises(JvmError, match="no running query"):
        recorder(spark.range(3).toDF("value"), 0)


def test_the_checkpoint_stands_in(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the query cannot be asked, the checkpoint is, and that is logged; nowhere else."""
    folder = unpack("4.0.0", "plain", tmp_path)
    newest = Checkpoint(str(folder)).batches().planned[-1]
    surgery.before_commit(folder)
    far = "a frame of Spark Connect"
    with caplog.at_level("INFO", "eo_listener"):
        found = QueryPlanReader(str(folder), {}).plan(far, newest)
    assert found.sources == CheckpointPlans(str(folder), "r").plan(far, newest).sources
    assert f"from the checkpoint {folder}" in caplog.text
    with pytest.raises(JvmError, match="no running query"):
        QueryPlanReader(str(folder), {}).plan(spark.range(3), newest)
    with pytest.raises(SettingsError, match="checkpoint="):
        QueryPlanReader(None, {}).plan(far, newest)


def near(data: DataFrame) -> DataFrame:
    other = data.selectExpr("value AS v", "timestamp AS t")
    return data.join(
        other, F.expr("value = v AND t BETWEEN timestamp AND timestamp + INTERVAL 1 MINUTE")
    )


def remembered(data: DataFrame) -> DataFrame:
    return data.groupBy("value").applyInPandasWithState(
        lambda _key, _rows, _state: iter(()), "v string", "s string", "update", "NoTimeout"
    )


def sessions(data: DataFrame) -> DataFrame:
    return data.groupBy(F.session_window("timestamp", "1 minute"), "value").count()


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        pytest.param(lambda data: data.groupBy("value").count(), "update", id="aggregation"),
        pytest.param(sessions, "append", id="session window"),
        pytest.param(lambda data: data.dropDuplicates(["value"]), "append", id="deduplication"),
        pytest.param(
            lambda data: data.dropDuplicatesWithinWatermark(["value"]),
            "append",
            id="deduplication within the watermark",
        ),
        pytest.param(near, "append", id="join"),
        pytest.param(lambda data: data.limit(2), "append", id="limit"),
        pytest.param(remembered, "update", id="groups with state"),
    ],
)
def test_a_plan_with_state(
    jobs: Jobs,
    topics: Topics,
    recorder: Recorder,
    shape: Callable[[DataFrame], DataFrame],
    mode: str,
) -> None:
    """Every operator that keeps state makes the plan stateful."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 3)
    data = shape(jobs.read(topic).withWatermark("timestamp", "1 minute"))

    def enough(frame: DataFrame, batch_id: int) -> None:
        recorder.record(frame, batch_id)
        raise StopIteration("known now, so it need not run")

    assert "it need not run" in jobs.failure(data, enough, mode=mode)
    assert recorder.plans[0].stateful


def test_state_in_a_checkpoint(jobs: Jobs, topics: Topics, recorder: Recorder) -> None:
    """A checkpoint with state tells so, once a batch of it was run."""
    topic = topics.create(partitions=1)
    for _ in range(2):
        topics.fill(topic, 3)
        jobs.drain(jobs.read(topic).groupBy("value").count(), recorder, mode="update")
    assert recorder.files[1].stateful


def test_plans_without_state(jobs: Jobs, topics: Topics, recorder: Recorder) -> None:
    """A watermark, a join with a table and a shuffle keep no state."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 3)
    table = jobs.spark.createDataFrame([("1", "one")], "value string, name string")
    data = jobs.read(topic).withWatermark("timestamp", "1 minute").join(table, "value")
    jobs.drain(data.repartition(2), recorder)
    assert not recorder.plans[0].stateful
    assert not recorder.files[0].stateful


def test_both_ways_to_kafka_say_the_same(jobs: Jobs, topics: Topics) -> None:
    """What librdkafka says of logs and topics, Spark's own client says too where it is needed."""
    topic = topics.create(partitions=2)
    topics.fill(topic, 20)
    topics.forget_before(topic, {0: 3})
    asked = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("nosuch", 0)]
    options = {"kafka.bootstrap.servers": topics.servers}
    logs = SourceLogs(JvmShimClient())
    plain = logs.snapshot(options, asked)
    # With delegation tokens Spark decides by itself how to log in.
    by_java = logs.snapshot({**options, TOKENS: "one"}, asked)
    logs.close()
    assert plain == by_java
    assert plain.starts == {asked[0]: 3, asked[1]: 0}
    assert plain.topic_ids.keys() == {topic}


def test_a_kafka_that_is_away(jobs: Jobs, topics: Topics) -> None:
    """A Kafka that does not answer is a typed error after a bounded time, never a guess."""
    logs = SourceLogs(timeout=1.0)
    nowhere = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        logs.snapshot(nowhere, [TopicPartition("t", 0)])
    logs.close()
