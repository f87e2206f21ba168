"""B1: what a listener costs each batch of one query that goes on while listeners come and go.

    python -m benchmarks.turns SERVERS TOPIC {nothing,second} ROUNDS BATCHES WARM-UP

A round is `none ours ours none`, each for so many batches: short turns, since the machine's own
pace drifts. Prints one JSON document: by round and arm, how long a batch of each turn took, in ms
(the mean of the middle half of them).
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
import uuid
from typing import cast

from benchmarks.query import Load, durations, listener, running, wait_for

ORDER = ("none", "ours", "ours", "none")
_SETTLE = 1  # batches after a change that do not count


def middle(took: list[int]) -> float:
    """The mean of the middle half: steadier than the median of whole milliseconds."""
    quarter = len(took) // 4
    return statistics.fmean(sorted(took)[quarter : len(took) - quarter])


def main(servers: str, topic: str, load: Load, rounds: int, batches: int, warm_up: int) -> None:
    # A listener that comes and goes misses batches, and says so.
    logging.getLogger("eo_listener").setLevel(logging.ERROR)
    group = f"bench-{uuid.uuid4()}"
    turns: list[tuple[int, str, int, int]] = []
    with running(servers, topic, group, load) as (spark, query):
        ours = listener("ours", servers, group)
        wait_for(query, warm_up)
        for number in range(-1, rounds):  # the first one warms the listener up
            for arm in ORDER:
                if arm == "ours":
                    spark.streams.addListener(ours)
                begun = wait_for(query, _SETTLE)
                turns.append((number, arm, begun + 1, wait_for(query, batches)))
                if arm == "ours":
                    spark.streams.removeListener(ours)
        took = durations(query)
        query.stop()
    found: list[dict[str, list[float]]] = [{} for _ in range(rounds)]
    for number, arm, first, last in turns:
        if number >= 0:
            turn = middle([took[n] for n in range(first, last + 1)])
            found[number].setdefault(arm, []).append(turn)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], cast(Load, sys.argv[3]), *map(int, sys.argv[4:]))
