"""Rows that cannot be written: put aside with their batch, in every store that has dead letters."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest

from eo_listener.errors import EoListenerError, PoisonRowError, SettingsError
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.target_table import KINDS, TP, Row, TargetTable, columns_of, row

MARKED = {**KINDS, "eo_poison": "string"}
HIDDEN = "hid7q"
_COUNT = 4


def marked(first: int, count: int = _COUNT, odd: int = 1, reason: str = "odd") -> list[Row]:
    """Rows from the offset `first` on, of which the last `odd` are marked."""
    return [
        row(at, HIDDEN, at, eo_poison=reason if at >= first + count - odd else None)
        for at in range(first, first + count)
    ]


class DeadLettersChapter(TargetTable):
    """Derive `Test...` from it and from a store."""

    mode = "append"
    letters_table = "bad; rows"
    last_point = "sink.ledger-moved"
    """A fault point before the commit, when rows and letters are written."""

    knows_origins = True
    """Whether a letter and an error name the offset of the row."""

    def letters(self) -> list[dict[str, Any]]:
        """Return what another connection sees of the dead letters; nothing without a table."""
        raise NotImplementedError

    def letter_sink(self, **arguments: Any) -> Any:
        return self.mode_sink(dead_letters=self.letters_table, **arguments)

    def mode_sink(self, **arguments: Any) -> Any:
        keys = {"mode": "upsert", "keys": "id"} if self.mode == "upsert" else {}
        return self.sink(**{**keys, **arguments})

    def offsets(self) -> list[tuple[Any, str]]:
        return sorted((one["offset"], one["reason"]) for one in self.letters())

    def check_place(self, error: PoisonRowError, offset: int) -> None:
        """Compare where an error says that its row is from."""
        place = (TP, offset) if self.knows_origins else (None, None)
        assert (error.partition, error.offset) == place

    def check_hidden(self, error: Exception, value: str = HIDDEN) -> None:
        """See that no log has a value of the rows."""
        assert value not in "".join(traceback.format_exception(error))

    def test_rows_that_are_marked_are_put_aside(self) -> None:
        """An empty reason is one too; a letter tells origin, reason, batch, time and contents."""
        sink = self.letter_sink()
        assert self.put(sink, marked(0, odd=0), MARKED).dead_letters == 0
        rows = [
            row(4, "e", 4, eo_poison=None),
            row(5, "f", 5, eo_poison="no such\tairport \\ 'x'"),
            row(6, "g", 6, eo_poison=""),
            row(7, "h", 7, eo_poison=None),
        ]
        done = self.put(sink, rows, MARKED)
        assert (done.rows, done.dead_letters) == (2, 2)
        assert self.read("word") == [("e",), ("h",), *[(HIDDEN,)] * _COUNT]
        letters = sorted(self.letters(), key=lambda one: -len(one["reason"]))
        for one, of in zip(letters, rows[1:3], strict=True):
            origin = ("topic", "partition", "offset")
            given = {name: of[name] if self.knows_origins else None for name in origin}
            contents = {name: of[name] for name in columns_of(rows, KINDS)}
            assert json.loads(one.pop("row")) == contents
            assert one.pop("put_at") is not None
            assert one == {
                "query": QUERY,
                "query_id": "query-1",
                "run_id": "run-1",
                "batch_id": 1,
                "reason": of["eo_poison"],
                **given,
            }

    def test_without_a_table_for_them_the_batch_fails(self) -> None:
        """The first is named by origin and reason, without a value, and nothing is written."""
        sink = self.mode_sink()
        with pytest.raises(PoisonRowError, match="odd") as refused:
            self.put(sink, marked(0, odd=2), MARKED)
        self.check_place(refused.value, 2)
        self.check_hidden(refused.value)
        assert self.read("word") == []
        assert sink.applied(QUERY) == {}
        with pytest.raises(PoisonRowError, match="odd") as refused:
            self.put(sink, [{"id": 1, "word": "a", "eo_poison": "odd"}], MARKED)
        assert refused.value.partition is None

    @pytest.mark.parametrize(
        ("most", "odd", "count", "fits"),
        [(2, 2, 4, True), (1, 2, 4, False), (0.5, 6, 12, True), (1.0, 12, 12, False)],
    )
    def test_over_the_limit_nothing_is_written(
        self, most: float, odd: int, count: int, fits: bool
    ) -> None:
        """No dead letter either; the error has the numbers and the first row, without a value."""
        sink = self.letter_sink(max_dead_letters=most)
        self.put(sink, marked(0, odd=0), MARKED)
        before = dict(sink.applied(QUERY))
        rows = marked(_COUNT, count, odd)
        if fits:
            assert self.put(sink, rows, MARKED).dead_letters == len(self.letters()) == odd
            return
        with pytest.raises(PoisonRowError, match="odd") as refused:
            self.put(sink, rows, MARKED)
        self.check_place(refused.value, _COUNT + count - odd)
        assert f"{odd} rows" in str(refused.value) or "every row" in str(refused.value)
        self.check_hidden(refused.value)
        assert (len(self.read("word")), self.letters()) == (_COUNT, [])
        assert dict(sink.applied(QUERY)) == before

    def test_they_are_written_with_their_batch(self) -> None:
        """A batch that is not committed leaves no letters; a committed one has each once."""
        with broken_off(self.last_point), pytest.raises(Killed):
            self.put(self.letter_sink(), marked(0), MARKED)
        assert self.letters() == []
        self.put(self.letter_sink(), marked(0), MARKED)
        assert [reason for _, reason in self.offsets()] == ["odd"]

    @pytest.mark.parametrize("kinds", [{"eo_poison": "integer"}, {"EO_POISON": "string"}])
    def test_what_is_no_mark_is_refused(self, kinds: dict[str, str]) -> None:
        """A number is a mistake of the transform, and so is a mark in another case."""
        (name,) = kinds
        with pytest.raises(SettingsError, match=name):
            self.put(self.letter_sink(), [{**row(1, "a", 0), name: None}], {**KINDS, **kinds})


class RefusedRowsChapter(DeadLettersChapter):
    """What holds where a table refuses rows by itself, and has upserts."""

    refusal: type[EoListenerError] = PoisonRowError
    """What a row raises that a table refuses, without a table for it."""

    def test_a_row_that_the_table_refuses_is_put_aside(self) -> None:
        """The others are written; without a table for it the batch fails, and no value is told."""
        self.make_table(KINDS, key="id", required="word")
        rows = [row(1, "a", 0), row(424242, None, 1), row(3, "c", 2)]
        with pytest.raises(self.refusal) as refused:
            self.put(self.mode_sink(), rows)
        if isinstance(refused.value, PoisonRowError):
            self.check_place(refused.value, 1)
        self.check_hidden(refused.value, "424242")
        done = self.put(self.letter_sink(), rows)
        assert (done.rows, done.dead_letters) == (2, 1)
        assert self.read("word") == [("a",), ("c",)]
        ((offset, reason),) = self.offsets()
        assert offset == 1
        assert "word" in reason

    @pytest.mark.parametrize(("most", "fits"), [(2, True), (1, False)])
    def test_what_a_table_refuses_counts_for_the_limit(self, most: int, fits: bool) -> None:
        """As what is marked does: nothing is written of a batch with more."""
        self.make_table(KINDS, key="id", required="word")
        sink = self.letter_sink(max_dead_letters=most)
        refused = [row(424240 + offset, None, offset) for offset in (2, 3)]
        rows = [row(0, "a", 0), row(1, "b", 1), *refused]
        if fits:
            assert self.put(sink, rows).dead_letters == 2
            return
        with pytest.raises(PoisonRowError, match="word") as failed:
            self.put(sink, rows)
        self.check_place(failed.value, 2)
        self.check_hidden(failed.value, "42424")
        assert (self.read("word"), self.letters(), sink.applied(QUERY)) == ([], [], {})

    def test_in_an_upsert_the_next_newest_row_stands(self) -> None:
        """An older row of a key is written if no later one can be, and no row without a key."""
        self.make_table(KINDS, key="id", required="word")
        sink = self.letter_sink(mode="upsert", keys="id", version_column="at", max_dead_letters=6)
        done = self.put(
            sink,
            [
                row(1, "four", 0, at=1),
                row(1, "five", 1, at=2),
                row(1, None, 2, at=3),
                row(1, None, 3, at=4),
                row(2, "seven", 4, at=1),
                row(2, "eight", 5, at=1),
                row(3, None, 6, at=1),
                row(None, "nine", 7, at=1),
                row(4, "ten", 8, at=None),
                row(None, "eleven", 9, at=1),
            ],
        )
        assert (done.rows, done.dead_letters) == (2, 6)
        assert self.read("id", "word") == [(1, "five"), (2, "eight")]
        columns = {2: "word", 3: "word", 6: "word", 7: "id", 8: "at", 9: "id"}
        found = dict(self.offsets())
        assert list(found) == list(columns)
        for offset, column in columns.items():
            assert column in found[offset]
