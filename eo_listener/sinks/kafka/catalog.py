"""The target topics as Kafka describes them, and the checks that they have not changed. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eo_listener.client_config.admin_commands import create_topic
from eo_listener.errors import RetriableSinkError, SettingsError, TopicRecreatedError, few
from eo_listener.kafka.logs import Topic
from eo_listener.model.ledger import Entry
from eo_listener.sinks.kafka.errors import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The topics of a sink, by name, as Kafka described them at one moment."""

    topics: Mapping[str, Topic]

    @classmethod
    def require(
        cls, described: Mapping[str, Topic], names: Collection[str], explain: Explanation
    ) -> Targets:
        """Return all `described` topics; raises SettingsError if one of `names` is missing."""
        missing = sorted(set(names) - described.keys())
        if missing:
            raise SettingsError(
                f"{explain.label}: Kafka at {explain.servers} has no topic {few(missing)}",
                cause="it was deleted or misspelled, or this user lacks the right to Describe it; "
                "the sink does not create it, since the number of partitions is your decision",
                fix=create_topic(explain.servers, missing[0]),
            )
        return cls(topics=described)

    @property
    def only(self) -> str | None:
        """The name of the topic if there is only one, so that rows need not name it."""
        return next(iter(self.topics)) if len(self.topics) == 1 else None

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids of the topics that have an id, by topic name."""
        return {name: target.id for name, target in self.topics.items() if target.id is not None}

    def refuse_recreated(self, written_to: Mapping[str, str], entry: Entry, *, label: str) -> None:
        """Raise TopicRecreatedError if the ledger's rows went to an older topic of the same name.

        The rows that the ledger records as applied were deleted with the older topic.
        """
        for name, topic_id in self.ids.items():
            if written_to.get(name, topic_id) != topic_id:
                raise topic_recreated(name, entry, label=label)

    def refuse_changed(self, now: Targets, *, label: str) -> None:
        """Raise RetriableSinkError if a topic has changed since the batch began.

        Producers know a topic only by its name. If the topic was deleted and recreated meanwhile,
        the earlier records are lost. If the topic has more partitions now, a key may belong to a
        different partition.
        """
        for name, before in self.topics.items():
            after = now.topics.get(name)
            if before == after:
                continue
            if after is None:
                change = "was deleted"
            elif before.id == after.id:
                now_has = len(after.partitions)
                change = f"had {len(before.partitions)} partitions and now has {now_has}"
            else:
                change = "was deleted and recreated"
            raise RetriableSinkError(
                f"{label}: topic {name} {change} while the batch was being written; nothing was "
                "written",
                cause="somebody changed the topic",
                fix="Nothing to do: the batch is retried",
            )


def topic_recreated(name: str, entry: Entry, *, label: str) -> TopicRecreatedError:
    """Return the error for a target topic that was deleted and recreated."""
    return TopicRecreatedError(
        f"batch {entry.batch_id} of {entry.query!r} was not written to {label}: topic {name} was "
        "deleted and recreated after the last batch",
        ranges={tp: move.range for tp, move in entry.moves.items()},
        cause="everything that the ledger records as applied went to the older topic and was "
        "deleted with it",
        fix='Give the sink another name, KafkaSink(..., name="..."). To continue after the '
        'last batch, add exactly_once(..., on_first="accept"); to write everything '
        "again, use a new checkpoint",
    )
