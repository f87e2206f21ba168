"""What an upsert must leave behind, said once more in Python: the stores are compared with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from eo_listener.errors import SettingsError
from eo_listener.model.ledger import Applied
from tests.sinks.chapters.target_table import ORIGIN

REFUSED = 100
"""The tables of these tests take values below it only."""

KINDS = {"k": "integer", "version": "long", "v": "integer", **ORIGIN}


class Row(NamedTuple):
    """A row of a batch, in the order of KINDS."""

    k: int
    version: int
    v: int
    topic: str
    partition: int
    offset: int


class TiedError(Exception):
    """Which row is the newest cannot be determined."""


@dataclass
class Model:
    """A table; `versioned`: by version_column, `located`: with topic, partition and offset."""

    versioned: bool
    located: bool
    rows: dict[int, Row] = field(default_factory=dict)

    def upsert(self, batch: Sequence[Row]) -> tuple[int, int]:
        """Apply a batch, as a whole or not at all; how many rows were written and refused."""
        there, written, dead = dict(self.rows), 0, 0
        for _, same in groupby(sorted(batch), key=lambda row: row.k):
            one_key = sorted(same, key=self._order, reverse=True)
            for row in one_key:
                self._refuse_tie(row, one_key)
                if row.v >= REFUSED:
                    dead += 1
                    continue
                if self._replaces(row, there.get(row.k)):
                    there[row.k] = row
                    written += 1
                break
        self.rows = there
        return written, dead

    def _order(self, row: Row) -> tuple[int, int, int]:
        return (row.version if self.versioned else 0, row.offset, row.partition)

    def _refuse_tie(self, row: Row, one_key: Sequence[Row]) -> None:
        like = [one for one in one_key if one.version == row.version or not self.versioned]
        if len({one[:3] for one in like}) == 1:
            return
        sources = {(one.topic, one.partition) for one in like}
        if len(sources) > 1 or sum(one.offset == row.offset for one in like) > 1:
            raise TiedError

    def _replaces(self, row: Row, old: Row | None) -> bool:
        if old is None or not self.versioned or row.version > old.version:
            return True
        if row.version < old.version:
            return False
        if self.located and (old.topic, old.partition) != (row.topic, row.partition):
            if old[:3] != row[:3]:
                raise TiedError
            return False
        return not self.located or row.offset >= old.offset


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Some batches with few keys and versions, whose offsets go on from batch to batch."""
    rows = st.builds(
        Row,
        k=st.integers(0, 2),
        version=st.integers(0, 2),
        v=st.sampled_from([1, 2, 3, REFUSED]),
        topic=st.just("flights"),
        partition=st.sampled_from([0, 0, 0, 1]),
        offset=st.integers(0, 5),
    )
    drawn = draw(st.lists(st.lists(rows, max_size=6), min_size=1, max_size=3))
    return [
        [row._replace(offset=row.offset + 10 * number) for row in batch]
        for number, batch in enumerate(drawn)
    ]


def without_refused(drawn: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """For a table that takes any value, of batches that have rows."""
    return [[row._replace(v=min(row.v, REFUSED - 1)) for row in rows] for rows in drawn if rows]


def compare(
    model: Model,
    drawn: Sequence[Sequence[Row]],
    put: Callable[[Sequence[Row]], Applied],
    read: Callable[[], list[tuple[Any, ...]]],
    *,
    counts: bool,
) -> None:
    """Give both each batch; what they hold, refuse and, with `counts`, count is the same."""
    for batch in drawn:
        try:
            wanted = model.upsert(batch)
        except TiedError:
            with pytest.raises(SettingsError, match="same k"):
                put(batch)
        else:
            done = put(batch)
            assert not counts or (done.rows, done.dead_letters) == wanted
        assert read() == sorted(row[:3] for row in model.rows.values())
