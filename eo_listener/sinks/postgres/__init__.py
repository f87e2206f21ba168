"""The PostgreSQL sink: writes rows with COPY, in the transaction that moves the ledger.

The transaction:

- The sink locks the heads, and compares them with the heads that the batch expects, before it
  copies the first row, so that a zombie fails early. It moves the heads at the end. It locks only
  the heads of the batch's own partitions: if the names of topics contain a date, there may be
  thousands of other heads, whose partitions are no longer read.
- A batch waits for the server seven times (tests/sinks/postgres/test_round_trips.py). Psycopg's
  pipeline mode sends several statements without waiting for the answers in between, and the sink
  sends `SAVEPOINT; COPY; RELEASE` as one text. The sink does not probe a kept connection first: if
  the connection is lost, the sink repeats the first request on a new one.
- The first 60 COPYs of a transaction have a savepoint. If a backend has more than 64
  subtransactions, the server keeps only some of them in memory, and every snapshot has to read
  pg_subtrans. If the server refuses a row after the 60 COPYs, the batch begins again, with a
  savepoint for each COPY. If this happens in a task that writes a partition in its own transaction,
  Spark repeats only the task. A task that writes to a staging table commits after 60 COPYs instead.
- A sink object looks up the table's schema once, and every statement names that schema: a later
  change of `search_path` has no effect, not even inside `apply=`.
- The sink sends COMMIT with code of its own, not with psycopg's `commit`, so that it can
  distinguish a lost answer from a rollback.
- A backend whose client was stopped keeps its locks, whatever time-outs are set. The sink ends such
  a backend with `pg_terminate_backend`, but only if the backend has the application name of this
  sink and query, and holds a lock on the ledger.

COPY:

- The server processes a chunk while the sink makes the next chunk: the sink sends a whole COPY, and
  reads the answer later. Waiting for each answer before the next chunk cost a quarter of the time.
  The sink does not keep one COPY open for all rows: the time in which Spark computes would then
  count against statement_timeout.
- The server idles between two chunks, so a chunk has 40,000 rows. With 10,000 rows the sink was 5
  to 10 % slower than a bare COPY, with 40,000 it is 1 to 5 % slower.

The choice of the write method (`write_method=`, `atomicity=`), in three steps:

- `write_methods` (pure functions) determines the method from the user's arguments and the size of
  the batch. `executor_check` checks, with the first batch, whether anything prevents that method.
  `method_choice` asks Spark which partition each task reads.
- With `atomicity="partition"`, `exactly_once` always judges each partition on its own, so the
  method may change from batch to batch, and within a batch. If only some partitions are still to be
  written, the driver fetches only the rows of their tasks (`spark_partition_id()`).

Tasks on the executors:

- A task raises a temporary error (a lost connection, a deadlock, an unknown outcome), so that
  Spark repeats the task. It returns any other error as its result, because an error that a task
  raises reaches the driver only as text. In the last attempt that Spark allows, a task returns
  every error, and then the driver repeats the whole batch. `local[2]` allows one attempt, whatever
  `spark.task.maxFailures` says.
- A repeated task reads its head before it computes anything. While the COMMIT of the earlier
  attempt is in flight, the head is locked: the new attempt waits for the lock, finds that its
  task has already moved the head, and writes nothing.
- A worker stores its connection under its conninfo and process id, because Spark forks workers from
  a daemon. If the user gives a function that returns the dsn, the worker keeps no connection.

Staging, and designs that were rejected:

- Each staged line ends with the number of the attempt that wrote it. The alternative, a column
  default that reads this number (`current_setting`), cost a fifth of COPY's time.
- One cost of staging cannot be avoided. The statement that moves the rows must check the number of
  the attempt and leave it out of the target, so it takes each row apart and builds it again,
  whereas a bare `INSERT ... SELECT` passes on whole rows: 1.25 s instead of 0.87 s for 1.5 million
  rows. That is most of the time that staging takes beyond a bare COPY.
- The sink never attaches a batch as a partition of the table, although that took only a fifth of
  staging's CPU time with two indexes. The rows would be committed before they are attached, so a
  reader in REPEATABLE READ would see them without their ledger entry, and triggers and publications
  would not see them at all. Every reader would pay for one partition per batch. See also
  docs/how-to/postgres.md.
"""

from eo_listener.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
