"""Write some lines of words to a topic.

python examples/write_words.py localhost:9092 words
"""

from __future__ import annotations

import sys

from confluent_kafka import KafkaError, Message, Producer


def main(servers: str, topic: str) -> None:
    """Write 40 lines, and wait until Kafka has them."""
    producer = Producer({"bootstrap.servers": servers, "delivery.timeout.ms": 20_000})
    written = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            written.append(message)

    for line in ["to be or not to be", "to see"] * 20:
        producer.produce(topic, line, on_delivery=delivered)
    producer.flush(30)
    if len(written) < 40:
        sys.exit(f"{40 - len(written)} of 40 lines could not be written")
    print(f"wrote 40 lines to {topic}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
