"""What the steps do with a DataFrame, which they know nothing of."""

from __future__ import annotations

from typing import Any, Protocol


class Frames(Protocol):
    """DataFrames, as far as they are held and run here. Errors of Spark go on to the caller."""

    def hold(self, frame: Any) -> Any:
        """Keep its rows once they are computed; returns what to use from now on, and to release.

        Computes nothing itself.
        """
        ...

    def release(self, held: Any) -> None:
        """Let go of what `hold` returned; also after errors, so it raises none of its own."""
        ...

    def discard(self, frame: Any) -> None:
        """Compute all of its rows, and keep none of them."""
        ...
