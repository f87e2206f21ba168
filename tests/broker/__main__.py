"""Run a broker until Ctrl-C or SIGTERM: `python -m tests.broker --port 9092`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from types import FrameType

from eo_listener.errors import EoListenerError
from tests.broker import Broker

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Topics come into being when they are first used, as examples want it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9092)
    properties = {"auto.create.topics.enable": "true"}
    port = parser.parse_args().port
    for each in _SIGNALS:
        signal.signal(each, _interrupt)
    with contextlib.suppress(KeyboardInterrupt), Broker(port=port, properties=properties) as broker:
        version, jars = broker.release.version, broker.release.jars[0].parent
        sys.stdout.write(f"Kafka {version}: {broker.bootstrap_servers}, jars in {jars}\n")
        sys.stdout.flush()
        while broker.pids:
            time.sleep(0.5)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # nothing may break off the removal of the data
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except EoListenerError as error:
        sys.stderr.write(f"broker: {error}\n")
        sys.exit(error.exit_code)
