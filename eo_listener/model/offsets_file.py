"""The two formats of exported groups: Kafka's CSV, and a JSON format with more facts.

`kafka-consumer-groups --reset-offsets --from-file` reads the CSV: `topic,partition,offset` for one
group, `group,topic,partition,offset` for several (kafka-tools, CsvUtils). The CSV has neither topic
ids nor times, so its offsets are right only for the same cluster. The JSON, format 1:

    {"v":1,"servers","exported_at":ms,"groups":[{"group","partitions":[
        {"topic","partition","offset","topic_id","timestamp":ms,"metadata"}, ...]}, ...]}

`timestamp` is the time of the first record that the group has not read, or of the last record if
the group has read all records. With this time, an import finds the position in a copy of the topic
on another cluster. `topic_id` and `timestamp` are null if unknown.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from eo_listener.errors import FormatError
from eo_listener.offsets import TopicPartition

T = TypeVar("T")

FORMAT: Final = 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LONGEST: Final = 2**63 - 1
_MOST_PARTITIONS: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_PLAIN, _WITH_GROUP = 3, 4  # columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPartition:
    """The position of a group in one partition; times in milliseconds since 1970."""

    partition: TopicPartition
    offset: int
    topic_id: str | None = None
    timestamp: int | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedGroup:
    """One exported group; `group` is None if it comes from a CSV file that names no group."""

    group: str | None
    partitions: tuple[ExportedPartition, ...]


def write_csv(groups: Iterable[ExportedGroup]) -> str:
    """Return `groups` as Kafka's CSV, without the group's name if there is only one group."""
    groups = tuple(groups)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group in groups:
        first = () if len(groups) == 1 else (group.group,)
        writer.writerows((*first, *row.partition, row.offset) for row in group.partitions)
    return text.getvalue()


def write_json(groups: Iterable[ExportedGroup], *, servers: str, exported_at: int) -> str:
    """Return `groups` as JSON of format 1."""
    fields: dict[str, Any] = {"v": FORMAT, "servers": servers, "exported_at": exported_at}
    fields["groups"] = [
        {
            "group": group.group,
            "partitions": [
                {
                    "topic": exported.partition.topic,
                    "partition": exported.partition.partition,
                    "offset": exported.offset,
                    "topic_id": exported.topic_id,
                    "timestamp": exported.timestamp,
                    "metadata": exported.metadata,
                }
                for exported in group.partitions
            ],
        }
        for group in groups
    ]
    return json.dumps(fields, ensure_ascii=False, indent=1) + "\n"


def read_exported(text: str) -> tuple[ExportedGroup, ...]:
    """Parse the CSV or the JSON of groups. Raises FormatError, which names the line or field."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise _wrong("it is empty")
    groups = _read_json(text) if text.lstrip().startswith("{") else _read_csv(text)
    for name in _twice(group.group for group in groups):
        raise _wrong(f"group {name} appears twice")
    for group in groups:
        for tp in _twice(exported.partition for exported in group.partitions):
            raise _wrong(f"{tp} appears twice")
    return groups


def _read_csv(text: str) -> tuple[ExportedGroup, ...]:
    partitions: dict[str | None, list[ExportedPartition]] = {}
    try:
        lines = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise _wrong(f"it is not CSV: {error}") from None
    columns = None
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        columns = columns or len(line)
        if len(line) != columns or columns not in (_PLAIN, _WITH_GROUP):
            raise _wrong(
                f"line {number} has {len(line)} columns; a line must have topic,partition,offset "
                "or group,topic,partition,offset"
            )
        topic, partition, offset = (cell.strip() for cell in line[-_PLAIN:])
        if not _NUMBER.fullmatch(partition) or not _NUMBER.fullmatch(offset):
            raise _wrong(f"line {number}: partition and offset must be integers of at least 0")
        group = line[0] if columns == _WITH_GROUP else None
        exported = ExportedPartition(
            partition=_partition(topic, int(partition), f"line {number}"),
            offset=_offset(int(offset), f"line {number}"),
        )
        partitions.setdefault(group, []).append(exported)
    return tuple(ExportedGroup(group=name, partitions=tuple(of)) for name, of in partitions.items())


def _read_json(text: str) -> tuple[ExportedGroup, ...]:
    try:
        fields = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        raise _wrong("it is not JSON, or is truncated") from None
    version = fields.get("v")
    if version != FORMAT:
        raise FormatError(
            f"the file has format {version!r}, but this version reads format {FORMAT}"
            if version is not None
            else "the file does not name its format",
            cause="a newer eo-listener wrote it, or it is the wrong file",
            fix="Export the group again with this version. Pass offsets in Spark's form, "
            '{"topic":{"0":5}}, on the command line: --from-offsets',
        )
    try:
        return tuple(
            ExportedGroup(
                group=_group(group["group"]),
                partitions=tuple(map(_read_partition, group["partitions"])),
            )
            for group in fields["groups"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _wrong(f"a field is missing or has the wrong type ({error})") from None


def _group(name: Any) -> str:
    if not isinstance(name, str):
        raise _wrong("a group has no name")
    return name


def _read_partition(fields: Mapping[str, Any]) -> ExportedPartition:
    topic, number = fields["topic"], fields["partition"]
    where = f"{topic}-{number}"
    if not isinstance(topic, str) or not _is_number(number):
        raise _wrong(f"{where} is not a partition of a topic")
    timestamp, topic_id = fields.get("timestamp"), fields.get("topic_id")
    if timestamp is not None and not (_is_number(timestamp) and 0 <= timestamp <= _LONGEST):
        raise _wrong(f"{where}: its timestamp is not in milliseconds since 1970")
    if topic_id is not None and not isinstance(topic_id, str):
        raise _wrong(f"{where}: its topic id is not a string")
    return ExportedPartition(
        partition=_partition(topic, number, where),
        offset=_offset(fields["offset"], where),
        topic_id=topic_id,
        timestamp=timestamp,
        metadata=str(fields.get("metadata") or ""),
    )


def _partition(topic: str, number: int, where: str) -> TopicPartition:
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise _wrong(f"{where}: this is not a valid topic name")
    if not 0 <= number <= _MOST_PARTITIONS:
        raise _wrong(f"{where}: this is not a valid partition number")
    return TopicPartition(topic, number)


def _offset(offset: Any, where: str) -> int:
    if not _is_number(offset) or not 0 <= offset <= _LONGEST:
        raise _wrong(f"{where}: its offset is not an integer of at least 0")
    return int(offset)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name in _twice(name for name, _ in pairs):
        raise _wrong(f"{name} appears twice in one JSON object")
    return dict(pairs)


def _twice(names: Iterable[T]) -> Iterator[T]:
    earlier: set[T] = set()
    for name in names:
        if name in earlier:
            yield name
        earlier.add(name)


def _wrong(detail: str) -> FormatError:
    return FormatError(
        f"the file of offsets cannot be read: {detail}",
        cause="it was truncated or edited, or it is the wrong file",
        fix="Write it with `eo-listener group export`; a CSV line is topic,partition,offset",
    )
