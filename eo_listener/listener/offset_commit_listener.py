"""The listener that users add: it wires Spark's events to the committer."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from eo_listener.commit.tracking.group_names import Groups
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.errors import JvmError
from eo_listener.events import Observer
from eo_listener.listener.commit_service import CommitService
from eo_listener.listener.settings import (
    FLUSH_TIMEOUT,
    Guarding,
    Mode,
    Rewinding,
    Settings,
)
from eo_listener.model.argument_checks import require_observers, require_seconds
from eo_listener.model.fault_points import fault_point
from eo_listener.observers.metrics.address import LOOPBACK

if TYPE_CHECKING:
    from eo_listener.spark.jvm.driver import Driver

logger = logging.getLogger("eo_listener")

_DRAIN = 5.0  # seconds for Spark to deliver the last events, of the time that a close may take
# Strong references: `spark.streams.addListener(OffsetCommitListener())` leaves none elsewhere, and
# what nobody refers to could not be closed at the end of the program.
_open: set[OffsetCommitListener] = set()


class _ConnectRuns:
    """The runs that Spark Connect reported: only the end of one says that all its events are in."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[str] = set()

    def began(self, run_id: str) -> None:
        """A run is there; returns at once."""
        with self._changed:
            self._open.add(run_id)

    def ended(self, run_id: str) -> None:
        """A run is over, and its last event was before this; returns at once."""
        with self._changed:
            self._open.discard(run_id)
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds until all runs are over; return True if they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)


