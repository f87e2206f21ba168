"""KafkaSink: its arguments, and the methods that a batch calls."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

from eo_listener.client_config.identities import LEDGER_TOPIC, sink_key, sink_transactional_id
from eo_listener.client_config.kafka_options import TRANSACTION_TIMEOUT
from eo_listener.errors import KafkaError, SettingsError, few
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.logs import Logs
from eo_listener.kafka.range_reader import TargetLogs
from eo_listener.model.check_finding import CheckFinding, Findings, checked
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace, LedgerStore
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import IN_BATCHES, Request
from eo_listener.sinks.dead_letters import SHARE, DeadLetterLimit, Refusals
from eo_listener.sinks.kafka.arguments import (
    OnRepeated,
    UnfencedSettings,
    WriteMethod,
    method_of,
    require_names,
    require_options,
    require_transactional_id,
    topics_of,
)
from eo_listener.sinks.kafka.check import SinkCheck
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic
from eo_listener.sinks.kafka.method_choice import MethodChoice
from eo_listener.sinks.kafka.transaction import BatchTarget, BatchTransaction, DeadLetters
from eo_listener.sinks.kafka.unfenced import UnfencedBatch


class _Connections(NamedTuple):
    """The connections of a process; they open at first use."""

    process: int
    heads: LedgerTopic
    logs: Logs
    targets: TargetLogs


class KafkaSink:
    """Writes batches to `topic`, each in one transaction with its ledger entry.

    `options` are the options of Spark's Kafka sink (`kafka.bootstrap.servers`, `kafka.*`). Rows
    have the columns of that sink: value, and optionally key, headers, partition and topic. A sink
    with several topics needs the column topic, in which each row names one of them. `name`
    identifies the ledger and the transaction; the default is the names of the topics. `group` is a
    consumer group whose offsets the sink commits with each batch; the source must be on the same
    cluster. `dead_letters` names a topic for rows that cannot be sent. `max_dead_letters` limits
    them in each batch: an int is a number of rows, a float a share of the rows. The ledger is in
    the topic `ledger_topic`, which the sink creates if it does not exist, unless `create` is False.

    `write_method="driver"`, the default, sends rows through the driver. With "executors", Spark's
    tasks send them through Spark's own kafka-clients: a Java `kafka.partitioner.class` can then
    choose partitions, but there are no dead letters. If these kafka-clients lack what "executors"
    needs, rows go through the driver, and the sink logs a warning. Timeouts are in seconds:
    `timeout` limits each request to Kafka, `transaction_timeout` a batch's transaction, during
    which Spark computes and sends the rows. Raises SettingsError, also for a cluster that only
    Java's client can log in to.

    With `transactions=False`, neither the cluster nor this user's permissions need to support
    transactions. The executors write the rows. After a crash, the sink finds the missing rows of a
    batch by reading the target back from the end that it had when the batch began. `id` names the
    columns that identify a row, by default the source's topic, partition and offset. No two rows of
    a batch may have the same values in these columns. Each record carries these values in the
    header `eo-identity`, and the sink writes rows in the order of these columns. If topic or
    partition is such a column, it does not choose a row's target. A row without a key goes to a
    partition that the row's identity determines.

    Limitations: without transactions, Kafka cannot fence a second writer, and readers see rows
    before the batch is complete. Rows are duplicated if a second driver of the query runs, if a
    suspended driver continues, or if records arrive after the sink has stopped waiting for them.
    The next batch detects such rows, and is not written (TargetRecordsError), unless
    `on_repeated="accept"`. The log and `BatchApplied.unexpected` report records of other producers.
    The targets must not be compacted. `group`, `dead_letters` and a `kafka.partitioner.class` need
    transactions.
    """

    per_partition = False

    def __init__(
        self,
        options: Mapping[str, str],
        topic: str | Sequence[str],
        *,
        name: str | None = None,
        group: str | None = None,
        dead_letters: str | None = None,
        max_dead_letters: float = SHARE,
        ledger_topic: str = LEDGER_TOPIC,
        create: bool = True,
        write_method: WriteMethod | None = None,
        transactions: bool = True,
        id: str | Sequence[str] | None = None,  # noqa: A002  # what identifies a row
        on_repeated: OnRepeated = "fail",
        timeout: float = 30.0,
        transaction_timeout: float = TRANSACTION_TIMEOUT,
    ) -> None:
        self._topics = topics_of(topic, dead_letters, ledger_topic)
        require_options(options, self._topics)
        require_names(name=name, group=group)
        self._access = ConnectionSettings.from_options(
            options, timeout=timeout, transaction_timeout=transaction_timeout
        )
        self._unfenced = UnfencedSettings.from_arguments(
            transactions=transactions,
            identity=id,
            on_repeated=on_repeated,
            tuning=self._access.tuning,
            group=group,
            dead_letters=dead_letters,
        )
        self._name = name or sink_key(self._topics)
        self._require_id()
        self._group = group
        self._dead_letters = dead_letters
        self._limit = DeadLetterLimit(max_dead_letters)
        self._ledger_topic = ledger_topic
        self._create = create
        self._choice = MethodChoice(
            method_of(write_method, transactions=transactions, dead_letters=dead_letters),
            self._access,
            label=self.label,
            one_topic=len(self._topics) == 1,
            transactions=transactions,
        )
        self._opened: _Connections | None = None

    def __repr__(self) -> str:
        return f"<KafkaSink {self.label}>"

    @property
    def label(self) -> str:
        """The topics and their cluster, for display."""
        return f"Kafka topic {few(self._topics)} at {self._access.servers}"

    @property
    def key(self) -> str:
        """The `name` of the sink, or by default its topics."""
        return self._name

    @property
    def ledger_place(self) -> LedgerPlace:
        """The ledger's topic, with the cluster's servers."""
        return LedgerPlace(
            address=f"{LedgerStore.KAFKA.value}:{self._ledger_topic}",
            servers=self._access.servers,
            note="with -X for its login" if self._access.has_login else "",
        )

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`. Fences nobody, since another driver may be running."""
        explain = self._explanation(query)
        try:
            return self._connected().heads.heads(query, explain, fenced=False)
        except KafkaError as error:
            raise explain.translate(error) from error

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read the heads in the sink's ledger topic whose last move was by `query_id`."""
        explain = self._explanation("")
        try:
            return self._connected().heads.moved_by(query_id, explain)
        except KafkaError as error:
            raise explain.translate(error) from error

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows of `frame`, and the ledger entry `entry`.

        Both are in one transaction, unless the sink has `transactions=False`.
        """
        read = {tp.topic for tp in entry.kafka_moves}
        explain = self._explanation(entry.query, () if self._group is None else sorted(read))
        if self._group is not None and not plan.sources:
            raise SettingsError(
                f"{self.label}: cannot commit to group={self._group!r} with the batch",
                cause="a group holds Kafka offsets, but the query does not read from Kafka",
                fix="Remove group=",
            )
        target = BatchTarget(
            sink=self.key,
            topics=self._topics,
            access=self._access,
            explain=explain,
            group=self._group,
        )
        try:
            opened = self._connected()
            batch: BatchTransaction | UnfencedBatch
            if self._unfenced is not None:
                batch = UnfencedBatch(
                    target=target,
                    heads=opened.heads,
                    logs=opened.targets,
                    rows=self._choice.task_rows(frame, plan, self._unfenced.identity),
                    entry=entry,
                    reads=plan.partitions,
                    accept=self._unfenced.accept,
                )
            else:
                refusals = Refusals(label=self.label, limit=self._limit)
                batch = BatchTransaction(
                    target=target,
                    heads=opened.heads,
                    logs=opened.logs,
                    writer=self._choice.writer(frame, plan),
                    dead_letters=DeadLetters(self.label, self._dead_letters, entry, refusals),
                    entry=entry,
                )
        except KafkaError as error:
            raise explain.translate(error) from error
        return batch.write()

    def check(self, query: str | None = None) -> list[CheckFinding]:
        """Return findings about obstacles and risks; change nothing, and fence no producer.

        `query` is the name of the query, which is a part of the transactional id.
        """
        return list(checked(f"cluster {self._access.servers}", self._findings(query)))

    def _findings(self, query: str | None) -> Findings:
        explain, access = self._explanation(query or ""), self._access
        access.refuse_delegation_tokens()
        plan = Request(properties=access.properties())
        with closing(ClusterDescriber(plan.properties, timeout=access.timeout)) as cluster:
            yield from SinkCheck(
                cluster=cluster,
                plan=plan,
                explain=explain,
                query=query,
                dead_letters=self._dead_letters,
                create=self._create,
                by_executors=self._choice.by_executors,
            ).findings()
        if self._group is not None:  # apart, as requests for a group may end the process
            request = replace(plan, groups=(self._group,), mode=IN_BATCHES, running=True)
            for finding in child_process.run(request).findings:
                if finding.about == f"group {self._group}":
                    yield finding

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None and self._opened.process == os.getpid():
            self._opened.heads.close()
            self._opened.logs.close()
            self._opened.targets.close()
        self._choice.close()
        self._opened = None  # a fork leaves its parent's connections alone

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _connected(self) -> _Connections:
        if self._opened is None or self._opened.process != os.getpid():
            access = self._access
            access.refuse_delegation_tokens()
            properties = access.properties()
            self._opened = _Connections(
                process=os.getpid(),
                heads=LedgerTopic(access, self._ledger_topic, self.key, create=self._create),
                logs=Logs(properties),
                targets=TargetLogs(properties, timeout=access.timeout),
            )
        return self._opened

    def _require_id(self, query: str = "") -> None:
        if self._unfenced is None:
            require_transactional_id(self.label, self.key, query)

    def _explanation(self, query: str, sources: Sequence[str] = ()) -> Explanation:
        self._require_id(query)
        letters = () if self._dead_letters is None else (self._dead_letters,)
        return Explanation(
            label=self.label,
            servers=self._access.servers,
            principal=self._access.cluster.principal,
            transactional_id=sink_transactional_id(self.key, query),
            topics=(*self._topics, *letters),
            ledger=self._ledger_topic,
            group=self._group,
            transaction_timeout=self._access.transaction_timeout,
            sources=tuple(sources),
            fences=self._unfenced is None,
        )
