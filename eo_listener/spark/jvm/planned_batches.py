"""Reads the plan of the batch that foreachBatch is writing, from the running query.

While Spark writes batch N, `committedOffsets` is the start of the batch and `availableOffsets` its
end (StreamExecution, 3.5 to 4.2). Each run has its own session, a clone, to which a batch's
DataFrame belongs. So the session identifies the run, whichever thread asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from eo_listener.errors import JvmError, SettingsError
from eo_listener.model.planned_batch import BATCHES, CountedSources, PlannedBatch, offset_ranges
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.spark.checkpoint.errors import Unreadable
from eo_listener.spark.checkpoint.log_files import plan_id
from eo_listener.spark.jvm.calls import FAILURES, asking, call
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    beginnings,
    class_name,
    distinct_streams,
    elements,
    is_kafka,
    source_options,
)
from eo_listener.spark.shim import position_of

_FORGETFUL: Final = frozenset({"TextSocketMicroBatchStream", "MemoryStream"})
"""Spark's streams that keep records only in memory, so that a repeated batch would be empty."""


def refuse_forgetful(streams: Mapping[int, Any]) -> None:
    """Raise SettingsError for a stream that cannot give the records of a batch twice."""
    for index, stream in streams.items():
        name = class_name(stream).rpartition(".")[2]
        if name in _FORGETFUL:
            raise SettingsError(
                f"source {index} of the query cannot read a batch twice ({name})",
                cause="it keeps its records in memory only, so a batch repeated after a "
                "restart would be empty and count as applied",
                fix="Write its records to Kafka or to files first, and read those",
            )


def counted_sources(
    query: RunningQuery, streams: Mapping[int, Any], batch_id: int
) -> CountedSources | None:
    """Return the streams with an offset in the running batch, or None if no stream has one."""
    ends = query.execution.availableOffsets()
    indices = tuple(index for index, stream in streams.items() if ends.get(stream).isDefined())
    if not indices:
        return None
    before = _plan_id(query, batch_id - 1) if batch_id else None
    return CountedSources(indices=indices, plan_id=_plan_id(query, batch_id), before=before)


def _plan_id(query: RunningQuery, batch_id: int) -> str:
    """Return the plan id of a batch, from its entry in Spark's offset log.

    Spark has the log's two newest entries in memory, and serializes them as in the log's files.
    """
    log = query.execution.offsetLog()
    entry = log.get(batch_id)
    if not entry.isDefined():
        raise _unknown(batch_id, "the checkpoint lacks it")
    written = query.jvm.java.io.ByteArrayOutputStream()
    log.serialize(entry.get(), written)
    try:
        return plan_id(str(written.toString("UTF-8")))
    except Unreadable as error:
        raise _unknown(batch_id, "it has an unknown form") from error


def _unknown(batch_id: int, reason: str) -> JvmError:
    return JvmError(
        f"cannot determine the offsets that Spark planned for batch {batch_id}",
        cause=f"offsets/{batch_id}: {reason}",
        fix="Restore the checkpoint; if it is whole, report this with the Spark version",
    )


ReadLogs = Callable[[Mapping[str, str], Collection[TopicPartition]], GroupSnapshot]
"""A function of a source's reader options and partitions that returns the state of their logs.

It raises KafkaError if Kafka does not answer in time, and SettingsError for unusable options.
"""

_WHAT: Final = "read the plan of this batch"
_QUERY_ID: Final = "sql.streaming.queryId"  # StreamExecution.QUERY_ID_KEY, a local property


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The parts of a running query that do not change."""

    query: RunningQuery
    streams: Mapping[int, Any]
    """The Kafka streams, by the source's index."""
    not_kafka: Mapping[int, Any]
    """The other streams, by the source's index."""
    options: Mapping[int, Mapping[str, str]] = field(repr=False)
    """The reader options of the Kafka sources, by the source's index."""
    stateful: bool
    deterministic: bool
    checkpoint: str


