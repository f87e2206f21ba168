"""B1: what a listener costs each batch of one query that goes on while listeners come and go.

    python -m benchmarks.turns SERVERS TOPIC ROUNDS BATCHES

A round is `none ours dead dead ours none`, each for so many batches. Prints one JSON document: the
durations in ms by round and arm.
"""

from __future__ import annotations

import json
import logging
import sys
import uuid

from benchmarks.query import WARM_UP, durations, listener, running, wait_for

ORDER = ("none", "ours", "dead", "dead", "ours", "none")
_SETTLE = 2  # batches after a change that do not count


def main(servers: str, topic: str, rounds: int, batches: int) -> None:
    # A listener that comes and goes misses batches, and says so.
    logging.getLogger("eo_listener").setLevel(logging.ERROR)
    group = f"bench-{uuid.uuid4()}"
    turns: list[tuple[int, str, int, int]] = []
    with running(servers, topic, group) as (spark, query):
        there = {arm: listener(arm, servers, group) for arm in ORDER if arm != "none"}
        wait_for(query, WARM_UP)
        for number in range(-1, rounds):  # the first one warms all listeners up
            for arm in ORDER:
                if arm in there:
                    spark.streams.addListener(there[arm])
                begun = wait_for(query, _SETTLE)
                turns.append((number, arm, begun + 1, wait_for(query, batches)))
                if arm in there:
                    spark.streams.removeListener(there[arm])
        took = durations(query)
        query.stop()
    found: list[dict[str, list[list[int]]]] = [{} for _ in range(rounds)]
    for number, arm, first, last in turns:
        if number >= 0:
            found[number].setdefault(arm, []).append([took[n] for n in range(first, last + 1)])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
