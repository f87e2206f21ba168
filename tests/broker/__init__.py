"""A real Apache Kafka in KRaft mode, for tests, benchmarks and the demo: it needs a Java 17.

- kafka-tools comes without Connect: `connect-runtime` is 40 of 93 jars, and no tool here needs it.
- Ports come from 20000 to 29999, below the range of outgoing connections. Inside that range a
  client that retries while its broker is down can be given the broker's own port, and then talks
  to itself.
- A killed node is taken back when its old session has expired: `broker.session.timeout.ms=4000`
  makes that 7 s instead of 12.
- Each node is a session of its own, so Ctrl-C reaches only Python. `tests.watchdog` ends the nodes
  when Python is killed.
- Kafka creates the group coordinator at its first use, a moment after the nodes answer.
- A start takes 4.1 s on two cores, 1.1 s of it StorageTool.
"""

from tests.broker.broker import Broker
from tests.broker.group_table import GroupRow, parse_rows
from tests.broker.node import BrokerError
from tests.broker.release import DEFAULT, KNOWN, Release
from tests.broker.settings import Listener, free_port

__all__ = [
    "DEFAULT",
    "KNOWN",
    "Broker",
    "BrokerError",
    "GroupRow",
    "Listener",
    "Release",
    "free_port",
    "parse_rows",
]
