"""A file of `commits/`: its being there says that the batch is done.

Source: Spark's CommitLog; version 2 (4.0) adds ids of the state, version 3 (4.2) more of it.
"""

from __future__ import annotations

from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable
from eo_listener.spark.checkpoint.json_text import decode_object
from eo_listener.spark.checkpoint.versions import check_version

NEWEST = 3


def check_commit(text: str) -> None:
    """Raise Unreadable unless `text` is the whole of a commit file."""
    first, line_feed, rest = text.partition("\n")
    check_version(first, newest=NEWEST, whole=bool(line_feed))
    if not rest:
        raise Unreadable(FileFindingKind.CUT, "it ends after its first line")
    decode_object(rest)
