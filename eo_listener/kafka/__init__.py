"""Everything that talks to Kafka: stores of consumer groups, readers of logs, and their clients.

`simple_groups`, `member_groups` and `transactional_groups` commit in three ways: as an outsider, as
a member of the group, and in transactions. `java_groups` commits through Spark's own Kafka client.
Each of these four modules has a `GroupStore`; `group_stores` opens the one that a cluster and a
mode need.

Why the stores do not use the AdminClient for groups:

- Its calls for this, `alter_consumer_group_offsets` and `list_consumer_group_offsets`, can end the
  whole process, and the driver with it. Measured with confluent-kafka 2.16.1 while a broker was
  killed and restarted: an assertion in `rd_kafka_enq_once_del_source_return` at about 1 restart in
  6, and a null pointer if a broker answers NOT_COORDINATOR, as it does while coordinators move and
  at the first request ever on a new cluster (librdkafka#5040; with 2.15.0 too).
- So a commit goes through a Consumer of its group that never subscribes: the Consumer joins no
  group, fetches nothing, and survived all restarts in the same test. The price is one client per
  group instead of one per cluster, each with two connections and four threads.
- If a cluster has more than 128 groups, their clients are closed and opened in turn: 21 commits/s
  of 100 partitions over 1,000 groups, compared with 121/s for 100 groups, and 92/s for Spark's own
  client over 1,000. The stores do not switch to the Java client automatically.

How librdkafka answers:

- When a commit of several partitions fails for one of them, librdkafka reports this partition's
  error for all. So the store reads the group back, and counts a partition as confirmed if the group
  has the offset and metadata that the store has sent.
- librdkafka passes on a broker's reason (a missing right, for example) once, as an error message
  from `poll`. Afterwards it only reports that it waits for a coordinator. `Client` keeps the
  broker's message until a request succeeds.
- These consumers have no session, but they have `session.timeout.ms=5000`: librdkafka holds a
  commit back for that time if there is no coordinator, and `close()` waits for the commit. With the
  default a program took 45 s to end while its broker was down.
- librdkafka's `send_offsets_to_transaction` sometimes never returns (librdkafka#5456, once in about
  100 faults on EndTxn). The store replaces such a producer once the group could be read for 10 s;
  the producer's thread stays, and the tests tolerate that.

Reading logs:

- A request has at most 1,000 partitions: librdkafka looks up each partition of an answer by walking
  through the request, so the time grows with the square of their number. Reading a group of 5,000
  took 117 ms in one request, 40 in five, 29 in ten; if brokers are 2 ms away, ten requests cost
  more than five.
- The readers could request starts and ends while they describe topics, and use the answers if each
  topic still has the id of an earlier snapshot. That saved 70 ms of 295 for a snapshot of 5,000
  logs, and 0.4 ms for a single log. They do not do so: they would have to remember a snapshot, and
  to ignore a failed request, since it may only mean that a topic is gone.

The Java client commits through the Admin of Spark's own kafka-clients, one per store: delegation
tokens, MSK IAM and other handlers exist in Java alone.

- It supports the mode `simple` only.
- With `retries=0` the client never repeats an unanswered request; it repeats only a request that
  was answered with "not now". The outcome of REQUEST_TIMED_OUT remains unknown.
- Each store has one thread in Python for snapshots and commits, since py4j waits for an answer
  without limit: if the store has given up a call, that call must end before the next one begins.

Metadata and NUL: confluent-kafka writes a NUL after each metadata text and needs it when reading;
if a text has no NUL, as every Java client writes it, confluent-kafka reads past its end. So the
Java client here writes the NUL too, and readers strip it. If a text of another program cannot be
decoded, it counts as unreadable; the offset with it is still right.

Open transactions:

- Only Java's client can request the open transactions (KIP-664). A command requests them through
  the shim in a JVM of its own; to end a transaction that its coordinator has, librdkafka takes over
  the transactional id.
- Leaders report a transaction's first offset in a partition, but not its id. Coordinators report
  the id, but leave out transactions that the client has no right to describe, or that they have not
  read yet after a move. So a transaction counts as hanging only if no coordinator names it, this
  client may describe any id, and the transaction's newest record is older than any coordinator lets
  a transaction become (`open_transactions`).
"""
