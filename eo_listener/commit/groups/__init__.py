"""Commits to each consumer group the offsets that are offered for it.

`Committer` has a `Worker`, with its own thread, for each cluster. The worker's `ClusterState` has a
`GroupState` for each group, which has a `PartitionState` for each partition. These three classes do
no input or output: they get the time as an argument, return requests as values, and take the
answers as arguments. The worker sends the requests through a `GroupStore`.

Reads before commits:

- Before a commit the worker reads a snapshot (`GroupSnapshot`): the group's offsets and their
  metadata, the starts and ends of the logs, and the topic ids. The worker takes a new snapshot if
  the last one is more than a minute old, after every failure, and if the process stood still for 15
  s (SIGSTOP, a suspended machine), because another driver may be running by then.
- The snapshot decides. `GroupState` refuses an offset below the group's offset, unless the rewind
  is allowed. It refuses an offset beyond the log's end, and also reports the offset if Kafka
  confirmed it before. It no longer commits offsets of a topic whose id has changed. If confirmed
  offsets have disappeared, it reports them (`ForeignCommit`, `GroupOffsetsMissing`) and commits
  them again.
- The group compares refused offsets with a new snapshot each minute, and commits them once the
  cause is gone. The offsets of a deleted topic stay unconfirmed until the driver ends: the group
  retries its partitions each minute, and reports them at the end.
- If the broker refuses a topic, the snapshot has that topic's error and the facts of the other
  topics. The errors of OffsetFetch count too: otherwise, if Kafka refused a topic in OffsetFetch
  and described the topic a moment later, the group would seem to hold no offsets of the topic.
- A partition keeps the last 20 starts of its log, each with the time of its snapshot. The guard
  judges a batch with `failOnDataLoss=false` by the start that was known when Spark planned the
  batch; snapshots taken while the batch runs must not hide that start.

The size of requests:

- The coordinator writes the offsets of one request as one record batch. 4,500 partitions with
  eo_listener's metadata fit into the default limit of 1 MB, and 5,000 do not
  (INVALID_COMMIT_OFFSET_SIZE before Kafka 4.0, UNKNOWN since). So a request has at most 1,000
  partitions and 500 KB. After one of these errors, a request has half as many partitions. A
  snapshot has at most 2,000 partitions. 20,000 partitions take about 8 s on a busy machine.
- A group plans only the partitions that changed, and fills a request with those that have waited
  longest. It keeps partitions that only wait for a repeated commit separate from these. After its
  request, a partition goes behind the other partitions of its group, and the group behind the other
  groups of its cluster: if batches arrive faster than all their parts are committed, a fixed order
  would leave the same partitions behind forever. Groups with fewer failures go first, but after at
  most ten such requests the group that has waited longest goes next.

Requests of unknown outcome:

- A request whose outcome is unknown may still arrive after the next one and move the group back. So
  the next confirmed commit is repeated once, a minute later. The first commit of a driver is
  repeated too, because a killed earlier driver may have left a request in the network.
- librdkafka itself repeats a commit if its connection fails. So if a connection was lost during a
  commit, or the commit took longer than the client's socket time-out, its outcome counts as unknown
  despite an answer.
- `eo_listener.model.kafka_errors` distinguishes lasting refusals from temporary ones. A broker that
  has just started answers UNKNOWN_TOPIC_OR_PART for topics that it will know in a moment. So the
  first retry after a refusal comes one second later, and only the refused partitions wait.

The beginning of a checkpoint: before the first commit of a query's run, `PartitionState` compares
the group with the offset at which the query's checkpoint began (`Beginning`). If another writer's
offset in the group is lower, nothing has read the records between, and the partition is withheld.
While other live runs feed the partition, the comparison waits: the group does not pass the slowest
run.

The guard's mark: a withheld source must stay withheld after a restart, when the checkpoint alone no
longer shows the violation. So the worker commits the group's offset again, with `"g":1` in the
metadata. The next driver finds the mark in its first snapshot, and sends nothing newer unless it
was started with `guard="warn"`.

Five minutes after the last run stopped feeding a cluster, the cluster's worker ends and closes its
clients, unless an offset waits or is withheld. Each set of credentials counts as a separate
cluster, so a driver whose passwords rotate would otherwise collect clients forever. The text of its
settings identifies a cluster. The cluster's id would be known only after a connection, and the
tracker's thread must not wait for a connection.
"""
