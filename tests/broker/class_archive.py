"""Archive the classes that Kafka's programs load, unless that was done before.

python -m tests.broker.class_archive
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

from eo_listener.model.errors import counted
from tests.broker.broker import Broker
from tests.broker.node import BrokerError
from tests.broker.release import QUIET, Release

_TIMEOUT = 120  # seconds for a JVM to end and to write its archive: 3 on two idle cores


def main() -> None:
    """Start a broker whose JVM writes the archive when it ends."""
    archive = Release().class_archive
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "made.jsa")
        with Broker(java_options=[f"-XX:ArchiveClassesAtExit={made}", *QUIET]) as broker:
            os.kill(broker.pids[1], signal.SIGTERM)
            deadline = time.monotonic() + _TIMEOUT
            while broker.pids:
                if time.monotonic() > deadline:
                    raise BrokerError(f"Kafka did not end within {counted(_TIMEOUT, 'second')}")
                time.sleep(0.1)
        made.replace(archive)


if __name__ == "__main__":
    main()
