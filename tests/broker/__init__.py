"""A real Apache Kafka in KRaft mode, for development and tests: it needs Python and a Java 17.

- kafka-tools without Connect: excluding `connect-runtime` removes 40 of 93 jars and halves the
  download; no tool that we run needs it.
- A log binding: Kafka's poms name none, and without one it logs nothing. 4.x gets
  `log4j-slf4j-impl`, 3.9 `slf4j-reload4j`.
- Ports come from 20000 to 29999, below the range of outgoing connections. Inside that range a
  client that retries while its broker is down can be given the broker's own port, and then talks
  to itself. A kept data folder gets its earlier ports (from `storage.json`) again when they are
  free. `server.properties` is rewritten at every start and read by Kafka alone.
- Killed nodes come back only when their old session has expired. With Kafka's 9 s a restart took
  12 s, with our `broker.session.timeout.ms=4000` 7 s.
- Each node is a session of its own (Ctrl-C reaches only Python, which then ends it). `stop`, the
  end of the `with` block, an exception and the interpreter's exit end it by its id.
- When Python is killed, `watchdog`, a process at the end of a pipe, ends the nodes: when the pipe
  closes it kills them by pidfd (by number where there is no pidfd; a process that was gone when it
  was named is not watched). Linux's parent-death signal would be sent when the thread that started
  the node ends, and needs code between fork and exec.
- Detached brokers leave `broker.json` with process id and time of creation; a process with that id
  but another time is never touched. A second start must fit what runs: release, nodes, port and
  properties that are named are compared with the record; what is not named may be any. So the
  record holds the properties, secrets too. Like `server.properties` only its owner can read it; no
  value of them is shown.
- A temporary data folder is removed at the end, except after a failed start: the error names the
  log in it. Its nodes are killed, not stopped.
- What the broker's own parameters set (nodes, ports, listeners, data) cannot be set as a property.
- Readiness is an answer with metadata that names every node, asked of every node. Kafka creates
  the group coordinator at its first use, a moment later.
- Start time on two cores: 4.1 s (1.1 s of it StorageTool, once per data folder), with the serial
  collector and the first compiler only. An AppCDS archive would take it to 2.0 s; it costs a
  training run per Java and release, and is not done.
"""

from tests.broker.broker import Broker
from tests.broker.group_table import GroupRow, parse_rows
from tests.broker.listeners import Listener
from tests.broker.programs import commands, consumer_groups
from tests.broker.releases import DEFAULT

__all__ = [
    "DEFAULT",
    "Broker",
    "GroupRow",
    "Listener",
    "commands",
    "consumer_groups",
    "parse_rows",
]
