"""The dead letters of an Iceberg table, which are in a separate table.

One commit cannot change two tables. So the sink first writes the letters of a batch to a branch of
the letters' table, which nobody reads. The commit that publishes the batch names that branch, next
to the ledger. Then the sink publishes the branch too. If the sink dies before that, the next sink
that reads the ledger, after a restart or before a batch, publishes the pending letters. So one
commit decides about batch and letters. A batch that was never published, such as the batch of a
zombie or of an earlier attempt, leaves no letter; a published batch loses no letter.

The table of letters has its own ledger for each table and query, which counts the batches with
letters. If this count is at least the number of a batch, that batch's letters are published.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import NullType, StringType, StructField, StructType

from eo_listener.errors import FormatError, JvmError, RetriableSinkError, SettingsError, SinkError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.dead_letters import REASON, DeadLetter, Refusals
from eo_listener.sinks.iceberg import catalog
from eo_listener.sinks.iceberg.connection import check_wap, find, has_files_of
from eo_listener.sinks.iceberg.errors import is_refusal, translating, unanswered
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import TableName, is_branch_of, new_branch
from eo_listener.sinks.iceberg.publication import TRIES, Append, Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.kept_rows import keep_rows
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_columns import holds
from eo_listener.sinks.spark_merge import EXACT, is_uuid
from eo_listener.sinks.spark_names import quoted
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.iceberg_table import IcebergTable, MainMovedError, session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eo_listener.sinks.target import WriteRules


_VERSION: Final = 1

logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersOfBatch:
    """The place of a batch's dead letters: a branch of a table, and a number in the table's ledger.

    `owner` is the name of the query in that ledger.
    """

    table: str
    owner: str
    branch: str
    number: int

    def encode(self) -> str:
        """Return the place as JSON (format 1), for the summary of the snapshot with the batch."""
        return json.dumps({"v": _VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> LettersOfBatch:
        """Read a place from a text that `encode` has returned. Raises FormatError."""
        try:
            document = json.loads(text)
            if document["v"] == _VERSION:
                return cls(
                    table=str(document["table"]),
                    owner=str(document["owner"]),
                    branch=str(document["branch"]),
                    number=int(document["number"]),
                )
            error: Exception | None = None
        except (KeyError, TypeError, ValueError) as wrong:
            error = wrong
        raise FormatError(
            f"a commit's record of its dead letters does not have format {_VERSION}",
            cause="another program or a newer release of eo_listener wrote it",
            fix="Use that release here too",
        ) from error


class DeadLetterTables:
    """Writes and publishes the dead letters of a sink, whose name for display is `label`.

    `accept_expired` is True if the sink has `on_expired="accept"`. Every method may raise the
    errors of `Sink.apply`.
    """

    def __init__(self, label: str, *, accept_expired: bool) -> None:
        self._label = label
        self._accept_expired = accept_expired
        self._made: str | None = None
        self._published: str | None = None
        self._ledgers: dict[str, PublishedLedgers] = {}

    def make(self, name: TableName, letters: DataFrame, *, create: bool) -> None:
        """Create the dead-letter table if it does not exist, before a batch may need it."""
        if self._made != name.key:
            with translating(name.label):
                self._table(letters.sparkSession, name, letters, create=create)
            self._made = name.key

    def stage(
        self, name: TableName, letters: DataFrame, entry: Entry, owner: str, *, create: bool
    ) -> LettersOfBatch:
        """Write the dead letters to a branch, which `publish` publishes later.

        Returns the place of these letters.
        """
        spark = letters.sparkSession
        with translating(name.label):
            table = self._table(spark, name, letters, create=create)
            columns, schema = catalog.matched(spark, name, letters, new_columns=False)
            rows = catalog.fitted(letters, columns, schema)
            ledgers = self._ledgers_of(name, spark)
            last = ledgers.published(table, owner, accept_expired=True).ledger.number
        staged = Publication(
            label=name.label,
            table=table,
            ledgers=ledgers,
            rows=Append(name, rows),
            entry=Entry(
                query=owner,
                query_id=entry.query_id,
                run_id=entry.run_id,
                batch_id=entry.batch_id,
                moves={},
            ),
            # An unused number is enough: earlier letters need not be in the table any longer.
            accept_expired=self._accept_expired or last > 0,
        ).stage()
        number = LedgerText.decode(staged.ledger).number
        return LettersOfBatch(table=name.key, owner=owner, branch=staged.branch, number=number)

    def drop(self, letters: LettersOfBatch, spark: Any) -> None:
        """Drop the dead letters of a batch that was not published."""
        name = TableName.parse(letters.table)
        try:
            table = find(spark, name)
            if table is not None and letters.branch in table.branches:
                table.drop_branch(letters.branch)
        except (ThrownError, JvmError, SettingsError) as error:
            logger.warning(
                "%s: branch %s of a failed batch is kept until the next batch with dead letters: "
                "%s",
                name.label,
                letters.branch,
                type(error).__name__,
            )

    def publish(self, text: str, run_id: str, spark: Any = None) -> None:
        """Publish the dead letters of a published batch if they are not published yet.

        `text` is the place of the letters, as `LettersOfBatch.encode` returns it.
        """
        if text == self._published:
            return
        try:
            letters = LettersOfBatch.decode(text)
        except FormatError as error:
            raise error.as_kind(SinkError, label=self._label) from error
        name = TableName.parse(letters.table)
        with translating(name.label):
            spark = session(name.parts[0], spark)
            table = find(spark, name)
            ledgers = self._ledgers_of(name, spark)
            for _ in range(TRIES):
                if table is None:
                    self._refuse_lost(letters)
                if (
                    table is None
                    or self._is_published(table, ledgers, letters)
                    or self._move_main(table, ledgers, letters, run_id)
                ):
                    self._published = text
                    return
        raise RetriableSinkError(
            f"{name.label}: other commits came first while dead letters were being published",
            cause="other programs write to the table, or compact it, at the same time",
            fix="Nothing to do: the sink retries this",
        )

    def _is_published(
        self, table: IcebergTable, ledgers: PublishedLedgers, letters: LettersOfBatch
    ) -> bool:
        table.refresh()
        # To publish letters drops the branches of earlier ones, which proves what has expired.
        accept = self._accept_expired or letters.number > 1
        published = ledgers.published(table, letters.owner, accept_expired=accept)
        return published.ledger.number >= letters.number

    def _move_main(
        self, table: IcebergTable, ledgers: PublishedLedgers, letters: LettersOfBatch, run_id: str
    ) -> bool:
        """Move main to the branch of `letters`; return False if other commits came first."""
        at = table.branches.get(letters.branch)
        head = None if at is None else ledgers.read(table, at)
        if head is None or head.ledger is None or head.ledger.number != letters.number:
            self._refuse_lost(letters)
            return True
        drop = [
            name
            for name in table.branches
            if is_branch_of(letters.owner, name) and name != letters.branch
        ]
        try:
            if table.main is None or table.main == head.parent:
                table.publish(letters.branch, at=table.main, drop=drop)
            else:
                table.publish_again(
                    letters.branch,
                    new_branch(letters.owner, run_id),
                    at=table.main,
                    drop=drop,
                    summary={PROPERTY: head.ledger.encode()},
                )
        except MainMovedError:
            return False
        except ThrownError as error:
            if not is_refusal(error):
                raise unanswered(error, TableName.parse(letters.table).label) from error
            return False
        return True

    def _table(
        self, spark: Any, name: TableName, letters: DataFrame, *, create: bool
    ) -> IcebergTable:
        table = find(spark, name)
        if table is None:
            plan = catalog.Creation(create=create, partition_by=(), properties={})
            table = catalog.make(spark, name, letters, plan)
        check_wap(spark, table, name.label)
        return table

    def _ledgers_of(self, name: TableName, spark: Any) -> PublishedLedgers:
        """Return the object that finds the ledgers of the table `name`, and keeps its snapshots."""
        if name.key not in self._ledgers:
            label, catalog_name = name.label, name.parts[0]
            self._ledgers[name.key] = PublishedLedgers(
                label,
                lambda snapshot: has_files_of(session(catalog_name, spark), name, label, snapshot),
            )
        return self._ledgers[name.key]

    def _refuse_lost(self, letters: LettersOfBatch) -> None:
        if self._accept_expired:
            return
        raise SinkError(
            f"{self._label}: the dead letters of the last batch are not in {letters.table}, and "
            f"their branch {letters.branch} is gone",
            cause="the dead-letter table was dropped, replaced or rolled back, or that branch "
            "was dropped",
            fix='To continue without them, pass on_expired="accept" for one start',
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """The `rows` of a batch to write, and its `refused` rows, with the reason in eo_poison."""

    rows: DataFrame
    refused: DataFrame
    dead: int

    def letters(self, entry: Entry, now: datetime) -> DataFrame:
        """Return the refused rows as rows of a dead-letter table."""
        names = [name for name in self.refused.columns if name != REASON]
        batch = {
            "query": F.lit(entry.query),
            "query_id": F.lit(entry.query_id),
            "run_id": F.lit(entry.run_id),
            "batch_id": F.lit(entry.batch_id).cast("bigint"),
        }
        kinds = zip(ORIGIN, ("string", "int", "bigint"), strict=True)
        origin = {name: _origin(name, names).cast(kind).alias(name) for name, kind in kinds}
        row = F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), EXACT)
        return self.refused.select(
            *(column.alias(name) for name, column in batch.items()),
            *origin.values(),
            F.col(REASON).alias("reason"),
            row.alias("row"),
            F.lit(now).alias("put_at"),
        )


@contextmanager
def sifted(frame: DataFrame, reasons: Sequence[Column], refusals: Refusals) -> Iterator[Sifted]:
    """Compute the rows of `frame` once, and separate the rows to write from the rows to refuse.

    Each of `reasons` is a column with a reason to refuse the row, or null. Since Spark computes the
    rows once, each row is either written or refused, even if the transform is not deterministic. If
    `reasons` is empty, no row is refused, and Spark does not compute the rows here. Raises
    PoisonRowError if more rows are refused than `refusals` allow.
    """
    if not reasons:
        none = frame.where(F.lit(False)).withColumn(REASON, F.lit(None).cast("string"))
        yield Sifted(rows=frame, refused=none, dead=0)
        return
    reason = F.coalesce(*reasons, F.lit(None).cast("string"))
    with keep_rows(frame.withColumn(REASON, reason)) as computed:
        ((total, dead),) = computed.agg(F.count(F.lit(1)), F.count(REASON)).collect()
        refused = computed.where(F.col(REASON).isNotNull())
        if not refusals.limit.allows(dead, total):
            _count(refused, refusals, dead)
            refusals.check(total)
        rows = computed.where(F.col(REASON).isNull()).drop(REASON)
        yield Sifted(rows=rows, refused=refused, dead=dead)


def marks(frame: DataFrame) -> list[Column]:
    """Return the column with the transform's marks, if the frame has one.

    Raises SettingsError if it is not a column of texts.
    """
    if REASON not in frame.columns:
        return []
    kind = frame.schema[REASON].dataType
    if not isinstance(kind, StringType | NullType):
        raise SettingsError(
            f"the column {REASON} holds {kind.simpleString()}, not text",
            fix="Set it to the reason as a string, and to null if the row is fine",
        )
    return [F.col(REASON).cast("string")]


def flaws(
    frame: DataFrame,
    columns: Sequence[str],
    schema: StructType,
    target: WriteRules,
    uuids: Sequence[str],
) -> list[Column]:
    """Return the reasons why a table with this schema would refuse the `columns` of a row.

    A reason is a null in a key, in the version, or in a required column, a number that the table's
    column cannot hold, or a text that is not a UUID in one of the columns `uuids`. If a row deletes
    the table's row, the function checks only its keys and version.
    """
    version = [] if target.version_column is None else [target.version_column]
    reasons = [
        F.when(F.col(quoted(name)).isNull(), F.lit(f"{role} {name!r} is null"))
        for role, names in (("key", target.keys), ("version", version))
        for name in names
        if name in frame.columns
    ]
    deletes = F.lit(False)
    if target.delete_when is not None:
        deletes = F.coalesce(F.expr(target.delete_when).cast("boolean"), F.lit(False))
    for name in uuids:
        needed = F.lit(True) if name in target.keys else ~deletes
        reason = F.lit(f"column {name!r} is not a UUID")
        reasons.append(F.when(~is_uuid(F.col(quoted(name))) & needed, reason))
    for name in columns:
        reasons += _flaws_of(frame.schema[name], schema[name], deletes)
    return reasons


def _flaws_of(source: StructField, target: StructField, deletes: Column) -> Iterator[Column]:
    column = F.col(quoted(source.name))
    if not target.nullable:
        reason = f"column {source.name!r} is null, which the table does not allow"
        yield F.when(column.isNull() & ~deletes, F.lit(reason))
    if not holds(target.dataType, source.dataType):  # a number: `check_columns` refuses the rest
        name, kind = quoted(source.name), source.dataType.simpleString()
        wanted = target.dataType.simpleString()
        fits = F.expr(f"try_cast(try_cast({name} AS {wanted}) AS {kind}) <=> {name}")
        reason = f"column {source.name!r} holds a number that {wanted} cannot"
        yield F.when(~fits & ~deletes, F.lit(reason))


def _origin(name: str, names: Sequence[str]) -> Column:
    return F.col(quoted(name)) if name in names else F.lit(None)


def _count(refused: DataFrame, refusals: Refusals, dead: int) -> None:
    """Give `refusals` the first refused row and the most frequent reason, for its error text."""
    names = refused.columns
    origin = [_origin(name, names).alias(name) for name in ORIGIN]
    first = refused.select(*origin, REASON).orderBy(*ORIGIN).limit(1).collect()
    often = refused.groupBy(REASON).count().orderBy(F.desc("count"), REASON).limit(1).collect()
    refusals.count = dead
    for *row_origin, reason in first:
        refusals.first = DeadLetter.from_origin(row_origin, reason)
    refusals.reasons = Counter(dict(map(tuple, often)))
