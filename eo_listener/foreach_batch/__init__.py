"""Writes each batch of a query to each of its sinks once, and finds the offsets to start at.

The judgement explains why a batch is refused; compare-and-set prevents a wrong write. In the
transaction that writes the rows, each head must still be exactly the head that was read, and each
statement must change exactly one row. This also stops a zombie or a second driver.

Facts that count, and facts that do not:

- A replay of a stateful query is computed and its rows are discarded, because Spark 4.2 fails a
  query whose state was not written (SPARK-52008). For a stateless query, Spark computes nothing.
- The plan reader finds the run of a batch by the DataFrame's session, of which each run has a
  clone. The thread's local property names the query only if pyspark pins its threads. Under Spark
  Connect the run is unknown. There Spark starts a process for the function at each start of a
  query, so the process and the query id together identify a run, for all its `exactly_once`
  (`plan_reader`).

Rows that are computed once (`data_frames`):

- If a shuffle precedes the rows, a lost executor makes Spark compute a part of them a second time,
  and rows of the two computations need not fit together (`spark/jvm/stage_attempts.py`). With
  several sinks, a frame may read a table that an earlier sink has just written: `persist()` is not
  a copy, as Spark drops the cached rows of a plan that reads the table. So in both cases the rows
  are computed by `localCheckpoint` before the first sink writes.
- Spark's status store shows if a stage ran twice. For a new try, eo_listener plans the transform
  again, with new shuffles. A shuffle of the streaming query itself stays the same for all tries, so
  that only a restart helps.

After a failure (`SinkWriter`):

- After a conflict, the writer tries the whole entry again.
- After a lost answer to COMMIT, the writer reads the ledger until it shows the outcome.
- If a head has changed since it was read, the runner reads the ledger and judges the batch again: a
  previous driver that was about to end may have written this very batch, which is not an error. Any
  other move by another driver is an error.
- All these retries are limited. Every other error goes to Spark, which ends the query with its
  text.

A batch that a user's function passes twice within one run:

- After a call that returned, the same `exactly_once` refuses a second call: the function may write
  in parts, and the second part would be lost, while a refusal costs a restart.
- After a call that failed, the second call is a retry, and the ledger decides. eo_listener never
  compares rows: a comparison is possible only for deterministic plans, and must compute both
  DataFrames.
- A restart of the query has a new run id, so the same object accepts a batch again that Spark
  repeats.
- Of two `exactly_once` for one sink and name, `process_writes` records which has written the batch
  in this run, or found it applied, because a replay looks the same to both.

Cost:

- A plan takes 7 ms for 1 or 100 partitions, and 39 ms for 1,000, nearly all of it Kafka's answers.
- The task ranges (only with `atomicity="partition"`) take 6 round trips per task: 0.1 s for 100
  tasks, 1.4 s for 1,000.
- Rows after a shuffle cost one job more and a look at the store: about 27 ms for a batch of a few
  rows, measured in one process. Looking for a shuffle in the plan takes 1 to 4 ms for every batch.
"""
