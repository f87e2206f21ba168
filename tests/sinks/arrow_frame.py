"""A frame without Spark: Arrow's record batches, which a sink takes for those of Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from eo_listener.foreach_batch.batch_runner import Frames

_ARROW = {
    "boolean": pa.bool_(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(38,18)": pa.decimal128(38, 18),
}
_SPARK = {pa.null(): "void"} | {kind: name for name, kind in _ARROW.items()}
_SQL = {"int": "integer", "bigint": "long", "smallint": "short"}


class ArrowFrame:
    """Columns by the names of Spark's types; `batches` makes the rows whenever they are read."""

    _jdf = None

    def __init__(
        self, fields: Mapping[str, str], batches: Callable[[], Iterable[pa.RecordBatch]]
    ) -> None:
        self.columns = list(fields)
        self._fields = fields
        self._batches = batches

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> ArrowFrame:
        return cls({field.name: _SPARK[field.type] for field in rows.schema}, lambda: [rows])

    @classmethod
    def rows(cls, columns: str, *rows: tuple[Any, ...]) -> ArrowFrame:
        """Make one of rows; `columns` is as in SQL, `id int, v string`."""
        fields = dict(one.split() for one in columns.split(", "))
        fields = {name: _SQL.get(kind, kind) for name, kind in fields.items()}
        values = zip(*rows, strict=True) if rows else [()] * len(fields)
        arrays = [
            pa.array(column, _ARROW[kind])
            for column, kind in zip(values, fields.values(), strict=True)
        ]
        return cls(fields, lambda: [pa.RecordBatch.from_arrays(arrays, list(fields))])

    # What a sink asks a DataFrame, its session and the session's client.

    @property
    def sparkSession(self) -> ArrowFrame:  # noqa: N802  # pyspark's name
        return self

    schema = _session = client = conf = _plan = sparkSession

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802  # pyspark's name
        known = {"nullable": True, "metadata": {}}
        fields = [{"name": name, "type": kind, **known} for name, kind in self._fields.items()]
        return {"fields": fields, "type": "struct"}

    def get(self, name: str, default: str) -> str:
        return default

    def to_proto(self, client: object) -> object:
        return None

    def to_table_as_iterator(self, *_: object) -> Iterator[pa.Table]:
        for batch in self._batches():
            yield pa.Table.from_batches([batch])


class ArrowFrames(Frames):
    def is_frame(self, made: Any) -> bool:
        return isinstance(made, ArrowFrame)

    def has_shuffle(self, frame: ArrowFrame) -> bool:
        return False

    def cached(self, frame: ArrowFrame) -> AbstractContextManager[None]:
        return nullcontext()

    def computed(
        self, frame: ArrowFrame, source: ArrowFrame, plan: Any
    ) -> AbstractContextManager[ArrowFrame]:
        return nullcontext(frame)

    def discard(self, frame: ArrowFrame) -> None:
        pass
