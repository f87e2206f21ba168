"""Send the events into Kafka.

python -m examples.lakehouse.produce localhost:9092 [flights]
"""

from __future__ import annotations

import sys
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.lakehouse.events import events
from examples.lakehouse.settings import FLIGHTS, WEATHER

PRODUCER: Final = {
    "enable.idempotence": True,  # a record that is sent again is there once, in its order
    "acks": "all",
    "retries": 2147483647,
    "message.timeout.ms": 0,  # so a record is sent again until it arrives
    "max.in.flight.requests.per.connection": 5,  # the most that keeps the order
    "partitioner": "murmur2_random",  # as Java's producer chooses
    "linger.ms": 20,
}


def create_topics(servers: str) -> None:
    """Create the topics that do not exist."""
    admin = AdminClient({"bootstrap.servers": servers})
    existing = admin.list_topics(timeout=10).topics
    absent = [
        NewTopic(name, num_partitions=4) for name in (FLIGHTS, WEATHER) if name not in existing
    ]
    for created in (admin.create_topics(absent) if absent else {}).values():
        created.result(30)


def produce(servers: str, flights: int, first: int = 0, until: int | None = None) -> int:
    """Send the events of `flights` flights, or a part of them; return the number of events."""
    refused: list[str] = []

    def sent(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": servers, **PRODUCER})
    chosen = events(flights)[first:until]
    for event in chosen:
        while True:
            try:
                producer.produce(event.topic, event.value(), event.key, on_delivery=sent)
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
        producer.poll(0)
    unsent = producer.flush(60)
    if refused or unsent:
        raise SystemExit(f"{len(refused) + unsent} events did not arrive: {refused[:1]}")
    return len(chosen)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    create_topics(sys.argv[1])
    print(produce(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000), "events sent")
