"""Finds the valid ledger heads at a version of a Delta table. Reads only through its arguments.

- The newest commit of a query has the number of the query's last batch, and all heads of the query.
- A RESTORE to version t rolls back the heads to the heads of version t. It does not roll back the
  number, since Delta keeps `txnVersion`.
- Replacing the table (CREATE OR REPLACE, CLONE) keeps the numbers, but no heads.
- A rename is one commit, with the number of the old name. It gives all heads to the new name.
- Delta compares only numbers. So Delta can write a batch although a RESTORE, or a new table, has
  come between the sink's judgement of the batch and its commit. The batch's `base` shows that this
  has happened, and then the heads cannot be determined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eo_listener.model.ledger import Head
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.delta.commits import NO_BATCH, BatchRecord, Commit, Doubt, QueryState

_SOON = 50  # commits to read before checking with Delta if the table has a ledger at all
_FAR = 1_000  # commits to read in search of the commit that rolled heads back

States = Mapping[str, QueryState]
"""The states of all queries that have written to a table, by query name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLedger:
    """The heads of a query at `version` of a table, and the number of its last batch.

    `table` is the table's id, and `states` are the states of all queries at that version. If there
    is no table, all fields are empty.
    """

    table: str
    location: str
    version: int
    states: States
    number: int
    heads: Mapping[TopicPartition, Head]


class Rollback(NamedTuple):
    """A rollback that removed a query's last batch, number `last` of its ledger, from the table.

    `commit` is the commit of the rollback, or None if it lies too far back or if Delta has deleted
    it from the log.
    """

    last: int
    commit: Commit | None


class TableLedger:
    """Finds the ledgers in the log of one table: reads back from a version, as far as needed.

    `read` returns a commit, or None if the log does not have it. `numbers` returns the number of
    each query's last batch, as Delta itself keeps it; the class calls `numbers` if the log's newest
    commits have no batch. `table` is the table's id.
    """

    def __init__(
        self,
        table: str,
        read: Callable[[int], Commit | None],
        numbers: Callable[[], Mapping[str, int]],
    ) -> None:
        self._table = table
        self._read = read
        self._numbers = numbers
        self._known: tuple[int, States] = (-1, {})

    @property
    def versions(self) -> Collection[int]:
        """The versions of the commits with valid heads, which `states` has found."""
        states = self._known[1].values()
        return [state.version for state in states if state.version is not None]

    def states(self, version: int) -> States:
        """Return the states of all queries at `version`."""
        states = self._folded(version, {})
        if version > self._known[0]:
            self._known = (version, states)
        return states

    def _folded(self, version: int, by_version: dict[int, States]) -> States:
        """Go back to a version whose states are known, then forward again, commit by commit.

        `by_version` has the states of versions from earlier calls, and gets the states of this
        call. Without `by_version`, in a series of n RESTOREs, each to the previous one, the method
        would read the first RESTORE 2**n times.
        """
        if version in by_version:
            return by_version[version]
        passed: list[Commit] = []
        states: States = {}
        at, floor, whole = version, -1, True
        while at > floor:
            if at == self._known[0]:
                states = self._known[1]
                break
            commit = self._read(at)
            if commit is None or (len(passed) == _SOON and floor < 0 and not self._numbers()):
                states, whole = self._gone(at, passed), False  # valid for `version` only
                break
            passed.append(commit)
            if commit.record is not None and floor < 0 and self.doubt(commit) is None:
                floor, states = commit.record.base, commit.record.states
            at -= 1
        if whole:
            by_version[at] = states
        for commit in reversed(passed):
            states = self._after(commit, states, by_version)
            if whole or commit.version == version:
                by_version[commit.version] = states
        return states

    def _gone(self, version: int, newer: list[Commit]) -> States:
        """Return the states if the log lacks `version` and earlier versions, but has `newer`."""
        shown: set[str] = set()
        for commit in newer:
            shown |= frozenset() if commit.record is None else commit.record.queries
        return {
            query: QueryState(number, None, Doubt.GONE, version)
            for query, number in self._numbers().items()
            if query not in shown
        }

    def _after(self, commit: Commit, states: States, by_version: dict[int, States]) -> States:
        version = commit.version
        if commit.restores and commit.restored is None:
            return {
                query: QueryState(state.number, None, Doubt.TIMESTAMP, version)
                for query, state in states.items()
            }
        if commit.restores and commit.restored is not None:
            restored = self._folded(commit.restored, by_version)
            return {
                query: restored.get(query, NO_BATCH)._replace(number=state.number)
                for query, state in states.items()
            }
        if commit.replaces:
            return {query: QueryState(state.number, None) for query, state in states.items()}
        if commit.record is not None:
            doubt, moved = self.doubt(commit), {}
            for query in commit.record.queries:
                number = commit.record.ledger_of(query).number
                moved[query] = QueryState(number, version)
                if doubt is not None:
                    moved[query] = QueryState(number, None, doubt, version)
            return {**states, **moved}
        return states

    def rollback_of(self, version: int, query: str) -> Rollback | None:
        """Return the rollback of the last batch of `query`, seen from `version`.

        Return None if the last batch is in the table at `version`, or if the heads are in doubt.
        """
        state = self.states(version).get(query)
        if state is None or state.doubt is not None:
            return None
        commit = None if state.version is None else self._read(state.version)
        record = None if commit is None else commit.record
        if record is not None and record.ledger_of(query).number == state.number:
            return None
        return Rollback(state.number, self._rollback_from(version, query, state.version))

    def _rollback_from(self, version: int, query: str, counts: int | None) -> Commit | None:
        """Return the commit that made the heads of version `counts` the valid heads of `query`.

        Before this commit, other heads were valid. Return None if the commit is not found.
        """
        floor = 0 if counts is None else counts
        by_version: dict[int, States] = {}
        for at in range(version, max(floor, version - _FAR), -1):
            commit = self._read(at)
            if commit is None:
                return None
            if commit.restores or commit.replaces:
                before = self._folded(at - 1, by_version).get(query)
                if before is not None and before.version != counts:
                    return commit
        return None

    def doubt(self, commit: Commit) -> Doubt | None:
        """Return the reason to doubt that the batch of `commit` is valid, or None for no doubt.

        A batch is valid only if no RESTORE, new table or rename has come between its `base` and its
        commit. Delta deletes the log from its beginning. So commits between the two may be missing,
        and one of the missing commits may have been a RESTORE.
        """
        record = commit.record
        if record is None:
            return None
        if record.table != self._table or record.base >= commit.version:
            return Doubt.MEANWHILE
        between = [self._read(version) for version in range(record.base + 1, commit.version)]
        if any(
            earlier is not None
            and (earlier.restores or earlier.replaces or _renames(earlier.record, record))
            for earlier in between
        ):
            return Doubt.MEANWHILE
        return Doubt.GONE if None in between else None


def _renames(earlier: BatchRecord | None, later: BatchRecord) -> bool:
    """Return True if one record renames a query of the other record.

    Delta compares the number of one id only, so it does not detect such a rename.
    """
    if earlier is None or (earlier.renamed is None and later.renamed is None):
        return False
    return bool(earlier.queries & later.queries)
