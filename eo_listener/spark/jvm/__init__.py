"""Calls Spark's JVM. Only this package uses py4j, whose objects have no types.

This package does not read or write Kafka, and makes no decisions.

Calls into the JVM:

- A dead JVM causes `Py4JNetworkError`, plain `Py4JError` ("an error occurred while calling") or
  `ConnectionRefusedError`, depending on the state of the connection. `calls` turns each of them
  into `JvmError`.
- pyspark replaces some Java exceptions with its own classes (`IllegalArgumentException` becomes a
  `PySparkException`), which do not derive from `Py4JError`.

Events:

- `event.json()` is public for all four events from Spark 3.5 to 4.2. The text of a progress event
  wraps the progress in `{"progress":...}`, which `unwrapped` removes from the text.
- One event keeps Spark's listener thread busy for about 0.5 ms, but for about 100 ms with pyspark's
  own Python listener (2 busy cores, 3.5.7 to 4.2.0).
- No exception leaves a callback. In the JVM an exception would write a stack trace to Spark's log
  for every event, and for `onQueryStarted` it would be raised on the query's own thread.

Queries:

- Options are never read in `onQueryStarted`: the sources do not exist yet, and `logicalPlan` is a
  lazy value that the query's own thread must compute. `LiveQueries` holds started queries until
  their end is processed, since Spark's object of a query still answers calls after the query has
  ended.
- Without the shim, `options_by_reflection` and `by_reflection` take the same steps over py4j. Tests
  compare the two ways for every kind of query, and for every step that a query can take between two
  calls. Reading a position takes 3 round trips with the shim, and 30 to 70 without it.
"""
