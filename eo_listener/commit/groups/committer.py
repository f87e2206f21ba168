"""The committer, the common interface of the workers of all clusters."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from eo_listener.client_config.admin_commands import right_to_add
from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.cluster_state import ClusterState
from eo_listener.commit.groups.group_offsets import Beginnings, GroupKeys, GroupOffsets, Waiting
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.groups.worker import Worker
from eo_listener.errors import few
from eo_listener.events import CommitFailed, Event, Observers
from eo_listener.model.commit_metadata import short_id
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import TopicPartition

UNUSED_TIMEOUT = 300.0  # seconds; a job that runs every few minutes finds its clients open

logger = logging.getLogger("eo_listener")


class Committer:
    """Commits positions to the groups of any number of clusters, with a thread for each cluster.

    Every method except `flush` and `close` returns immediately. If several offsets are offered for
    a partition, in any order, the committer commits the greatest. Only `close` drops offsets. The
    committer ends a cluster's thread and clients if no live run has fed the cluster for
    `unused_timeout` seconds, and all offsets are confirmed. Each set of credentials counts as a
    separate cluster.
    """

    def __init__(
        self,
        open_store: Callable[[Cluster], GroupStore],
        *,
        observers: Observers,
        retry: Backoff | None = None,
        policy: Policy | None = None,
        unused_timeout: float = UNUSED_TIMEOUT,
    ) -> None:
        self._open_store = open_store
        self._unused_timeout = unused_timeout
        self._observers = observers
        self._retry = retry
        self._policy = policy
        self._workers: dict[Cluster, Worker] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._closed = False

    def offer(self, commit: GroupOffsets, *, recommit: bool = False) -> None:
        """Take positions to commit. After `close`, the committer only logs and drops them.

        With `recommit`, it also repeats the commit of offsets that are already committed, so that
        they do not expire.
        """
        worker = self._worker(commit)
        if worker is not None:
            with worker.groups() as groups:
                groups.group(commit.group).offer(commit, recommit=recommit)

    def add_beginnings(self, commit: GroupOffsets, beginnings: Beginnings) -> None:
        """Have the group compared with `beginnings` before a run's first offer to the group.

        If the group's offset is lower, nothing has read the records between. The committer reports
        them, and withholds their partitions.
        """
        worker = self._worker(commit)
        if worker is not None:
            with worker.groups(changes=False) as groups:
                groups.group(commit.group).add_beginnings(commit, beginnings)

    def withhold(self, commit: GroupOffsets, *, recommit: bool = False) -> None:
        """Stop committing these positions and all newer ones, because the guard withholds them.

        The committer writes the guard's mark, for the next driver, to the metadata of the group's
        offsets. With `recommit`, it commits the marked offsets again, so that they do not expire.
        """
        worker = self._worker(commit)
        if worker is not None:
            with worker.groups() as groups:
                groups.group(commit.group).withhold(commit)
            if recommit:
                self.offer(commit, recommit=True)

    def end_run(self, owner_id: str, *, replaced: bool = False) -> None:
        """Record that a run has ended. Call this after the run's last offsets were offered.

        `owner_id` is the id of the run or, for `follow`, of the query. `replaced` is True if
        another query has taken the place of this query; then the waiting offsets of this query are
        no longer sent.
        """
        for worker in self._all():
            with worker.groups() as groups:
                groups.end_run(short_id(owner_id), replaced=replaced)

    def log_starts(self, commit: GroupOffsets, by: float) -> Mapping[TopicPartition, int]:
        """Return the log starts of a group's partitions, as they were known at the time `by`.

        `by` is on the monotonic clock.
        """
        with self._lock:
            worker = self._workers.get(commit.cluster)
        if worker is None:
            return {}
        with worker.groups(changes=False) as groups:
            return groups.log_starts(commit.group, by)

    def _worker(self, commit: GroupOffsets) -> Worker | None:
        with self._lock:
            if self._closed:
                logger.warning(
                    "group %s: offsets arrived after the committer was closed and are not "
                    "committed: %s",
                    commit.group,
                    few(sorted(commit.positions)),
                )
                return None
            worker = self._workers.get(commit.cluster)
            if worker is None:
                worker = self._workers[commit.cluster] = self._start(commit.cluster)
            worker.unused_since = None
            return worker

    def set_used_clusters(self, clusters: Collection[Cluster]) -> None:
        """Set the clusters that live runs feed, so that the workers of other clusters may end."""
        with self._lock:
            for cluster, worker in self._workers.items():
                if cluster not in clusters:
                    worker.unused_since = worker.unused_since or time.monotonic()

    def _may_end(self, cluster: Cluster) -> bool:
        """If the worker of a cluster is no longer needed, remove it, and return True.

        A later offer for the cluster starts a new worker.
        """
        with self._lock:
            over = not self._closed and self._workers[cluster].unused_for(self._unused_timeout)
            if over:
                del self._workers[cluster]
            return over

    def retry_now(self, groups: GroupKeys) -> None:
        """Retry failed requests of `groups` at once."""
        for state, names in self._states(groups, changes=True):
            state.retry_now(names)

    def waiting(self, groups: GroupKeys) -> frozenset[Waiting]:
        """Return the offsets of `groups` that Kafka has neither confirmed nor finally rejected."""
        states = self._states(groups, changes=False)
        return frozenset().union(*(state.waiting(names) for state, names in states))

    def _states(
        self, groups: GroupKeys, *, changes: bool
    ) -> Iterator[tuple[ClusterState, Iterable[str]]]:
        with self._lock:
            workers = tuple(self._workers.items())
        for cluster, worker in workers:
            with worker.groups(changes=changes) as state:
                yield state, [group for name, group in groups if name == str(cluster)]

    def flush(self, timeout: float) -> bool:
        """Wait until all offered offsets are confirmed; return True if they are.

        Waits at most `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        flushed = [worker.flush(deadline) for worker in self._all()]  # all, even after a False
        return all(flushed)

    def close(self, timeout: float) -> None:
        """Flush, stop all threads and close the clients, within about `timeout` seconds.

        If offsets are still unconfirmed by then, the committer drops them, and reports them in
        CommitAbandoned events. Further calls do nothing.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        deadline = time.monotonic() + timeout
        self.flush(timeout)
        for worker in self._all():
            worker.close(deadline)

    def _start(self, cluster: Cluster) -> Worker:
        return Worker(
            f"eo-listener-commit-{next(self._numbers)}",
            lambda: self._open_store(cluster),
            cluster=str(cluster),
            observe=lambda event: self._observers.notify(self._explained(event, cluster)),
            retry=self._retry,
            policy=self._policy,
            may_end=lambda: self._may_end(cluster),
        )

    def _explained(self, event: Event, cluster: Cluster) -> Event:
        """Add the command that grants a missing right to the event."""
        if isinstance(event, CommitFailed):
            command = right_to_add(event, cluster.principal)
            return event if command is None else replace(event, fix=command)
        return event

    def _all(self) -> tuple[Worker, ...]:
        with self._lock:
            return tuple(self._workers.values())
