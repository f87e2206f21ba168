"""Run a broker until Ctrl-C: `python -m tests.broker --port 9092`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from tests.broker import Broker


def main() -> None:
    """Topics come into being when they are first used, as examples want it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9092)
    properties = {"auto.create.topics.enable": "true"}
    port = parser.parse_args().port
    with contextlib.suppress(KeyboardInterrupt), Broker(port=port, properties=properties) as broker:
        sys.stdout.write(f"Kafka {broker.release.version}: {broker.bootstrap_servers}\n")
        sys.stdout.flush()
        while broker.pids:
            time.sleep(0.5)


if __name__ == "__main__":
    main()
