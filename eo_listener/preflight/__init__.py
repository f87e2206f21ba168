"""Checks the requirements of commits and of a KafkaSink: facts in, findings out.

Facts about Kafka come from `eo_listener.kafka.cluster_describer`, those about this machine from
`eo_listener.spark.session.local_facts`. The judgement is pure; only the check at the start of a
listener starts a process.

- The AdminClient's group calls can end a process (see `eo_listener.kafka`), and only they give a
  group's type, members and rights. So the check is a child process, `eo-listener preflight --stdin
  --json`: settings go in by standard input, findings come out.
- It runs at low priority and for 90 s at most. At most 200 groups of a driver are checked, ten
  seconds after the first commit to them.
- A sink's topic is created with validation only, which creates none. Permission for its
  transactional id is tried with a timeout that the brokers refuse before they look at the id, so
  that no query is fenced; if their longest timeout is not known, or cannot be exceeded, it is not
  tried, and the check says so.
- If the child dies, that is reported and nothing else happens.
"""
