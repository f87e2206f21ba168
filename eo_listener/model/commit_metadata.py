"""The metadata text of each commit, which names the query, the run and the batch.

DESIGN.md has the format under "Commit metadata". The text has at most 120 bytes of UTF-8: a longer
text makes Burrow misread the commit time that brokers write from version 4.1 on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

MAX_BYTES = 120
FORMAT = 1
_SHORT = 8


def short_id(spark_id: str) -> str:
    """Return the part of a query's or run's id that the metadata contains."""
    return spark_id[:_SHORT]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The query, the run and the batch of a committed offset."""

    #: The query's name; it ends with `~` if it was cut.
    name: str
    #: Like `run_id`, the first eight hex digits of Spark's UUID: enough to distinguish two queries,
    #: or two runs, on one group.
    query_id: str
    run_id: str
    batch_id: int
    #: The offset that the group held before a requested rewind.
    rewound_from: int | None = None
    #: True for a partition whose newer offsets the guard has withheld.
    withheld: bool = False
    #: True if a sink committed the offset with the rows of its batch, in one transaction.
    by_sink: bool = False
    #: The command of eo-listener that committed the offset, such as `group seed`. Ids and batch are
    #: then those of the query that the offset comes from, or empty and -1 if there is no query.
    command: str = ""

    @classmethod
    def for_batch(
        cls, *, name: str | None, query_id: str, run_id: str, batch_id: int
    ) -> CommitMetadata:
        """Return the metadata for a batch of a progress event, with shortened ids."""
        return cls(
            name=name or "", query_id=short_id(query_id), run_id=short_id(run_id), batch_id=batch_id
        )

    def __str__(self) -> str:
        """Describe the writer of the commit, for error texts and log lines."""
        if self.command and not self.query_id:
            return f"eo-listener {self.command}, run {self.run_id}"
        name = f"query {self.name!r}, " if self.name else ""
        by = f", by eo-listener {self.command}" if self.command else ""
        return f"{name}id {self.query_id}, run {self.run_id}, batch {self.batch_id}{by}"

    @property
    def author(self) -> str:
        """The name of the query, or its id, or the command if there is no query."""
        return self.name or self.query_id or f"eo-listener {self.command}"

    @property
    def batch(self) -> int | None:
        """The number of the batch, or None if a command committed offsets without a batch."""
        return None if self.batch_id < 0 else self.batch_id

    def rewinding(self, group_offset: int) -> CommitMetadata:
        """Return a copy for a commit that rewinds the group from `group_offset`."""
        return replace(self, rewound_from=group_offset)

    def same_writer(self, metadata: CommitMetadata | None) -> bool:
        """Return True if the same run of the same query wrote this and `metadata`."""
        mine = (self.query_id, self.run_id)
        return metadata is not None and mine == (metadata.query_id, metadata.run_id)

    def text(self) -> str:
        """Return compact JSON of at most 120 bytes of UTF-8; the name is cut to fit."""
        name = self.name.encode("utf-8", "replace").decode("utf-8")
        whole = self._json(name)
        cut = len(name)
        while len(whole.encode()) > MAX_BYTES and cut > 0:
            cut -= 1
            whole = self._json(name[:cut] + "~")
        return whole

    def _json(self, name: str) -> str:
        fields: dict[str, Any] = {
            "v": FORMAT,
            "i": self.query_id,
            "r": self.run_id,
            "b": self.batch_id,
        }
        if self.rewound_from is not None:
            fields["w"] = self.rewound_from
        if self.withheld:
            fields["g"] = 1
        if self.by_sink:
            fields["t"] = 1
        if self.command:
            fields["c"] = self.command
        fields["q"] = name
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    @lru_cache(1024)  # a query commits all of its partitions with the same text
    def parse(cls, text: str | None) -> CommitMetadata | None:
        """Parse the text of a commit; return None if another program wrote it.

        Ignores a trailing NUL, which confluent-kafka always writes.
        """
        try:
            fields = json.loads((text or "").rstrip("\0"))
        except (ValueError, RecursionError):
            return None
        match fields:
            case {"v": int(), "i": str(query), "r": str(run), "b": int(batch), "q": str(name)}:
                rewound, command = fields.get("w"), fields.get("c")
                return cls(
                    name=name,
                    query_id=query,
                    run_id=run,
                    batch_id=batch,
                    rewound_from=rewound if isinstance(rewound, int) else None,
                    withheld=fields.get("g") == 1,
                    by_sink=fields.get("t") == 1,
                    command=command if isinstance(command, str) else "",
                )
            case _:
                return None
