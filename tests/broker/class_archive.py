"""Archive the classes that Kafka's programs load: `python -m tests.broker.class_archive`."""

from __future__ import annotations

import os
import signal

from tests.broker.broker import Broker
from tests.broker.release import Release
from tests.waiting import until

_TIMEOUT = 120  # seconds for a JVM to end and to write its archive: 3 on two idle cores


def main() -> None:
    """Start a broker whose JVM writes the archive when it ends, unless that was done before."""
    archive = Release().class_archive
    if archive.path.exists():
        return
    with archive.making() as options, Broker(java_options=options) as broker:
        os.kill(broker.pids[1], signal.SIGTERM)
        until(lambda: not broker.pids, _TIMEOUT, "Kafka did not end")


if __name__ == "__main__":
    main()
