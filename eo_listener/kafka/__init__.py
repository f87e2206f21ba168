"""Everything that talks to Kafka: stores of consumer groups, readers, and their clients.

The three identities under which commits are made are `simple_groups`, `member_groups` and
`transactional_groups`; `java_groups` commits through Spark's own Kafka client. All four are a
`GroupStore`; `group_stores` opens the one that a cluster and a mode need.

No AdminClient for groups:

- The AdminClient's natural calls, `alter_consumer_group_offsets` and `list_consumer_group_offsets`,
  can end the whole process, and the driver with it. Measured with confluent-kafka 2.16.1 while a
  broker was killed and restarted: an assertion in `rd_kafka_enq_once_del_source_return` at about 1
  restart in 6, and a null pointer if a broker answers NOT_COORDINATOR: while coordinators move, and
  at the first request ever on a new cluster (librdkafka#5040; with 2.15.0 too).
- So a commit goes through a Consumer of its group that never subscribes: it joins nothing, fetches
  nothing, and survived all restarts in the same test. The price is one client per group instead of
  one per cluster, each with two connections and four threads.
- Groups beyond 128 on one cluster are closed and opened in turn: 21 commits/s of 100 partitions
  over 1,000 groups, compared with 121/s for 100 groups, and 92/s for Spark's own client over 1,000.
  Switching to the Java client automatically beyond 128 groups is not built.

Answers:

- When a commit of several partitions fails for one of them, librdkafka reports its error for all.
  So the group is read back, and a partition whose offset and metadata are what was sent counts as
  confirmed.
- A broker's reason comes once, as an error message out of `poll` (a missing right, for example).
  Afterwards librdkafka only says that it waits for a coordinator. `Client` keeps the broker's
  message until a request succeeds.
- `session.timeout.ms=5000` on these consumers concerns no session: librdkafka holds a commit back
  that long when there is no coordinator, and `close()` waits for it. With its default a program
  took 45 s to end while its broker was down.
- A transactional producer that hangs: librdkafka's `send_offsets_to_transaction` sometimes never
  returns (librdkafka#5456, once in about 100 faults on EndTxn). The producer is replaced after 10
  s in which the group could be read; its thread stays, and the tests tolerate such a thread.

Reading logs:

- Requests have 1,000 partitions: librdkafka looks up each partition of an answer by walking through
  the request, so its time grows with their square. Reading a group of 5,000 took 117 ms in one
  request, 40 in five, 29 in ten; if brokers are 2 ms away, ten cost more than five.
- Starts and ends could be asked while topics are described, and used where each topic has the id
  of an earlier snapshot. That took 70 ms of 295 off a snapshot of 5,000 logs, and 0.4 off one of a
  single log. It is not done: it needs a memory between snapshots, and a failure would have to be
  kept quiet, because it may only mean that a topic is gone.

The Java client commits through the Admin of Spark's own kafka-clients, one per store: delegation
tokens, MSK IAM and other handlers exist in Java alone.

- Mode `simple` only.
- `retries=0`, so the client never repeats an unanswered request; what is repeated is an answered
  "not now". REQUEST_TIMED_OUT remains of unknown outcome.
- Its snapshots and commits each have one thread in Python, since py4j waits without limit: a call
  that was given up must end before the next one goes out.

Metadata and NUL: confluent-kafka writes a NUL after each metadata text and needs it when reading;
it reads past the end of a text without one, which every Java client writes. So the Java client
writes the NUL too, readers strip it, and an undecodable text of another program counts as
unreadable. Its offset is still right.

Transactions that are open:

- Java's client alone can ask for them (KIP-664). A command does so through the shim in a JVM of
  its own; the id of one that its coordinator has is taken over by librdkafka.
- Leaders report a transaction's first offset in a partition, but not its id. Coordinators report
  the id, and leave out transactions that the client may not describe, or that they have not read
  yet after a move. So a transaction hangs only if no coordinator names it, this client may describe
  any id, and the newest record is older than coordinators let a transaction become
  (`open_transactions`).
"""
