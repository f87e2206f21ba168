"""The topics that rows go to: what Kafka says of them, and whether that has changed. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eo_listener.model.errors import RetriableSinkError, SettingsError, few


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic; `id` as Kafka's own tools spell it, None where it has none."""

    id: str | None
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The topics of a sink, by name. Where there is but one, rows need not name it."""

    topics: Mapping[str, Target]

    @classmethod
    def of(
        cls, found: Mapping[str, Target], wanted: Collection[str], *, label: str, servers: str
    ) -> Targets:
        """Raise SettingsError where one of the topics that are `wanted` is missing."""
        missing = sorted(set(wanted) - found.keys())
        if missing:
            raise SettingsError(
                f"{label}: Kafka at {servers} has no topic {few(missing)}",
                cause="it was deleted or misspelled, or this user has no right to Describe it; a "
                "sink makes no topic, since nobody knows how many partitions it is to have",
                fix=f"kafka-topics --bootstrap-server {servers} --create --topic {missing[0]} "
                "--partitions N",
            )
        return cls(topics={name: found[name] for name in wanted})

    @property
    def only(self) -> str | None:
        """The topic of every row, if there is but one."""
        return next(iter(self.topics)) if len(self.topics) == 1 else None

    def refuse_changed(self, now: Targets, *, label: str) -> None:
        """Raise RetriableSinkError where a topic is not what it was when the batch was begun.

        A record is produced to a name. What went to a topic that was deleted since is lost, and
        with more partitions keys have other places.
        """
        for name, before in self.topics.items():
            after = now.topics[name]
            if before == after:
                continue
            change = (
                f"has {after.partitions} partitions now and had {before.partitions}"
                if before.id == after.id
                else "was deleted and created again"
            )
            raise RetriableSinkError(
                f"{label}: topic {name} {change} while the batch was being written; nothing of it "
                "was written",
                cause="somebody has changed the topic",
                fix="Nothing to do: the batch is repeated",
            )
