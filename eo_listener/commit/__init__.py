"""Commit offsets to consumer groups: off Spark's thread, merged, retried, bounded.

`tracking` finds out what each run of a query has made durable and which groups it goes to, on one
thread. `groups` brings each group there, on one thread for each cluster. One value crosses the
border, downwards only: `GroupOffsets`. No foreign library is used here; Kafka and Spark are
reached through the protocols of `eo_listener.model.protocols`, so that the model of
tests/model_checking drives the same code.

Cost: a commit of 100 partitions takes about 3 ms of Python in all, 2.6 of them in the group store;
`python -m benchmarks.committer` measures it. With a thousand queries, anything that walks over all
partitions or all groups at each step would take the whole thread. So both halves ask only what has
changed (`DueTimes`).
"""
