"""The demo: real flights through a real Kafka and a real Spark query, to lag 0.

`run` has the order of all steps; the query is `job`, in a process of its own, which chaos kills.

- Ctrl-C goes to the whole process group. The driver and the broker are sessions of their own, so
  that `run` ends them in order.
- The driver's descriptor 1 leads into the log: the JVM, its launcher and librdkafka write past
  Python, and one line of theirs would break the messages.
- spark-submit is a tree: a shell, below it the JVM that only works out the command line, then the
  real JVM by `exec`. Killing the parent first leaves orphans that cannot be found. So all are
  stopped (SIGSTOP) until no new one appears, and only then killed, at one moment.
- The text of a Spark error comes from the JVM when it is asked for: the driver takes it before it
  ends.
- A dead broker does not end a query: Spark's Kafka client goes on trying. So `run` watches the
  broker's process itself.
- Kafka's own tool decides the verdict. Our own reader decides only when to stop waiting.
- All files are in one folder, `java.io.tmpdir` of both JVMs too, since a JVM that is killed leaves
  its unpacked libraries behind. It is removed at the end, unless the demo has failed.
- The first 500 flights are sent alone. Spark's first batch takes long, and would otherwise be most
  of what there is to see.
"""
