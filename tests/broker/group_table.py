"""The table that Kafka's own kafka-consumer-groups prints."""

from __future__ import annotations

import re
from typing import NamedTuple

_ROW = re.compile(r"(\S+)\s+(\d+|-)\s+(-?\d+|-)\s+(-?\d+|-)\s+(-?\d+|-)\s+(\S.*?)\s+(/\S+|-)\s+.+")


class GroupRow(NamedTuple):
    """One partition of a group as `--describe` shows it; None stands for its `-`."""

    group: str
    topic: str
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None


def parse_rows(text: str) -> tuple[GroupRow, ...]:
    rows = []
    width = None  # of the group's column, since its name may hold spaces
    for line in text.splitlines():
        if line.startswith("GROUP ") and "TOPIC" in line:
            width = line.index("TOPIC")
        elif width is not None and line.strip():
            cells = _ROW.fullmatch(line[width:].strip())
            assert cells is not None, line
            numbers = (None if cell == "-" else int(cell) for cell in cells.groups()[1:5])
            rows.append(GroupRow(line[:width].strip(), cells[1], *numbers))
    return tuple(rows)
