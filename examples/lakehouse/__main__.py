"""All of the lakehouse, from an empty folder: a Kafka, the events, both jobs, and the comparison.

The events are sent in two halves, with both jobs after each: they go on where their ledgers end.

python -m examples.lakehouse [--flights 20000] [--folder lake-data] [--servers localhost:9092]
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from examples.lakehouse import compare, stream_write_raw, upsert_enriched
from examples.lakehouse.events import events
from examples.lakehouse.produce import create_topics, produce
from tests.broker import Broker


def main(servers: str | None, folder: Path, flights: int) -> int:
    """Run everything; the exit code is 1 if a table differs from the events."""
    with ExitStack() as opened:
        if servers is None:
            servers = opened.enter_context(Broker()).bootstrap_servers
        create_topics(servers)
        total = len(events(flights))
        for first, until in ((0, total // 2), (total // 2, total)):
            print(f"{produce(servers, flights, first, until):,} events sent")
            for job in (stream_write_raw, upsert_enriched):
                job.start(servers, folder, once=True).awaitTermination()
                print(f"{job.QUERY} has ended")
        return compare.main(folder, flights)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers")
    parser.add_argument("--folder", type=Path, default=Path("lake-data"))
    parser.add_argument("--flights", type=int, default=20_000)
    arguments = parser.parse_args()
    sys.exit(main(arguments.servers, arguments.folder, arguments.flights))
