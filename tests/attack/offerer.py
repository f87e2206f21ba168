"""A committer in a process of its own: takes `offer N`, `renew N`, `flush` and `close`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.events import Event, Observers
from eo_listener.kafka.group_stores import open_groups
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class AsText:
    """What a program is started with, as an argument of its command line."""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(AsText):
    """What an offerer is started with; `properties` are librdkafka's."""

    servers: str
    group: str
    topic: str
    run_id: str
    mode: str = "simple"
    partitions: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    retry: Mapping[str, float] = field(default_factory=dict)
    snapshot_max_age: float = 60.0


class Offerer:
    """Does what the lines say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        properties = {**settings.properties, "bootstrap.servers": settings.servers}
        self._cluster = Cluster.from_properties(properties)
        self._committer = Committer(
            lambda cluster: open_groups(dict(cluster.properties), settings.mode),
            observers=Observers(self._told),
            retry=Backoff(**settings.retry),
            policy=Policy(snapshot_max_age=settings.snapshot_max_age),
        )

    def obey(self, line: str) -> None:
        match line.split():
            case ["offer", offset]:
                self._committer.offer(self._commit(int(offset)))
            case ["renew", offset]:
                self._committer.offer(self._commit(int(offset)), recommit=True)
            case ["flush"]:
                say(f"flushed {self._committer.flush(20.0)}")
            case ["close"]:
                self._committer.close(10.0)
                say("closed")
            case _:
                raise ValueError(line)

    def _commit(self, offset: int) -> GroupOffsets:
        metadata = CommitMetadata.for_batch(
            name="offerer", query_id="q" * 36, run_id=self._settings.run_id, batch_id=offset
        ).text()
        positions = {
            TopicPartition(self._settings.topic, number): Position(offset=offset, metadata=metadata)
            for number in range(self._settings.partitions)
        }
        return GroupOffsets(cluster=self._cluster, group=self._settings.group, positions=positions)

    def _told(self, event: Event) -> None:
        offsets = getattr(event, "offsets", None) or getattr(event, "offered", None)
        first = TopicPartition(self._settings.topic, 0)
        rest = [str(offsets.get(first))] if offsets else []
        rest += [str(getattr(event, name)) for name in ("code", "zombie") if hasattr(event, name)]
        say(" ".join([type(event).__name__, *rest]))


def say(line: str) -> None:
    """Print it in one write: several threads talk."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    offerer = Offerer(Settings.parse(sys.argv[1]))
    say("ready")
    for line in sys.stdin:
        offerer.obey(line.strip())


if __name__ == "__main__":
    main()
