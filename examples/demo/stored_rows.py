"""What is asked of the rows in a store, from outside, while the driver writes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from examples.demo.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one partition: how many, and of how many records below the log's end."""

    found: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderReport:
    """What a reader that was there all the time has seen: batches, and faults by kind.

    `rounds` is how often it has read to the ends; `first` describes the first fault.
    """

    rounds: int
    batches: int
    faults: Mapping[str, int]
    first: str | None


class StoredRows(Results, ABC):
    """The flights in a store, as they were read last. `pause`: seconds between two readings."""

    pause = 1.0

    @abstractmethod
    def read(self) -> None:
        """Read again; what was read last stays where the store does not answer."""

    @abstractmethod
    def count(self, ends: Mapping[int, int]) -> tuple[dict[int, Rows], int]:
        """Count the rows of each partition, up to where its log ends; and all rows there are."""

    def report(self) -> ReaderReport | None:
        """What was seen while the rows were written, where each of them was read."""
        return None

    def close(self) -> None:
        """Let go of what is kept open between two readings."""
