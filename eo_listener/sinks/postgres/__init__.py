"""PostgreSQL: rows by COPY, in the transaction that moves the ledger.

The transaction:

- The heads are locked and compared before the first row is copied, so that a zombie finds out
  early; they are moved at the end. Only the heads of the batch's own partitions are locked: of
  topics that carry a date there may be thousands that are not read.
- A batch waits for the server seven times (tests/sinks/postgres/test_round_trips.py). Psycopg's
  pipeline mode sends what needs no answer in between, and `SAVEPOINT; COPY; RELEASE` goes as one
  text. A kept connection is not probed first: what is asked first is asked again on a new one.
- The first 60 COPYs of a transaction have a savepoint. Of more than 64 subtransactions of a
  backend the server forgets some, and every snapshot has to read pg_subtrans. A row that is
  refused after them makes the batch begin again, with a savepoint for each COPY. Tasks that write
  to a staging table commit after 60 instead; a task with its partition's own transaction is
  repeated by Spark.
- The schema is looked up once per sink object, and every statement names it: `search_path` decides
  nothing, not even inside `apply=`.
- COMMIT is sent and awaited by our own code, so that a lost answer can be distinguished from a
  refusal.
- A backend whose client was stopped keeps its locks whatever time-outs are set.
  `pg_terminate_backend` ends it, but only one that has this sink's and query's application name
  and holds the ledger.

COPY:

- The server takes a chunk while the next one is made: COPY is sent whole and its answer is read
  later. Waiting for each answer cost a quarter of the time. The statement must not simply stay
  open: its time would run, against statement_timeout, while Spark computes.
- The server idles between two chunks, so a chunk has 40,000 rows. With 10,000 the sink was 5 to 10
  % behind a bare COPY, with 40,000 it is 1 to 5 %.

How rows get there (`write_method=`, `atomicity=`), found in three steps:

- `write_methods` (pure) says which write method the size of the batch and the user ask for.
  `executor_check` has found out with the first batch what speaks against it. `method_choice` asks
  Spark which partition each task reads.
- A sink with `atomicity="partition"` is always judged partition by partition, so the method may
  change from batch to batch, and within a batch: if only some partitions are left, the driver takes
  the rows of their tasks alone (`spark_partition_id()`).

Tasks on the executors:

- A task raises what may pass (a lost connection, a deadlock, an unknown outcome), so that Spark
  repeats it. It returns anything else as its result, because an error of a task reaches the driver
  only as text. In the last attempt that Spark allows everything is returned, and then the whole
  batch is repeated. `local[2]` allows one attempt, whatever `spark.task.maxFailures` says.
- A repeated task reads its head before it computes anything. While the COMMIT of the earlier
  attempt is in flight, the head is locked: the successor waits for the lock, finds the head
  moved, sees that it moved it itself, and writes nothing.
- A worker keeps its connection by conninfo and process id, because Spark forks workers from a
  daemon. If a function returns the dsn, nothing is kept.

Staging, and what was not built:

- Each staged line ends with the attempt that wrote it. A default that asks for it
  (`current_setting`) cost a fifth of COPY's time.
- One cost of staging cannot be avoided. The statement that moves the rows must check that column
  and leave it out, so it takes each row apart and builds it again, whereas a bare `INSERT ...
  SELECT` passes it on whole: 1.25 s instead of 0.87 for 1.5 million rows. That is most of what
  staging costs beyond a bare COPY.
- A batch is never attached as a partition of the table, though that was measured at a fifth of
  staging's CPU with two indexes. Its rows would be committed before they are attached, so a reader
  in REPEATABLE READ would see them without their ledger entry, and triggers and publications would
  not see them at all. Every reader pays for a partition for each batch. See also
  docs/how-to/postgres.md.
"""

from eo_listener.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
