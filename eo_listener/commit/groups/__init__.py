"""Bring each consumer group to the offsets that are offered for it.

`Committer` has a `Worker`, a thread, for each cluster. Its `ClusterState` has a `GroupState` for
each group, which has a `PartitionState` for each partition. The three states are pure: time comes
in as an argument, requests go out as values, answers come back. The worker does what they ask for,
through a `GroupStore`.

Reading before writing:

- Before a commit the group is read (`GroupSnapshot`): its offsets and their metadata, the starts
  and ends of the logs, the topic ids. A snapshot is taken again when the last one is more than a
  minute old, after every failure, and when the process stood still for 15 s (SIGSTOP, a suspended
  machine), because a successor may be running by then.
- A snapshot decides: an offset below the group is refused, unless the rewind is allowed; an offset
  beyond the log's end is refused, and reported if it was confirmed before; a topic with another id
  is no longer committed; confirmed offsets that have disappeared are reported (`ForeignCommit`,
  `GroupOffsetsMissing`) and committed again.
- Refused offsets are compared with a new snapshot each minute, so they recover by themselves when
  the cause is gone. A topic that is gone for good stays unconfirmed until the driver ends: its
  partitions are retried each minute, and named at the end.
- A snapshot reports the error of a topic that the broker refuses together with the facts of the
  others. OffsetFetch's own errors count too: if it refuses a topic that is described a moment
  later, the group would seem to hold nothing there.
- A partition keeps the last 20 starts of its log, each with the time of its snapshot. A batch with
  `failOnDataLoss=false` is judged by the start that was known when it was planned; snapshots taken
  while it runs must not hide that.

How much is sent:

- The coordinator writes what one request commits as one record batch. 4,500 partitions with our
  metadata fit into its default of 1 MB, 5,000 do not (INVALID_COMMIT_OFFSET_SIZE before Kafka 4.0,
  UNKNOWN since). So a request has at most 1,000 partitions and 500 KB, half as many after such an
  answer, and a snapshot 2,000. 20,000 partitions take about 8 s on a busy machine.
- A group plans only the partitions that changed, takes those that have waited longest until a
  request is full, and keeps partitions apart that only wait for a retry. A partition that was
  served goes behind the others of its group, a group behind those of its cluster: if a batch
  arrives before all parts of the last one are committed, any fixed order would leave the same
  partitions behind forever. Groups with fewer failures go first, but no more than ten requests
  before the one that has waited longest.

Requests of unknown outcome:

- A request whose outcome is unknown may still arrive after the next one and move the group back.
  So the next confirmed commit is repeated once, a minute later. The first commit of a driver is
  repeated too, because a killed predecessor may have left a request in the network.
- librdkafka repeats a commit by itself when its connection fails. A commit during which a
  connection was lost, or that took longer than the client's socket time-out, counts as unknown
  although it was answered.
- Refusals that last and refusals that pass are distinguished by `eo_listener.model.kafka_errors`. A
  broker that has just started answers UNKNOWN_TOPIC_OR_PART for topics that it will know in a
  moment. So a refusal is repeated after a second at first, and only its own partitions wait.

The guard's mark: a withheld source must stay withheld after a restart, when the checkpoint alone
no longer shows what was wrong. So the offset that the group holds is committed again, with
`"g":1` in its metadata. The next driver finds the mark in its first snapshot, and sends nothing
newer unless it was started with `guard="warn"`.

The worker of a cluster that no run feeds any longer ends five minutes later, with its clients, if
nothing waits and nothing is withheld. Each set of credentials is a cluster of its own, so a driver
whose passwords rotate would otherwise collect clients forever. A cluster is identified by the text
of its settings: its id would be known only after a connection, for which the tracker's thread must
not wait.
"""
