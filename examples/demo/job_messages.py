"""What the driver says to the demo: one line of JSON for each thing that happens."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from eo_listener.model.errors import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The query runs; a batch is being written; it was; Kafka has a commit; or the end, and why.

    `rows` and `seconds` belong to a batch that was written: 0 rows for one that the sink had
    before. The texts belong to a failure.
    """

    what: Literal["running", "writing", "written", "committed", "failed"]
    batch: int = -1
    rows: int = 0
    seconds: float = 0.0
    problem: str = ""
    cause: str | None = None
    fix: str | None = None

    def line(self) -> str:
        """One line, with its end."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def parse(cls, line: str) -> News:
        """Read what `line` wrote; raises FormatError for anything else."""
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise FormatError(f"the driver said {line!r}") from error
