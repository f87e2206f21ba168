"""Access to Spark's JVM: the only package that uses py4j, whose objects have no types.

Nothing here reads or writes Kafka, or decides anything.

Calls into the JVM:

- A dead JVM shows itself as `Py4JNetworkError`, as plain `Py4JError` ("an error occurred while
  calling") or as `ConnectionRefusedError`, depending on what the connection was doing. `calls`
  turns each into `JvmError`.
- pyspark replaces some Java exceptions with its own classes (`IllegalArgumentException` becomes a
  `PySparkException`), which do not derive from `Py4JError`.

Events:

- `event.json()` is public for all four events from Spark 3.5 to 4.2. The text of a progress
  event wraps the progress in `{"progress":...}`, which `unwrapped` cuts off as text.
- One event keeps Spark's listener thread busy for about 0.5 ms; with pyspark's own Python listener
  for about 100 ms (2 busy cores, 3.5.7 to 4.2.0).
- No exception leaves a callback. In the JVM it would be a stack trace in Spark's log for every
  event, and for `onQueryStarted` it would be on the query's own thread.

Queries:

- Options are never read in `onQueryStarted`: the sources do not exist yet, and `logicalPlan` is a
  lazy value that the query's own thread must compute. `LiveQueries` holds started queries until
  their end is processed, because a query also answers after its end.
- Without the shim, `options_by_reflection` and `by_reflection` take the same steps over py4j. Tests
  compare both ways for every shape of query, and for every way in which a query can go on between
  two calls. To read a position takes 3 round trips with the shim, 30 to 70 without it.
"""
