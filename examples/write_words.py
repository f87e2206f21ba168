"""Write some lines of words to a topic.

python examples/write_words.py localhost:9092 words
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main(servers: str, topic: str) -> None:
    """Write 40 lines, and wait until Kafka has them."""
    producer = Producer({"bootstrap.servers": servers})
    for line in ["to be or not to be", "to see"] * 20:
        producer.produce(topic, line)
    left = producer.flush(30)
    print(f"{left} lines could not be written" if left else f"40 lines are in {topic}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