class LivePlans:
    """The `PlanReader` of classic PySpark, for one query at a time, on any thread.

    Reading a plan takes about 3 ms, and `read_logs` takes 5 ms for 1 partition, 8 ms for 100, and
    140 ms for 1,000.

    The reader calls `read_logs` once for each Kafka source of every batch, and the checkpoint
    only if Spark itself does not report the start of a source.
    """

    def __init__(self, read_logs: ReadLogs) -> None:
        self._read_logs = read_logs
        self._run: _Run | None = None

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """Read the plan of a batch from Spark, and the state of Kafka's logs.

        Raises JvmError if the query cannot be found or does not answer, SettingsError for a source
        that cannot be read twice, and the errors of `read_logs` (KafkaError and SettingsError).
        """
        with asking(_WHAT):
            run = self._run_of(frame)
            _check_batch(run.query, batch_id)
            sources, continued = self._sources(run, batch_id)
            counted = counted_sources(run.query, run.not_kafka, batch_id)
        snapshots = [
            self._read_logs(run.options[index], ranges.keys()) for index, ranges in sources.items()
        ]
        return PlannedBatch(
            query_id=run.query.query_id,
            run_id=run.query.run_id,
            query=run.query.name,
            batch_id=batch_id,
            sources=MappingProxyType(sources),
            counted=counted,
            stateful=run.stateful,
            deterministic=run.deterministic,
            topic_ids={
                topic: topic_id for logs in snapshots for topic, topic_id in logs.topic_ids.items()
            },
            log_starts={tp: start for logs in snapshots for tp, start in logs.starts.items()},
            log_ends={tp: end for logs in snapshots for tp, end in logs.ends.items()},
            has_log_bounds=True,
            continued=continued,
        )

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the first offsets of the sources of `plan`, the plan that was read last.

        Raises JvmError.
        """
        run = self._run
        if run is None:
            return {}
        with asking("read the offsets at which the query began"):
            recorded = _recorded_starts(run)
            if recorded < len(run.streams):
                raise JvmError(
                    "cannot determine the offsets at which the query began",
                    cause=f"{run.checkpoint}/sources has them for {recorded} of "
                    f"{len(run.streams)} Kafka sources",
                )
            return {
                tp: offset
                for index in plan.sources
                for tp, offset in self._first(run, index, plan.batch_id).items()
            }

    def _sources(
        self, run: _Run, batch_id: int
    ) -> tuple[dict[int, dict[TopicPartition, OffsetRange]], frozenset[TopicPartition]]:
        """Return each source's ranges, and the partitions that an earlier batch has read."""
        execution = run.query.execution
        committed = execution.committedOffsets()
        starts = _offsets(committed, run.streams, batch_id)
        ends = _offsets(execution.availableOffsets(), run.streams, batch_id)
        sources = {
            index: offset_ranges(
                starts[index] if index in starts else self._first(run, index, batch_id), until
            )
            for index, until in ends.items()
        }
        read = {tp for offsets in starts.values() for tp in offsets}
        if any(committed.get(stream).isDefined() for stream in run.not_kafka.values()):
            read.add(BATCHES)
        return sources, frozenset(read)

    def _first(self, run: _Run, index: int, batch_id: int) -> Offsets:
        """Return the first offsets of a source, from Spark itself or from the checkpoint."""
        try:
            text = str(run.streams[index].initialOffset().json())  # it reads `sources/<index>/0`
        except FAILURES:  # a V1 source has no such method, another thread no active session
            offsets = beginnings(run.query).get(index)
        else:
            offsets = position_of(batch_id, {index: text}).committed[index]
        if offsets is None:
            raise JvmError(
                f"cannot determine the offsets at which source {index} began",
                cause=f"{run.checkpoint}/sources/{index}/0 is missing, or does not hold the "
                "offsets at which a Kafka source began",
                fix="Start with a new checkpointLocation, from starting_offsets(ledger=...)",
            )
        return offsets

    def _run_of(self, frame: Any) -> _Run:
        session = frame._jdf.sparkSession()  # noqa: SLF001  # pyspark offers no public way to it
        if self._run is None or not _is_of(self._run.query.execution, session):
            self._run = _run_facts(_find_query(session, frame.sparkSession._jvm))  # noqa: SLF001  # nor to its JVM
        return self._run