class OffsetCommitListener(StreamingQueryListener):
    """Commits what queries have processed to Kafka consumer groups.

        spark.streams.addListener(OffsetCommitListener())

    After each batch that Spark has made durable, the end offsets of its Kafka sources are
    committed to the group that the source option `kafka.consumer.commit.groupid` (or
    `eo.commit.group`) names. A source without a group is left alone.

    `groups` names groups from outside, and takes precedence over the options: `{"query": "group"}`,
    or `{"query": {"topic": "group", "*": "group of the rest"}}`; a query by its name or id.
    `group_template` is for sources with neither: a text with `{query_name}`, `{query_id}` or
    `{topic}`. `bootstrap_servers` and `kafka` (librdkafka properties) take precedence over the
    sources' own settings.

    `mode` is how the commits are made: "simple" (no member, not fenced), "member" (a live, fixed
    member: the group is Stable) or "transactional" (fenced by a transactional id). `guard` says
    what happens when a batch does not continue where the one before it ended: "withhold" commits
    that source no more, until a restart with "warn". `on_rewind` says what happens when a query
    is to be committed below what its group holds: "refuse", or "allow", recorded in the commit's
    metadata. `recommit_interval` is how often, in seconds, all offsets are committed again, so
    that they do not expire.

    `observers` are called with every event of `eo_listener.events`, on the thread that
    it occurred on.
    `flush_timeout` is how long `close`, and the end of the program, wait for Kafka, in seconds.
    `preflight=False` leaves out the check of rights, groups and settings at the start, which a
    process of its own makes. `metrics_port` serves numbers for Prometheus, on `metrics_address`.

    Nothing here blocks, slows or fails a query: commits are made by threads of their own, kept
    and repeated while Kafka is away. Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        groups: Groups = MappingProxyType({}),
        *,
        group_template: str | None = None,
        bootstrap_servers: str | None = None,
        kafka: Mapping[str, str] = MappingProxyType({}),
        mode: Mode = "simple",
        guard: Guarding = "withhold",
        on_rewind: Rewinding = "refuse",
        recommit_interval: float = RECOMMIT_INTERVAL,
        observers: Iterable[Observer] = (),
        flush_timeout: float = FLUSH_TIMEOUT,
        preflight: bool = True,
        metrics_port: int | None = None,
        metrics_address: str = LOOPBACK,
    ) -> None:
        settings = Settings.from_arguments(
            groups=groups,
            group_template=group_template,
            bootstrap_servers=bootstrap_servers,
            kafka=kafka,
            mode=mode,
            guard=guard,
            on_rewind=on_rewind,
            recommit_interval=recommit_interval,
            flush_timeout=flush_timeout,
            preflight=preflight,
            metrics_port=metrics_port,
            metrics_address=metrics_address,
        )
        observers = require_observers(observers)
        self._flush_timeout = flush_timeout
        self._process = os.getpid()
        self._driver = driver = _driver()
        self._service = CommitService(
            settings,
            NoQueries() if driver is None else driver.queries,
            observers,
            shim_client=None if driver is None else driver.shim_client,
        )
        self._connect_runs = _ConnectRuns()
        _open.add(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Take the id. This is Spark Connect: classic PySpark comes through `_jlistener`."""
        self._connect_runs.began(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Take the event's JSON; returns at once."""
        self._connect_runs.began(str(event.progress.runId))
        self._service.progressed(event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Take the run's id; returns at once."""
        self._service.idle(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Take the run's id; returns at once."""
        self._service.ended(str(event.runId))
        self._connect_runs.ended(str(event.runId))

    @property
    def _jlistener(self) -> Any:
        """The object that classic PySpark registers in the JVM; pyspark's own costs 80 calls an
        event.
        """
        return None if self._driver is None else self._driver.listener(self._service)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that Spark has processed so far is committed; say whether it is.

        At most `timeout` seconds (default: `flush_timeout`). Not to be called from a listener.
        """
        wait = self._flush_timeout if timeout is None else require_seconds("timeout", timeout)
        deadline = time.monotonic() + wait
        drained = self._drain(deadline)
        return self._service.flush(deadline) and drained

    def close(self) -> None:
        """Commit what is left, stop threads, close connections; also done at program end.

        Waits at most `flush_timeout` seconds and a little; what could not be confirmed by then is
        named in the log and as CommitAbandoned. Idempotent.
        """
        self._close(time.monotonic() + self._flush_timeout)

    def _close(self, deadline: float) -> None:
        _open.discard(self)
        if os.getpid() != self._process:  # a fork has the object, but none of its threads
            return
        fault_point("close.before-drain")
        self._drain(deadline)
        fault_point("close.before-flush")
        self._service.close(deadline)
        if self._driver is not None:
            self._driver.queries.close()
        fault_point("close.after-flush")

    def _drain(self, deadline: float) -> bool:
        delivered = self._connect_runs.wait(_left(deadline))
        return (self._driver is None or self._driver.drain(_left(deadline))) and delivered


def _left(deadline: float) -> float:
    return min(_DRAIN, max(0.0, deadline - time.monotonic()))


def _driver() -> Driver | None:
    """The JVM of this process; None with `pyspark-client`, which is for Spark Connect alone."""
    if find_spec("py4j") is None:
        return None
    from eo_listener.spark.jvm.driver import Driver  # noqa: PLC0415  # needs py4j

    return Driver()


@atexit.register
def _close_all() -> None:
    """Close every listener, in the time of the one that waits longest."""
    listeners = list(_open)
    timeouts = [listener._flush_timeout for listener in listeners]  # noqa: SLF001  # our own
    deadline = time.monotonic() + max(timeouts, default=0.0)
    for listener in listeners:
        try:
            listener._close(deadline)  # noqa: SLF001  # our own
        except Exception:
            # The next listener must still be closed, and the program must end.
            logger.exception("a listener of eo_listener could not be closed")


class NoQueries:
    """The `QueryReader` of a Spark Connect client, whose queries run elsewhere: it knows none."""

    def options(self, query_id: str, run_id: str) -> NoReturn:  # noqa: ARG002  # the protocol's
        """Raise JvmError."""
        raise JvmError(
            f"cannot read the state of query {query_id}",
            cause="it runs on a Spark Connect server, and this is its client",
            fix="Register the listener on the server by configuration, or name servers and "
            "groups here",
        )

    mode = position = has_ended = options

    def forget(self, run_id: str) -> None:
        """Nothing was held of it."""
