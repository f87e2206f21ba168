"""A checkpoint as Spark writes it, for tests of commands."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from eo_listener.model.offsets_json import write_offsets
from eo_listener.offsets import TopicPartition

QUERY_ID = "0f8c2a11-0000-4000-8000-000000000000"


class CheckpointFiles:
    """A checkpoint that a test plans and commits batches in; `ends` are those of done batches."""

    def __init__(
        self, folder: Path, began: Mapping[TopicPartition, int], *ends: Mapping[TopicPartition, int]
    ) -> None:
        self.folder = folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        (folder / "sources" / "0").mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}))
        (folder / "sources" / "0" / "0").write_text("\0v1\n" + write_offsets(began))
        for batch, of_batch in enumerate(ends):
            self.plan(batch, of_batch)
            self.commit(batch)

    def plan(self, batch: int, ends: Mapping[TopicPartition, int], *, ago: float = 0.0) -> None:
        """Write `offsets/N`, as if it was planned so many seconds ago."""
        planned = int(1000 * (time.time() - ago))
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": planned, "conf": {}}
        text = f"v1\n{json.dumps(metadata)}\n{write_offsets(ends)}"
        (self.folder / "offsets" / str(batch)).write_text(text)

    def forget(self, batch: int) -> None:
        """Delete the files of a batch, as an older copy does not have them."""
        for folder in ("offsets", "commits"):
            (self.folder / folder / str(batch)).unlink()

    def begin_again(self, began: Mapping[TopicPartition, int]) -> None:
        """Have a new checkpoint in the place of the old one."""
        shutil.rmtree(self.folder)
        self.__init__(self.folder, began)  # type: ignore[misc]  # the same files, from the beginning

    def commit(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
