"""Rows of a batch that a table of Spark's can take, and those that it cannot, with the reason.

Spark computes the rows once, so that each is one or the other, whatever the transform does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import NullType, NumericType, StringType, StructField, StructType

from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.dead_letter_limit import Refusals
from eo_listener.sinks.dead_letters import REASON, DeadLetter
from eo_listener.sinks.kept_rows import kept
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_columns import is_wider, quoted
from eo_listener.sinks.spark_merge import EXACT, UpsertTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """`rows` can be written; `refused` cannot, there are `dead` of them, and eo_poison says why."""

    rows: DataFrame
    refused: DataFrame
    dead: int

    def letters(self, entry: Entry, now: datetime) -> DataFrame:
        """The refused rows as those of a dead-letter table."""
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
    """Compute the rows of `frame`, and sift them: each of `reasons` is null where it is none.

    Without any reason they are left as they are. Raises PoisonRowError where more are refused than
    `refusals` allow.
    """
    if not reasons:
        none = frame.where(F.lit(False)).withColumn(REASON, F.lit(None).cast("string"))
        yield Sifted(rows=frame, refused=none, dead=0)
        return
    why = F.coalesce(*reasons, F.lit(None).cast("string"))
    with kept(frame.withColumn(REASON, why)) as computed:
        ((total, dead),) = computed.agg(F.count(F.lit(1)), F.count(REASON)).collect()
        refused = computed.where(F.col(REASON).isNotNull())
        if not refusals.limit.allows(dead, total):
            _count(refused, refusals, dead)
            refusals.check(total)
        rows = computed.where(F.col(REASON).isNull()).drop(REASON)
        yield Sifted(rows=rows, refused=refused, dead=dead)


def marks(frame: DataFrame) -> list[Column]:
    """What the transform has marked. Raises SettingsError for a mark that is no text."""
    if REASON not in frame.columns:
        return []
    kind = frame.schema[REASON].dataType
    if not isinstance(kind, StringType | NullType):
        raise SettingsError(
            f"the column {REASON} holds {kind.simpleString()}, not text",
            fix="Give it the reason as a string, and null where the row is fine",
        )
    return [F.col(REASON).cast("string")]


def flaws(
    frame: DataFrame, columns: Sequence[str], there: StructType, target: UpsertTarget
) -> list[Column]:
    """What a table of the schema `there` does not take of these columns.

    A null in a key, in the version, or in a column that it requires; a number that its column
    cannot hold. Of a row that deletes only the key and the version count.
    """
    version = [] if target.version_column is None else [target.version_column]
    found = [
        F.when(F.col(quoted(name)).isNull(), F.lit(f"{what} {name!r} is null"))
        for what, names in (("key", target.keys), ("version", version))
        for name in names
        if name in frame.columns
    ]
    deletes = F.lit(False)
    if target.delete_when is not None:
        deletes = F.coalesce(F.expr(target.delete_when).cast("boolean"), F.lit(False))
    for name in columns:
        found += _flaws_of(frame.schema[name], there[name], deletes)
    return found


def _flaws_of(given: StructField, there: StructField, deletes: Column) -> Iterator[Column]:
    column = F.col(quoted(given.name))
    if not there.nullable:
        why = f"column {given.name!r} is null, which the table does not take"
        yield F.when(column.isNull() & ~deletes, F.lit(why))
    kinds = given.dataType.simpleString(), there.dataType.simpleString()
    both = isinstance(given.dataType, NumericType) and isinstance(there.dataType, NumericType)
    if both and kinds[0] != kinds[1] and not is_wider(kinds[1], kinds[0]):
        fits = F.expr(f"try_cast({quoted(given.name)} AS {kinds[1]})").isNotNull()
        why = f"column {given.name!r} holds a number that {kinds[1]} cannot"
        yield F.when(column.isNotNull() & ~fits & ~deletes, F.lit(why))


def _origin(name: str, names: Sequence[str]) -> Column:
    return F.col(quoted(name)) if name in names else F.lit(None)


def _count(refused: DataFrame, refusals: Refusals, dead: int) -> None:
    """Have the error name the first of them, and the most frequent reason."""
    names = refused.columns
    origin = [_origin(name, names).alias(name) for name in ORIGIN]
    first = refused.select(*origin, REASON).orderBy(*ORIGIN).limit(1).collect()
    often = refused.groupBy(REASON).count().orderBy(F.desc("count"), REASON).limit(1).collect()
    refusals.count = dead
    for one in first:
        refusals.first = _letter(one)
    refusals.reasons = Counter(dict(map(tuple, often)))


def _letter(found: Any) -> DeadLetter:
    topic, partition, offset, reason = found
    return DeadLetter(topic=topic, partition=partition, offset=offset, reason=reason, row="")
