"""How many rows of a batch may become dead letters, and how many have. Pure.

Dead letters are for single rows. When most of a batch is refused, something else has changed: a
column of the table, a producer, a setting. Then the query must not go on as if all were well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.sinks.dead_letters import DeadLetter

SHARE: Final = 0.5
"""What part of a batch may be refused, if nothing else is said."""
FEW: Final = 10
"""From this many refused rows on, a share is applied, and a batch may not be refused as a whole."""

_REASONS = 1000  # how many different ones are counted: a mark may be one of its own for each row


@dataclass(frozen=True, slots=True)
class DeadLetterLimit:
    """How many dead letters a transaction may have: a number, or a share of its rows as a float."""

    most: int | float  # which of the two it is says what it means

    def __post_init__(self) -> None:
        """Raise SettingsError for what is neither."""
        if not _is_limit(self.most):
            raise SettingsError(
                "max_dead_letters must be a number of rows (int, 0 or more) or a share of them "
                f"(float from 0.0 to 1.0), got {self.most!r}",
                fix="Give one of these",
            )

    def allows(self, dead: int, rows: int) -> bool:
        """Whether `dead` of `rows` rows may be dead letters; never all of them, unless below FEW.

        A share applies only from FEW refused rows on.
        """
        if dead >= FEW and dead >= rows:
            return False
        if isinstance(self.most, float):
            return dead < FEW or dead <= self.most * rows
        return dead <= self.most


@dataclass(kw_only=True)
class Refusals:
    """Counts the dead letters of one transaction by reason; `label` names the sink."""

    label: str
    limit: DeadLetterLimit
    count: int = 0
    first: DeadLetter | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, letters: Iterable[DeadLetter]) -> None:
        """Count them. Raises PoisonRowError as soon as they are more than a number allows."""
        for one in letters:
            self.first = self.first or one
            self.count += 1
            if one.shown in self.reasons or len(self.reasons) < _REASONS:
                self.reasons[one.shown] += 1
        if isinstance(self.limit.most, int) and self.count > self.limit.most:
            raise self._too_many(None)

    def check(self, rows: int) -> None:
        """Raise PoisonRowError where they are too many of the `rows` that came, themselves too."""
        if not self.limit.allows(self.count, rows):
            raise self._too_many(rows)

    def _too_many(self, rows: int | None) -> PoisonRowError:
        first = self.first
        of = "" if rows is None else f" of {rows}"
        example = "" if first is None else f"; the first: {first.place()[1]}: {first.shown}"
        often = ""
        if self.reasons:
            reason, times = self.reasons.most_common(1)[0]
            often = f"; the most frequent reason ({times} times): {reason}"
        every = rows is not None and self.count >= rows
        return PoisonRowError(
            f"{self.count} rows{of} cannot be written to {self.label}{example}{often}",
            partition=None if first is None else first.place()[0],
            offset=None if first is None else first.offset,
            cause="that is every row, so none of them is to blame; nothing was written"
            if every
            else f"max_dead_letters={self.limit.most} allows fewer; nothing was written",
            fix="Find out what has changed: the table, the transform or the producers"
            + ("" if every else "; if so many are to be expected, raise max_dead_letters="),
        )


def _is_limit(most: object) -> bool:
    if isinstance(most, float):
        return 0 <= most <= 1
    return isinstance(most, int) and not isinstance(most, bool) and most >= 0
