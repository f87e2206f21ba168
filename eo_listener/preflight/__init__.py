"""Checks the requirements of commits and of a KafkaSink: takes facts, and returns findings.

Facts about Kafka come from `eo_listener.kafka.cluster_describer`, facts about this machine from
`eo_listener.spark.session.local_facts`. The functions that judge the facts read and write nothing;
only the check at the start of a listener starts a process.

- The AdminClient's group requests can crash a process (see `eo_listener.kafka`), and only they
  return a group's type, members and rights. So the check at the start of a listener runs in a child
  process, `eo-listener preflight --stdin --json`, which reads settings from standard input, and
  prints findings.
- The child process runs at low priority and for 90 s at most. It checks at most 200 groups of a
  driver, ten seconds after a query first uses them.
- The check asks Kafka only to validate the creation of a sink's topic, which creates nothing. It
  tries the permission for the sink's transactional id with a timeout that the brokers refuse before
  they look at the id, so that no query is fenced. If the brokers' longest timeout is unknown, or
  cannot be exceeded, the check does not try the permission, and reports that.
- If the child process dies, the listener only logs that.
"""
