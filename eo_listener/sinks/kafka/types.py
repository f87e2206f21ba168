"""Makes Kafka records from rows, whose columns are those of Spark's Kafka sink. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from eo_listener.errors import SettingsError
from eo_listener.sinks.dead_letters import REASON
from eo_listener.sinks.kafka.catalog import Targets

TOPIC: Final = "topic"
PARTITION: Final = "partition"


class Record(NamedTuple):
    """One record for a producer, which chooses a partition by the key if `partition` is -1."""

    topic: str
    value: bytes | str | None
    key: bytes | str | None
    headers: list[tuple[str, str | bytes | None]] | None
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The columns that make the records: `value`, and optionally others of `_KINDS`."""

    names: tuple[str, ...]

    @classmethod
    def from_schema(cls, schema: pa.Schema, *, one_topic: bool) -> RecordColumns:
        """Choose the columns by name, and ignore all others.

        With `one_topic`, all rows go to the sink's only topic, so a column `topic` is ignored too.
        Raises SettingsError for a missing column, a wrong type, and names that differ only by case.
        """
        kinds = {field.name: field.type for field in schema if field.name in _KINDS}
        if one_topic:
            kinds.pop(TOPIC, None)
        _refuse_ambiguous(schema)
        if "value" not in kinds:
            raise SettingsError(
                f"the rows have no column 'value', only {', '.join(schema.names)}",
                cause="the columns key, value, headers, topic and partition make a record",
                fix='Add it, for example df.selectExpr("to_json(struct(*)) AS value")',
            )
        if not one_topic and TOPIC not in kinds:
            raise SettingsError(
                "the rows have no column 'topic', but the sink has several topics",
                fix="Add the column, or name one topic: KafkaSink(options, topic)",
            )
        for name, kind in kinds.items():
            fits, wanted = _KINDS[name]
            if not fits(kind):
                raise SettingsError(
                    f"the column {name!r} must be of type {wanted}, got {kind}",
                    fix=f"Cast it in the transform to {wanted}",
                )
        return cls(names=tuple(kinds))

    def pairs(self, rows: pa.RecordBatch) -> tuple[list[Any], list[Any]] | None:
        """Return the rows' values and keys if the records need no other columns, otherwise None."""
        if not {"value", "key"}.issuperset(self.names):
            return None
        cells = {name: rows.column(name).to_pylist() for name in self.names}
        return cells["value"], cells.get("key", [None] * rows.num_rows)

    def records(self, rows: pa.RecordBatch, targets: Targets) -> Iterator[Record | str]:
        """Yield for each row, in order, its record, or a text: the reason why it has no record."""
        cells = {name: rows.column(name).to_pylist() for name in self.names}
        only = targets.only
        empty = [None] * rows.num_rows
        for topic, value, key, headers, partition in zip(
            cells.get(TOPIC, empty),
            cells["value"],
            cells.get("key", empty),
            cells.get("headers", empty),
            cells.get(PARTITION, empty),
            strict=True,
        ):
            yield _record(only or topic, value, key, headers, partition, targets)


def _record(
    topic: str | None, value: Any, key: Any, headers: Any, partition: int | None, targets: Targets
) -> Record | str:
    if topic is None:
        return "its topic is null"
    target = targets.topics.get(topic)
    if target is None:
        return "its topic is not one of the sink's topics"
    if partition is not None and partition not in target.partitions:
        count = len(target.partitions)
        return f"its partition is {partition}, but topic {topic} has {count} partitions"
    pairs = None if headers is None else [_header(header) for header in headers]
    if pairs is not None and None in pairs:
        return "one of its headers is null, has no key, or has a NUL character in its key"
    return Record(topic, value, key, pairs, -1 if partition is None else partition)  # type: ignore[arg-type]  # no None among the pairs


def _header(header: Mapping[str, Any] | None) -> tuple[str, str | bytes | None] | None:
    if header is None or header["key"] is None or "\0" in header["key"]:
        return None  # librdkafka would cut the key at the NUL
    return header["key"], header["value"]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    element = kind.value_type
    if not pa.types.is_struct(element) or element.num_fields != 2:  # key and value
        return False
    parts = {field.name: field.type for field in (element.field(0), element.field(1))}
    return parts.keys() == {"key", "value"} and _is_text(parts["key"]) and _is_bytes(parts["value"])


def _refuse_ambiguous(schema: pa.Schema) -> None:
    for name in (*_KINDS, REASON):
        spellings = [column for column in schema.names if column.casefold() == name]
        if spellings and spellings != [name]:
            raise SettingsError(
                f"the rows have the columns {', '.join(map(repr, spellings))}, of which only "
                f"{name!r} could be used",
                cause="names are case-sensitive",
                fix=f"Keep one of them, as {name!r}",
            )


_KINDS: Final = {
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key: string, value: binary>>"),
    TOPIC: (_is_text, "string"),
    PARTITION: (lambda kind: bool(pa.types.is_int32(kind)), "int"),
}
