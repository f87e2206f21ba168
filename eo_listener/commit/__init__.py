"""Commits offsets to consumer groups, outside Spark's thread, with retries and in limited memory.

`tracking` finds out, on one thread, which offsets each run of a query has made durable, and which
groups get them. `groups` commits them to each group, on one thread for each cluster. Only
`GroupOffsets` pass from `tracking` to `groups`, and nothing passes back. Both packages reach Kafka
and Spark only through the protocols of `eo_listener.model.protocols`, so that the model of
tests/model_checking drives the same code.

Cost: a commit of 100 partitions takes about 3 ms of Python, of which 2.6 ms are in the group store;
`python -m benchmarks.committer` measures this. With a thousand queries, a loop over all partitions
or all groups at each step would take all the time of a thread. So both packages look only at items
that have changed (`DueTimes`).
"""
