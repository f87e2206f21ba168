"""From the `kafka.*` options of a source to the settings of a Kafka client.

- A source's `kafka.*` options have Kafka's Java names. An allow-list translates them. A name under
  `ssl.`, `sasl.` or `security.` that is not on the list is never dropped silently: the source uses
  Spark's own Java client, or is refused if that would be dangerous.
- No file is read here. A cluster carries the names of its key stores. When the worker's thread
  opens the cluster, it has the shim turn them into PEM, in memory. A failure there is a failure of
  that commit, reported and tried again.
- `validation` refuses names, addresses and properties that a Kafka client would not get whole;
  confluent-kafka aborts the process for some of them.
"""
