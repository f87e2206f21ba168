"""What a way of writing the rows of a batch offers to its publication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class RowWriter(Protocol):
    """Writes the rows of one try on a branch.

    `appends`: by one snapshot that adds files, which has the ledger too. What such a batch has
    written need not be written again where main has moved.
    """

    @property
    def appends(self) -> bool: ...

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Return how many it wrote, None: as the snapshot says. Raises ThrownError.

        One that appends gives its snapshot this `summary`.
        """

    def concerns(self, base: int, main: int) -> bool:
        """Whether rows that were appended to main between two snapshots might change what it wrote.

        Raises ThrownError.
        """
