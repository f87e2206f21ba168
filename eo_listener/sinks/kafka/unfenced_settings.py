"""What a user says of a sink without transactions, and what cannot be said with it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from eo_listener.model.errors import SettingsError

OnRepeated = Literal["fail", "accept"]

MAX_TAIL: Final = 5_000_000
"""Rows of which a driver keeps the identities, of some 320 bytes each: 1.6 GB."""

_WHY: Final = "without a transaction"
_DELIVERY: Final = "delivery.timeout.ms"
_LONGEST_MS: Final = 900_000  # as the brokers' default for a transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedSettings:
    """The columns of a row's identity, None for the source's own; whether to go on where rows are
    there twice, or were lost; and of how many rows the driver may keep the identities.
    """

    identity: tuple[str, ...] | None
    accept: bool
    max_tail: int = MAX_TAIL

    @classmethod
    def of(
        cls,
        *,
        transactions: bool,
        identity: str | Sequence[str] | None,
        on_repeated: str,
        max_tail: object,
        tuning: Mapping[str, str],
        group: str | None,
        dead_letters: str | None,
    ) -> UnfencedSettings | None:
        """Check the arguments of a sink; None where it has transactions. Raises SettingsError.

        `tuning` are its producer's properties, in librdkafka's names.
        """
        if not isinstance(transactions, bool):
            raise SettingsError(
                f"transactions must be True or False, got {transactions!r}", fix="Give one of them"
            )
        if on_repeated not in ("fail", "accept"):
            raise SettingsError(
                f'on_repeated must be "fail" or "accept", got {on_repeated!r}',
                fix="Give one of them",
            )
        if isinstance(max_tail, bool) or not isinstance(max_tail, int) or max_tail < 1:
            raise SettingsError(
                f"max_tail must be a number of rows from 1 on, got {max_tail!r}",
                fix=f"Give one, or leave it out: {MAX_TAIL:,}",
            )
        if transactions:
            _refuse_alone("id", identity is not None)
            _refuse_alone("on_repeated", on_repeated != "fail")
            _refuse_alone("max_tail", max_tail != MAX_TAIL)
            return None
        _refuse_together(group, dead_letters)
        _refuse_endless(tuning.get(_DELIVERY))
        names = _names(identity)
        return cls(identity=names, accept=on_repeated == "accept", max_tail=max_tail)


def _refuse_alone(name: str, given: bool) -> None:
    if given:
        raise SettingsError(
            f"{name}= has no meaning with transactions",
            cause="in a transaction rows cannot be there twice",
            fix=f"Drop {name}=, or add transactions=False",
        )


def _refuse_together(group: str | None, dead_letters: str | None) -> None:
    if group is not None:
        raise SettingsError(
            "group= is not possible with transactions=False",
            cause=f"{_WHY} the group's offsets and the rows cannot be committed together",
            fix="Drop group=, and have the listener commit what the checkpoint has: the reader's "
            f"option eo.commit.group={group}, and OffsetCommitListener",
        )
    if dead_letters is not None:
        raise SettingsError(
            "dead_letters= is not possible with transactions=False",
            cause=f"{_WHY} a batch that is refused for too many of them would leave rows behind",
            fix="Filter such rows in the transform, and write them by a sink of their own: "
            "return [good, bad] for two sinks",
        )


def _refuse_endless(delivery: str | None) -> None:
    """Raise SettingsError for a time that a batch is not to wait for; librdkafka's 0 is no end."""
    if delivery is None:
        return
    text = delivery.strip()
    if not text.isdigit() or not 1 <= int(text) <= _LONGEST_MS:
        raise SettingsError(
            f"the option kafka.{_DELIVERY} must be from 1 to {_LONGEST_MS:,} with "
            "transactions=False",
            cause="nothing else ends a batch whose records no broker takes",
            fix="Leave it out (two minutes), or give less",
        )


def _names(identity: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if identity is None:
        return None
    names = (identity,) if isinstance(identity, str) else tuple(identity)
    if not names or not all(names):
        raise SettingsError(
            f"id= must name one or more columns, got {identity!r}",
            fix='Name those that no two rows share: id=("column", ...)',
        )
    if len(set(names)) < len(names):
        raise SettingsError(f"id= names a column twice: {names!r}", fix="Name each once")
    return names
