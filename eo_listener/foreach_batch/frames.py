"""What the steps do with a DataFrame, which they know nothing of."""

from __future__ import annotations

from typing import Any, Protocol


class Frames(Protocol):
    """DataFrames, as far as they are held and run here. Errors of Spark go on to the caller."""

    def is_one(self, made: Any) -> bool:
        """Whether it is a DataFrame at all, without asking Spark."""
        ...

    def are_same(self, one: Any, other: Any) -> bool | None:
        """Whether both give the same rows; None where that cannot be known.

        May compute both, where their plans differ.
        """
        ...

    def hold(self, frame: Any) -> Any:
        """Keep its rows once they are computed; returns what to use from now on.

        Computes nothing itself.
        """
        ...

    def replan(self, frame: Any) -> Any:
        """The same rows, planned again, so that those of them that are held are used."""
        ...

    def release(self, frame: Any) -> None:
        """Release what `hold` was given; also after errors, so it raises none of its own."""
        ...

    def discard(self, frame: Any) -> None:
        """Compute all of its rows, and keep none of them."""
        ...
