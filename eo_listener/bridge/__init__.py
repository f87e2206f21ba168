"""The committer as a process of its own, for a driver that runs no Python of ours.

The shim starts it as `python -m eo_listener.bridge` and sends it the events of Spark's listeners.
`messages` has the lines of the pipe, which DESIGN.md describes; jvm-shim/README.md has the other
side.

- `SettledRunReporter` asks the committer, not Kafka, when a run is settled: it compares what waits
  in the groups of the ended run, partition by partition. Waiting for "all is confirmed" would retry
  every group of the driver immediately, again and again, and never end if one is refused.
- `forget` is sent only when the last offsets of an ended run are confirmed, or refused by Kafka or
  by us. That may last forever; the next start of the query catches up.
- A time limit that needs no running Python ends the process:
  `faulthandler.dump_traceback_later(exit=True)`.
- A stopped bridge and a killed driver: `PR_SET_PDEATHSIG` with SIGCONT, not SIGKILL. The bridge
  goes on, sees the end of its pipe, commits and ends. That the signal belongs to the death of a
  thread does no harm then.
- SIGTERM is ignored: YARN and terminals send it to all processes of a container at once, and the
  bridge still has the last offsets to commit.
- The shim sets `PYTHONSAFEPATH`: otherwise `python -m` would import from the driver's folder, which
  may have a `logging.py`.
"""
