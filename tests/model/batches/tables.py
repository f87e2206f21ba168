"""The stores: what is durable of each sink, who holds its lock, and the rules for every commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from eo_listener.ledger import Head
from eo_listener.offsets import Span, TopicPartition
from tests.model.batches.spark import PARTITIONS, Batch
from tests.model.batches.tape import Call, Row
from tests.model.ledger import require

_KEPT = 1  # entries of history: a bug that reads the heads there must show soon


@dataclass(slots=True)
class Table:
    """One sink's rows and ledger, as everybody sees them.

    `flying` is a transaction that was sent to its end, and whose connection is lost: it may land
    or fade, and holds the lock until then.
    """

    rows: frozenset[Row] = frozenset()
    heads: dict[TopicPartition, Head] = field(default_factory=dict)
    history: tuple[tuple[tuple[TopicPartition, Head], ...], ...] = ()
    holes: tuple[tuple[TopicPartition, Span], ...] = ()
    bases: dict[TopicPartition, int] = field(default_factory=dict)  # where the first row stands
    emitted: dict[TopicPartition, int] = field(default_factory=dict)  # of a stateful query
    parts: frozenset[tuple[str, TopicPartition, Span]] = frozenset()  # by whose query id
    backup: Table | None = None  # as it was before the last commit
    lock: str | None = None
    flying: tuple[str, Call, Batch] | None = None

    def remembered(self) -> dict[TopicPartition, Head]:
        """The heads as far as the history still has them."""
        return {tp: head for entry in self.history for tp, head in entry}

    def commit(self, run: str, call: Call, batch: Batch, *, stateful: bool) -> None:
        """Let a transaction take effect, if it may. Raises Broken."""
        self.backup = replace(self, heads=dict(self.heads), backup=None)
        require(bool(call.moves) or not call.rows, f"{run} commits rows without their ledger")
        for tp, found, head in call.moves:
            held = self.heads.get(tp)
            require(held == found, f"{run} moves {tp} from {held}, where it has found {found}")
            require(head.run_id == run, f"{run} moves {tp} in the name of {head.run_id}")
            self.heads[tp] = head
            self.parts |= {(head.query_id, tp, head.span)}
            self.bases = {tp: head.span.start} | self.bases
        self.holes += call.holes
        entry = tuple((tp, head) for tp, _, head in call.moves)
        self.history = (*self.history, entry)[-_KEPT:]
        counted = Counter(call.rows)
        twice = [row for row in call.rows if row in self.rows or counted[row] > 1]
        require(not twice, f"{run} writes again: {twice[:1]}")
        self.rows |= set(call.rows)
        if stateful:
            self.emitted = {tp: max(0, start) for tp, start in batch.starts.items()}
        self._agree(stateful=stateful)

    def restore(self) -> None:
        """Somebody puts the backup back, in a moment in which nobody has a transaction open."""
        backup = self.backup
        assert backup is not None
        self.rows, self.heads, self.history = backup.rows, dict(backup.heads), backup.history
        self.holes, self.bases, self.emitted = backup.holes, backup.bases, backup.emitted
        self.parts = backup.parts
        self.backup = None

    def _agree(self, *, stateful: bool) -> None:
        """The rows are those that the ledger speaks of: no more, and no less."""
        have: dict[TopicPartition, set[int]] = {tp: set() for tp in PARTITIONS}
        for row in self.rows:
            have[TopicPartition(row.topic, row.partition)].add(row.offset)
        ids = {row.topic_id for row in self.rows}
        require(len(ids) < 2, f"rows of several topics of one name: {sorted(ids)}")
        for tp in PARTITIONS:
            head = self.heads.get(tp)
            reached = 0 if head is None else head.span.until
            if stateful:
                reached = self.emitted.get(tp, 0)
            lost = {offset for at, hole in self.holes if at == tp for offset in range(*hole)}
            should = set(range(self.bases.get(tp, 0), reached)) - lost
            require(have[tp] == should, f"{tp} has {sorted(have[tp])}, not {sorted(should)}")

    def got(self, batch: Batch, query_id: str) -> bool:
        """Whether it was this query that gave it the batch."""
        read = (one for one in batch.spans if one[1].until > one[1].start)
        return all((query_id, tp, span) in self.parts for tp, span in read)

    def has(self, batch: Batch, *, stateful: bool) -> bool:
        """Whether a batch is durable here, or all that comes before its end."""
        if stateful:
            return all(self.emitted.get(tp, -1) >= start for tp, start in batch.starts.items())
        return all(
            tp in self.heads and self.heads[tp].span.until >= span.until
            for tp, span in batch.spans
            if span.until > span.start
        )
