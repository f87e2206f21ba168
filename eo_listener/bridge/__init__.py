"""The committer as a separate process, for a driver that runs no Python code of eo_listener.

The shim starts the bridge as `python -m eo_listener.bridge`, and sends it the events of Spark's
listeners. `messages` has the format of the lines in the pipe, which DESIGN.md describes;
jvm-shim/README.md describes the Java side.

- `SettledRunReporter` asks the committer, not Kafka, whether a run is settled: it remembers the
  offsets that wait in the groups of the ended run, and checks, partition by partition, which of
  them still wait. A flush would instead retry every group of the driver at once, again and again,
  and would never end if Kafka refuses a group.
- The bridge sends `forget` for an ended run only when all its last offsets are confirmed, or
  refused by Kafka or by eo_listener. A refusal may last forever; then the next start of the query
  catches up.
- After a time limit, `faulthandler.dump_traceback_later(exit=True)` ends the process, even if no
  Python code can run.
- If the driver is killed while the bridge is stopped, Linux sends the bridge SIGCONT
  (`PR_SET_PDEATHSIG`), not SIGKILL: the bridge continues, sees the end of its pipe, commits and
  ends. Linux also sends the signal when only the thread that started the bridge ends; SIGCONT then
  does no harm.
- The bridge ignores SIGTERM: YARN and terminals send it to all processes of a container at once,
  and the bridge still has the last offsets to commit.
- The shim sets `PYTHONSAFEPATH`: otherwise `python -m` would import from the driver's folder, which
  may have a `logging.py`.
"""
