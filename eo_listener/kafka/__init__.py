"""Talks to Kafka: group stores, readers of logs, and the clients that both use.

`simple_groups`, `member_groups` and `transactional_groups` commit in three ways: without joining
the group, as a member of the group, and in transactions. `java_groups` commits through Spark's own
Kafka client. Each of these four modules has a `GroupStore`; `group_stores` opens the right
`GroupStore` for a cluster and a mode.

Why the group stores do not use the AdminClient:

- Its calls `alter_consumer_group_offsets` and `list_consumer_group_offsets` can end the whole
  process, and the driver with it. Measured with confluent-kafka 2.16.1 while a broker was killed
  and restarted: an assertion in `rd_kafka_enq_once_del_source_return` failed at about 1 restart in
  6, and librdkafka followed a null pointer if a broker answered NOT_COORDINATOR (librdkafka#5040;
  with 2.15.0 too). A broker gives this answer while coordinators move, and to the first request on
  a new cluster.
- So a commit goes through a Consumer that has the group's name and never subscribes: the Consumer
  joins no group, fetches nothing, and survived all restarts in the same test. The price is that
  each group needs a client, instead of one client for each cluster. Each client has two connections
  and four threads.
- If a cluster has more than 128 groups, the group store closes and opens their clients in turn.
  With 1,000 groups this allows 21 commits/s of 100 partitions each; with 100 groups, 121/s. Spark's
  own client reaches 92/s with 1,000 groups. A group store does not switch to the Java client
  automatically.

How librdkafka answers:

- When a commit of several partitions fails for one partition, librdkafka reports that partition's
  error for all partitions. So the group store reads the group back, and counts a partition as
  confirmed if the group has the offset and metadata that were sent.
- librdkafka passes on a broker's reason (a missing right, for example) once, as an error message
  from `poll`. Afterwards librdkafka reports only that it waits for a coordinator. `Client` keeps
  the broker's message until a request succeeds.
- These consumers have no session, but they set `session.timeout.ms=5000`: if there is no
  coordinator, librdkafka holds a commit back for that time, and `close()` waits for the commit.
  With the default of 45 s, a program took 45 s to end while its broker was down.
- librdkafka's `send_offsets_to_transaction` sometimes never returns (librdkafka#5456, once in about
  100 faults on EndTxn). If the group could be read for 10 s and the call has still not returned,
  the group store replaces the producer. The old producer's thread stays, and the tests tolerate
  that.

Reading logs:

- A request has at most 1,000 partitions: librdkafka looks up each partition of an answer by walking
  through the request, so the time grows with the square of the number of partitions. Reading a
  group of 5,000 partitions took 117 ms in one request, 40 ms in five, and 29 ms in ten; if brokers
  are 2 ms away, ten requests cost more than five.
- The readers request starts and ends after they have described the topics, not at the same time.
  Requesting both at once saved 70 of 295 ms for a snapshot of 5,000 logs, and 0.4 ms for a single
  log. But then the readers would have to remember earlier topic ids, use the answers only if the
  ids are still the same, and ignore a failed request, because it may only mean that a topic is
  gone.

The Java client (`java_groups`) is the Admin client of Spark's own kafka-clients; each `JavaGroups`
has one. This client is needed because only the Java client supports delegation tokens, MSK IAM and
other login handlers.

- The Java client supports only the mode `simple`.
- With `retries=0` the client never repeats an unanswered request; it repeats only a request that
  the broker answered with a temporary error. The outcome of REQUEST_TIMED_OUT remains unknown.
- Each `JavaGroups` has one thread in Python for snapshots and commits, since py4j waits for an
  answer without limit. If `JavaGroups` has stopped waiting for a call, that call must end before
  the next call begins.

Metadata and NUL: confluent-kafka writes a NUL after each metadata text, and needs the NUL when it
reads a text. Java clients write no NUL, and confluent-kafka then reads past the end of the text. So
`java_groups` writes the NUL too, and readers strip it. If another program's text cannot be decoded,
readers report the metadata as unreadable; its offset is still right.

Open transactions:

- Only Java's client can list open transactions (KIP-664). A command lists them through the shim, in
  a separate JVM. To end a transaction that a coordinator knows, the command takes over the
  transactional id with librdkafka.
- Leaders report a transaction's first offset in a partition, but not its id. Coordinators report
  the id, but leave out transactions that the client has no right to describe, and transactions that
  a coordinator has not read yet after it moved to another broker. So a transaction counts as
  hanging only if no coordinator names it, this client has the right to describe every id, and the
  transaction's newest record is more than 15 minutes old, the default of
  `transaction.max.timeout.ms` (`open_transactions`).
"""
