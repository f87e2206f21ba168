"""Translates the `kafka.*` options of a source into the settings of a Kafka client.

- A source's `kafka.*` options have Kafka's Java names, and an allow-list translates them. A name
  under `ssl.`, `sasl.` or `security.` that is not on the list is never dropped silently:
  eo_listener then uses Spark's own Java client for the source. It refuses a source with a dangerous
  option.
- Only `java_names` reads files. A `Cluster` has only the names of its key stores. When the worker's
  thread opens the cluster, it has the shim convert the key stores to PEM, in memory. If that fails,
  the commit fails; the worker reports the failure and tries again.
- `validation` refuses names, addresses and properties that would not reach Kafka unchanged;
  confluent-kafka aborts the process for some of them.
"""
