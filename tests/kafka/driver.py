"""A driver that commits growing offsets, and prints each with the names of errors, or ok."""

from __future__ import annotations

import json
import sys
import time

from eo_listener.errors import KafkaError
from eo_listener.kafka.group_stores import open_groups
from eo_listener.offsets import Position, TopicPartition

PAUSE = 0.2


def main(settings: str) -> None:
    """Commit until the process ends."""
    wanted = json.loads(settings)
    store = open_groups(wanted["properties"], wanted["mode"])
    partitions = [TopicPartition(wanted["topic"], number) for number in range(3)]
    offset = wanted["first"]
    while True:
        position = Position(offset=offset, metadata=wanted["name"])
        try:
            answer = store.commit(wanted["group"], dict.fromkeys(partitions, position), timeout=8)
            said = sorted({code or "ok" for code in answer.values()})
        except KafkaError as error:
            said = [error.code]
        print(*said, flush=True)  # noqa: T201  # read by the test
        store.poll()
        offset += 1
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(sys.argv[1])
