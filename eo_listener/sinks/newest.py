"""Which of the rows with one key is the newest: one rule for every SQL store. Pure.

The greater version wins, where the user has named a column that tells it; of equal versions, or
without one, the greater offset of one partition. Kafka orders neither the records of two
partitions nor the rows that a transform makes of one record: such rows are tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.errors import SettingsError
from eo_listener.offsets import TopicPartition

ORIGIN: Final = ("topic", "partition", "offset")
STAGED_ORIGIN: Final = ("eo_topic", "eo_partition", "eo_offset")
"""Columns of staged rows: where each came from, in Kafka's types, whatever the table has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Places the staged rows of each key, the newest first.

    `keys` and `version` are as SQL writes them. `traced`: staged rows have STAGED_ORIGIN.
    """

    keys: tuple[str, ...]
    version: str | None
    traced: bool

    def place(self) -> str:
        """An expression for a row's place among those of its key, from 1."""
        order = [] if self.version is None else [f"{self.version} DESC"]
        if self.traced:
            order.append(f"{STAGED_ORIGIN[-1]} DESC")
        by = f" ORDER BY {', '.join(order)}" if order else ""
        return f"row_number() OVER (PARTITION BY {', '.join(self.keys)}{by})"

    def tied(self) -> str:
        """An expression for whether nothing tells a row's place beside another of its key."""
        among = [*self.keys, *([] if self.version is None else [self.version])]
        window = f"OVER (PARTITION BY {', '.join(among)})"
        several = f"count(*) {window} > 1"
        if not self.traced:
            return f"({several})"
        topic, partition, offset = STAGED_ORIGIN
        unlike = [
            *(f"count({one}) {window} < count(*) {window}" for one in STAGED_ORIGIN),
            *(f"min({one}) {window} < max({one}) {window}" for one in (topic, partition)),
            f"count(*) OVER (PARTITION BY {', '.join([*among, offset])}) > 1",
        ]
        return f"({several} AND ({' OR '.join(unlike)}))"


def tie(
    keys: Sequence[str], version: str | None, origin: Sequence[Any] | None, *, there: bool = False
) -> SettingsError:
    """Return the error for rows of which none is the newest; `there`: one is in the table.

    `origin` is where one of them came from, None where the rows do not tell.
    """
    same = ", ".join([*keys, *([] if version is None else [version])])
    where = ""
    if origin is not None and None not in origin:
        where = f" (one is from offset {origin[2]} of {TopicPartition(origin[0], origin[1])})"
    what = "a row of the batch and one in the table have" if there else "a batch has several rows"
    cause = "which of them is the newest cannot be told: "
    if origin is None:
        cause += "the rows do not say which offset they are from"
        fix = "Keep topic, partition and offset in the rows (the greatest offset wins), "
    else:
        cause += "they come from several partitions" + ("" if there else ", or from one record")
        fix = ""
    if version is None:
        fix += 'name a column that tells it (version_column="..."), '
    else:
        fix += f"give {version} values that differ, "
    fix += "or keep one row for each key in the transform"
    return SettingsError(
        f"{what} {'' if there else 'with '}the same {same}{where}",
        cause=cause,
        fix=fix[0].upper() + fix[1:],
    )


def unordered(version: str, kind: str) -> SettingsError:
    """Return the error for a version column of a type that not every store orders alike."""
    return SettingsError(
        f"version_column={version!r} is {kind}",
        cause="only whole numbers, dates and timestamps have the same order in every store",
        fix="Cast it in the transform (to long, or to timestamp), in the table too",
    )
