"""Checks the requirements of commits: takes facts, and returns findings.

Facts about Kafka come from `eo_listener.kafka.cluster_describer`. The functions that judge the
facts read and write nothing; only `child_process` starts a process. Sinks check themselves, with
some of these functions (`check` in the folder of each sink), and
`eo_listener.spark.session.local_check` checks this machine.

- The AdminClient's group requests can crash a process (see `eo_listener.kafka`), and only they
  return a group's type, members and rights. So these requests run in a child process, which reads
  settings from standard input and prints findings (`eo_listener.kafka.cluster_describer`).
- For the check at the start of a listener, the child process runs at low priority and for 90 s at
  most. It checks at most 200 groups of a driver, ten seconds after a query first uses them. If the
  child process dies, the listener only logs that.
"""
