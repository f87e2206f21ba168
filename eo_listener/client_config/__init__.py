"""Translates the `kafka.*` options of a source into the settings of a Kafka client.

- A source's `kafka.*` options have Kafka's Java names. An allow-list translates them. A name under
  `ssl.`, `sasl.` or `security.` that is not on the list is never dropped silently: the source uses
  Spark's own Java client, or is refused if that would be dangerous.
- Only `java_names` reads files. A cluster carries the names of its key stores. When the worker's
  thread opens the cluster, it has the shim convert the key stores to PEM, in memory. If that fails,
  the commit fails; the worker reports it and tries again.
- `validation` refuses names, addresses and properties that would not reach Kafka unchanged;
  confluent-kafka aborts the process for some of them.
"""
