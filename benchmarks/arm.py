"""B3: how long one listener holds Spark's bus thread, in a process of its own.

    python -m benchmarks.arm SERVERS TOPIC {ours,ancestor} BATCHES WARM-UP

Prints one JSON document: ms an event, as Spark's own timer saw it.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.query import listener, running, wait_for


def _bus_class(spark: SparkSession) -> Any:
    """The class under which Spark times its streaming listeners; it moved in 4.1."""
    package = "org.apache.spark.sql.execution.streaming."
    moved = tuple(map(int, spark.version.split(".")[:2])) >= (4, 1)
    jvm: Any = spark._jvm
    name = f"{package}{'runtime.' if moved else ''}StreamingQueryListenerBus"
    return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


def main(servers: str, topic: str, arm: str, batches: int, warm_up: int) -> None:
    group = f"bench-{uuid.uuid4()}"
    with running(servers, topic, group, "nothing") as (spark, query):
        spark.streams.addListener(listener(arm, servers, group))
        wait_for(query, warm_up + batches)
        query.stop()
        bus = spark._jsc.sc().listenerBus()
        bus.waitUntilEmpty(30000)
        snapshot = bus.metrics().getTimerForListenerClass(_bus_class(spark)).get().getSnapshot()
        held = {
            "mean": snapshot.getMean() / 1e6,
            "median": snapshot.getMedian() / 1e6,
            "p99": snapshot.get99thPercentile() / 1e6,
        }
    print(json.dumps(held))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
