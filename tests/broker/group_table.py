"""The table that Kafka's ConsumerGroupCommand prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eo_listener.model.errors import FormatError

_ROW = re.compile(
    r"(?P<topic>\S+)\s+(?P<partition>\d+|-)\s+(?P<current>-?\d+|-)\s+(?P<end>-?\d+|-)"
    r"\s+(?P<lag>-?\d+|-)\s+(?P<consumer>\S.*?)\s+(?P<host>/\S+|-)\s+(?P<client>\S.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One partition of a group as `--describe` shows it; None stands where it prints `-`."""

    group: str
    topic: str
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def parse_rows(text: str) -> tuple[GroupRow, ...]:
    """Read what `--describe` printed. Raises FormatError for a row of another form."""
    rows = []
    for group, rest in _table(text):
        match = _ROW.fullmatch(rest)
        if match is None:
            raise FormatError(f"expected a row of kafka-consumer-groups --describe, got {rest!r}")
        rows.append(
            GroupRow(
                group=group,
                topic=match["topic"],
                partition=_number(match["partition"]),
                current_offset=_number(match["current"]),
                log_end_offset=_number(match["end"]),
                lag=_number(match["lag"]),
                consumer_id=_text(match["consumer"]),
                host=_text(match["host"]),
                client_id=_text(match["client"]),
            )
        )
    return tuple(rows)


def _table(text: str) -> list[tuple[str, str]]:
    """Split each row into its group, which may hold spaces, and the rest.

    The group's column is as wide as the head says: Kafka pads it to the longest name.
    """
    rows: list[tuple[str, str]] = []
    width = None
    for line in text.splitlines():
        if line.startswith("GROUP ") and "TOPIC" in line:
            width = line.index("TOPIC")
        elif not line.strip():
            continue
        elif width is not None:
            rows.append((line[:width].strip(), line[width:].strip()))
    return rows


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _text(text: str) -> str | None:
    return None if text in ("-", "") else text
