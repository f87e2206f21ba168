"""The topics that rows go to: what Kafka says of them, and whether that has changed. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eo_listener.model.errors import RetriableSinkError, SettingsError, few


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic's id, as Kafka's own tools print it (None: it has none), and how many partitions."""

    id: str | None
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The topics of a sink by name, as Kafka described them at one moment."""

    topics: Mapping[str, Target]

    @classmethod
    def of(
        cls, found: Mapping[str, Target], wanted: Collection[str], *, label: str, servers: str
    ) -> Targets:
        """Choose the `wanted` topics; raises SettingsError where one is not among those `found`."""
        missing = sorted(set(wanted) - found.keys())
        if missing:
            raise SettingsError(
                f"{label}: Kafka at {servers} has no topic {few(missing)}",
                cause="it was deleted or misspelled, or this user has no right to Describe it; the "
                "sink does not create it, since the number of partitions is yours to choose",
                fix=f"kafka-topics --bootstrap-server {servers} --create --topic {missing[0]} "
                "--partitions N",
            )
        return cls(topics={name: found[name] for name in wanted})

    @property
    def only(self) -> str | None:
        """The name of the topic where there is only one, so that rows need not name it."""
        return next(iter(self.topics)) if len(self.topics) == 1 else None

    def refuse_changed(self, now: Targets, *, label: str) -> None:
        """Raise RetriableSinkError where a topic has changed since the batch was begun.

        Records are produced to a topic's name: those sent before it was deleted and recreated are
        lost, and with more partitions a key belongs to another one.
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
