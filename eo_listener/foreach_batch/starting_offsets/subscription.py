"""Which partitions the new query reads, by its reader's options. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import TopicPartition

_TOPICS: Final = "subscribe"
_PATTERN: Final = "subscribepattern"
_ASSIGN: Final = "assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics by their names, or all that match a pattern as a whole; or single partitions."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[TopicPartition] | None = None

    @classmethod
    def of(
        cls, topics: str | Iterable[str] | None, options: Mapping[str, str]
    ) -> Subscription | None:
        """Read what is asked for; None where nothing is given. `options` have keys in lower case.

        Raises SettingsError for what names nothing, or partitions and topics at once.
        """
        if _ASSIGN in options:
            if topics is not None:
                raise SettingsError(
                    "topics= names topics, and the reader's option assign names partitions",
                    fix="Leave one of them out",
                )
            return cls(assigned=_assigned(options[_ASSIGN]))
        if topics is None and _PATTERN in options:
            return cls(pattern=_pattern(options[_PATTERN]))
        if topics is None:
            topics = options.get(_TOPICS)
        if topics is None:
            return None
        names = topics.split(",") if isinstance(topics, str) else topics
        found = frozenset(name.strip() for name in names)
        if not found or "" in found:
            raise SettingsError(
                f"topics is {topics!r}, which names no topic", fix="Name a topic, or several"
            )
        return cls(topics=found)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error:
        raise SettingsError(
            f"{_PATTERN} is {text!r}, which is not a regular expression of Python",
            fix="Correct it, or name the topics in topics=",
        ) from None


def _assigned(text: str) -> frozenset[TopicPartition]:
    """Spark's form (JsonUtils.partitions): `{"topic":[0,1]}`."""
    try:
        named = json.loads(text)
        found = frozenset(
            TopicPartition(topic, number) for topic, numbers in named.items() for number in numbers
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        found = frozenset()
    if not found or not all(type(tp.partition) is int and tp.partition >= 0 for tp in found):
        raise SettingsError(
            f"{_ASSIGN} is {text!r}, which names no partitions",
            fix='Give it as Spark reads it: {"topic": [0, 1]}',
        )
    return found
