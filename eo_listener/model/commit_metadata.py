"""The text that every commit carries: who committed, and for which batch.

The format stands in DESIGN.md under "Commit metadata". At most 120 bytes of UTF-8: a longer
one makes Burrow misread the commit time that brokers from 4.1 write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

MAX_BYTES = 120
FORMAT = 1
_SHORT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """Query, run and batch behind a committed offset."""

    #: May have been cut: then it ends with `~`.
    name: str
    #: As `run_id`, the first eight hex digits of Spark's UUID: enough to distinguish two queries,
    #: or two runs, on one group.
    query_id: str
    run_id: str
    batch_id: int
    #: The offset that the group held before a requested rewind.
    rewound_from: int | None = None
    #: True for a partition whose newer offsets the guard did not let through.
    withheld: bool = False
    #: True if it was committed with the rows of its batch, in the transaction of a sink.
    by_sink: bool = False
    #: The command of eo-listener that committed it, such as `group seed`. Ids and batch are then
    #: those of the origin of its offsets, or empty and -1 if that is not a query.
    command: str = ""

    @classmethod
    def for_batch(
        cls, *, name: str | None, query_id: str, run_id: str, batch_id: int
    ) -> CommitMetadata:
        """Build from the fields of a progress event, ids shortened."""
        return cls(
            name=name or "",
            query_id=query_id[:_SHORT],
            run_id=run_id[:_SHORT],
            batch_id=batch_id,
        )

    def __str__(self) -> str:
        """Name the writer, for texts."""
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
        """The number of the batch; None if a command committed offsets that belong to no batch."""
        return None if self.batch_id < 0 else self.batch_id

    def rewinding(self, group_offset: int) -> CommitMetadata:
        """The same, for a commit that takes the group back from `group_offset`."""
        return replace(self, rewound_from=group_offset)

    def withholding(self) -> CommitMetadata:
        """The same, with the guard's mark."""
        return replace(self, withheld=True)

    def of_sink(self) -> CommitMetadata:
        """The same, for a commit in the transaction of a sink."""
        return replace(self, by_sink=True)

    def same_writer(self, metadata: CommitMetadata | None) -> bool:
        """Return True if the same run of the same query wrote both."""
        mine = (self.query_id, self.run_id)
        return metadata is not None and mine == (metadata.query_id, metadata.run_id)

    def text(self) -> str:
        """Return compact JSON of at most 120 bytes of UTF-8; the name gives way."""
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
        """Read a committed text back; None for one that another program wrote.

        A trailing NUL, which confluent-kafka writes by every route, is dropped.
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