def _recorded_starts(run: _Run) -> int:
    """Return the number of Kafka sources for which the checkpoint has `sources/<source>/0`.

    If that file is missing, the caller must not ask Spark for the start: Spark would take the
    current offsets, and record them. Sources other than Kafka keep their own data in this folder.
    """
    hadoop = run.query.jvm.org.apache.hadoop.fs
    folder = hadoop.Path(run.checkpoint, "sources")
    session = run.query.execution.sparkSessionForStream()
    files = folder.getFileSystem(session.sessionState().newHadoopConf())
    if not files.exists(folder):
        return 0
    not_kafka = set(map(str, run.not_kafka))
    statuses = files.listStatus(folder)
    folders = (
        status.getPath() for status in statuses if str(status.getPath().getName()) not in not_kafka
    )
    return sum(1 for path in folders if files.exists(hadoop.Path(path, "0")))


def _is_of(execution: Any, session: Any) -> bool:
    return bool(session.equals(execution.sparkSessionForStream()))


def _find_query(session: Any, jvm: Any) -> RunningQuery:
    active = session.sharedState().activeStreamingQueries()
    for execution in _candidates(active, session, jvm):
        if execution is not None and _is_of(execution, session):
            return RunningQuery.from_execution(execution, jvm)
    raise JvmError(
        "the batch belongs to no running query",
        cause="the function was called outside foreachBatch, or its query was stopped",
        fix="Pass the function to DataStreamWriter.foreachBatch, and call it nowhere else",
    )


def _candidates(active: Any, session: Any, jvm: Any) -> Iterator[Any]:
    """Yield the running queries. If the thread names a query, that query comes first.

    A thread names its query, in a local property, if pyspark pins Python's threads to Java's.
    """
    named = session.sparkContext().getLocalProperty(_QUERY_ID)
    if named is not None:
        yield active.get(jvm.java.util.UUID.fromString(named))
    for query_id in active:  # py4j turns a java.util.Map into a dictionary
        yield active.get(query_id)


def _run_facts(query: RunningQuery) -> _Run:
    execution = query.execution
    streams = distinct_streams(execution)
    kafka = {index: stream for index, stream in enumerate(streams) if is_kafka(stream)}
    not_kafka = {index: stream for index, stream in enumerate(streams) if index not in kafka}
    refuse_forgetful(not_kafka)
    options = source_options(query)
    return _Run(
        query=query,
        streams=kafka,
        not_kafka=not_kafka,
        options={source.index: source.options for source in options if source.kafka},
        stateful=_is_stateful(execution.lastExecution().executedPlan()),
        deterministic=bool(execution.lastExecution().optimizedPlan().deterministic()),
        checkpoint=str(execution.resolvedCheckpointRoot()),
    )


def _is_stateful(plan: Any) -> bool:
    """Return True if a physical plan has a stateful operator, which has a `stateInfo`."""
    if call(plan, "stateInfo") is not None:
        return True
    inner = call(plan, "inputPlan")  # of an adaptive plan, which shows no children
    below = [] if inner is None else [inner]
    return any(_is_stateful(child) for child in (*below, *elements(plan.children())))


def _check_batch(query: RunningQuery, batch_id: int) -> None:
    runs = query.batch()
    if runs != batch_id:
        raise JvmError(
            f"query {query.query_id} is running batch {runs}, not batch {batch_id}",
            cause="the function was called for a batch that has ended",
            fix="Pass the function to DataStreamWriter.foreachBatch, and call it nowhere else",
        )


def _offsets(progress: Any, streams: Mapping[int, Any], batch_id: int) -> Mapping[int, Offsets]:
    """Return the offsets in Spark's StreamProgress, without sources that have no offsets yet."""
    texts = {}
    for index, stream in streams.items():
        offset = progress.get(stream)
        if offset.isDefined():
            texts[index] = str(offset.get().json())
    return position_of(batch_id, texts).committed
