"""A sink of somebody else's: rows and ledger in one file, replaced as a whole. Can be pickled."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eo_listener.errors import ForeignWriterError
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition

Held = tuple[list[tuple[Any, ...]], dict[str, dict[TopicPartition, Head]]]


class FileSink:
    """Takes the DataFrames of Spark Connect too."""

    key = "rows"
    per_partition = False

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def label(self) -> str:
        return str(self._path)

    def read(self) -> Held:
        if not self._path.exists():
            return [], {}
        held: Held = pickle.loads(self._path.read_bytes())  # noqa: S301  # written below
        return held

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        return self.read()[1].get(query, {})

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        return {
            LedgerKey(self.key, query): heads
            for query, heads in self.read()[1].items()
            if any(head.query_id == query_id for head in heads.values())
        }

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        new = [tuple(row) for row in frame.collect()]
        rows, ledger = self.read()
        heads = ledger.setdefault(entry.query, {})
        for tp, move in entry.moves.items():
            if heads.get(tp) != move.expected:
                raise ForeignWriterError(f"{tp} was moved")
            heads[tp] = entry.head(tp)
        beside = self._path.with_suffix(".new")
        beside.write_bytes(pickle.dumps(([*rows, *new], ledger)))
        os.replace(beside, self._path)  # noqa: PTH105  # one step, as the name says
        return Applied(rows=len(new))

    def close(self) -> None:
        """Nothing is held."""
