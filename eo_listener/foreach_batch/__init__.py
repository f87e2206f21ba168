"""Writes each batch of a query to each of its sinks once, and finds the offsets to start at.

The guard's judgement explains why a batch is refused; compare-and-set prevents a wrong write. In
the transaction that writes the rows, each head must still be exactly the head that was read, and
the statements must change exactly one row for each head. This also stops a zombie or a second
driver.

Replays and runs:

- If a batch of a stateful query is a replay, Spark computes its rows, and `exactly_once` discards
  them, because Spark 4.2 fails a query whose state was not written (SPARK-52008). If the query is
  stateless, Spark computes nothing.
- The plan reader finds the run of a batch by the DataFrame's session, because Spark clones the
  session for each run. A local property of the thread names the query too, but only if pyspark pins
  its threads. Under Spark Connect the run is unknown. But Spark Connect starts a new process for
  the user's function each time a query starts. So the process and the query id together identify a
  run, for every `exactly_once` in that process (`QueryPlanReader`).

Rows that are computed once (`DataFrames`):

- If the rows come from a shuffle and an executor is lost, Spark computes some of the rows a second
  time, and the results of the two computations may be inconsistent (`spark/jvm/stage_attempts.py`).
  With several sinks, a frame may read a table that an earlier sink has just written. `persist()`
  does not keep the old rows: when a sink writes a table, Spark drops the cached rows of every plan
  that reads the table. So in both cases eo_listener computes the rows with `localCheckpoint` before
  the first sink writes.
- Spark's status store shows whether a stage ran twice. For a new attempt, eo_listener plans the
  transform again, with new shuffles. But a shuffle of the streaming query itself stays the same in
  every attempt: after its loss the query must be restarted.

After a failure (`SinkWriter`):

- After a conflict, the writer writes the whole entry again.
- After a lost answer to COMMIT, the writer reads the ledger until it shows the outcome.
- If a head has changed since it was read, the runner reads the ledger and judges the batch again.
  It is not an error if a previous driver, which was about to end, has written this very batch. Any
  other move by another driver is an error.
- None of these retries goes on forever. Every other error goes to Spark, which ends the query with
  the error's text.

A batch that a user's function passes to `exactly_once` twice within one run:

- After a call that returned, the same `exactly_once` refuses a second call. The function may pass a
  batch in two parts: if the second call counted as a replay, the second part would be lost. A
  refusal costs only a restart.
- After a call that failed, the second call is a retry, and the ledger decides. eo_listener never
  compares rows: a comparison would be possible only for deterministic plans, and Spark would have
  to compute both DataFrames.
- After a restart the query has a new run id, so the same `exactly_once` accepts a batch that Spark
  repeats.
- If two `exactly_once` have the same sink and name, a replay looks the same to both. So
  `process_writes` records which of the two has written the batch in this run, or has found it
  applied.

Cost:

- Reading the plan of a batch takes 7 ms for 1 or 100 partitions, and 39 ms for 1,000, nearly all of
  it spent waiting for Kafka.
- Reading the offset ranges of the tasks (only with `atomicity="partition"`) takes 6 round trips per
  task: 0.1 s for 100 tasks, 1.4 s for 1,000.
- If the rows come from a shuffle, a batch needs one more Spark job and a read of Spark's status
  store: about 27 ms for a batch of a few rows, measured in one process. Looking for a shuffle in
  the plan takes 1 to 4 ms for every batch.
"""
