"""The stores: what is durable of each sink, who holds its lock, and the rules for every commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.model_checking.batches.spark import F0, Batch, Ends, Ids, Log
from tests.model_checking.batches.tape import NAME, Call, Row
from tests.model_checking.ledger import require

Life = tuple[TopicPartition, str | None]
"""A partition of one of the topics that had its name; the topic's id."""

Gap = OffsetRange | None

_KEPT = 1  # entries of history: a bug that reads the heads there must show soon


@dataclass(slots=True)
class Table:
    """One sink's rows and ledger, as everybody sees them."""

    rows: frozenset[Row] = frozenset()
    heads: dict[tuple[str, TopicPartition], Head] = field(default_factory=dict)
    history: tuple[tuple[tuple[TopicPartition, Head], ...], ...] = ()
    gaps: tuple[tuple[Life, OffsetRange], ...] = ()
    bases: dict[Life, int] = field(default_factory=dict)  # where the first row stands
    reached: dict[Life, int] = field(default_factory=dict)
    emitted: dict[TopicPartition, int] = field(default_factory=dict)  # of a stateful query
    parts: frozenset[tuple[str, Life, OffsetRange]] = frozenset()  # by whose query id
    backup: Table | None = None  # as it was before the last commit
    lock: str | None = None
    flying: tuple[str, Call, Batch] | None = None  # may land or fade, and holds the lock

    def of(self, name: str) -> dict[TopicPartition, Head]:
        return {tp: head for (query, tp), head in self.heads.items() if query == name}

    def farthest(self) -> str:
        """The name under which most was applied."""
        sums: Counter[str] = Counter({NAME: 0})
        for (name, _), head in self.heads.items():
            sums[name] += head.range.until
        return max(sums, key=lambda name: sums[name])

    def remembered(self) -> dict[TopicPartition, Head]:
        """The heads as far as the history still has them."""
        return {tp: head for entry in self.history for tp, head in entry}

    def commit(
        self, run: str, call: Call, batch: Batch, log: Log, first: Ends, *, stateful: bool
    ) -> None:
        """Let a transaction take effect, if it may; `first` is where its checkpoint began."""
        self.backup = replace(self, heads=dict(self.heads), backup=None)
        require(bool(call.moves) or not call.rows, f"{run} commits rows without their ledger")
        for tp, found, head in call.moves:
            held = self.heads.get((call.query, tp))
            require(held == found, f"{run} moves {tp} from {held}, where it has found {found}")
            require(head.run_id == run, f"{run} moves {tp} in the name of {head.run_id}")
            self.heads[call.query, tp] = head
            gap = dict(call.gaps).get(tp)
            if tp == BATCHES:
                self._take_files(run, head, gap, batch, log, first[F0])
            else:
                self._take_range(run, tp, head, gap, log, first.get(tp, 0))
        entry = tuple((tp, head) for tp, _, head in call.moves)
        self.history = (*self.history, entry)[-_KEPT:]
        counted = Counter(call.rows)
        twice = [row for row in call.rows if row in self.rows or counted[row] > 1]
        require(not twice, f"{run} writes again: {twice[:1]}")
        self.rows |= set(call.rows)
        if stateful:
            self.emitted = {tp: max(0, start) for tp, start in batch.starts.items()}
        self._agree(stateful=stateful)

    def _take_files(
        self, run: str, head: Head, gap: Gap, batch: Batch, log: Log, first: int
    ) -> None:
        """Take a batch's number for what it has read, and those of a gap for what they have."""
        read = batch.files
        require(read is not None, f"{run} counts a batch without a counted source")
        assert read is not None
        if gap is not None:
            gap = OffsetRange(batch.begins[gap.start], batch.begins[gap.until])
        head = replace(head, range=read, topic_id=log.ids[F0.topic])
        self._take_range(run, F0, head, gap, log, first)

    def _take_range(
        self,
        run: str,
        tp: TopicPartition,
        head: Head,
        gap: Gap,
        log: Log,
        first: int,
    ) -> None:
        life = (tp, head.topic_id)
        self.parts |= {(head.query_id, life, head.range)}
        if gap is not None:
            # Of what another name has it is no loss that this one has not.
            lost = OffsetRange(max(gap.start, self.reached.get(life, 0)), gap.until)
            self.gaps += ((life, lost),) if lost.start < lost.until else ()
        if log.ids[tp.topic] == head.topic_id:
            end = log.ends.get(tp, 0)
            until = head.range.until
            require(until <= end, f"{run} moves {tp} to {until}, beyond {end}")
        base = head.range.start if gap is None else gap.start
        if life not in self.bases and any(known == tp for known, _ in self.bases):
            # Of what came before the ledger's first range nobody has promised anything.
            begins = log.starts.get(tp, 0) if log.ids[tp.topic] == head.topic_id else 0
            require(base <= begins, f"{run} begins {tp} of {head.topic_id} in its middle, {base}")
        elif life not in self.bases:
            require(base <= first, f"{run} begins {tp} at {base}, and its query at {first}")
        self.bases = {life: base} | self.bases
        self.reached = {**self.reached, life: head.range.until}

    def restore(self) -> None:
        """Somebody puts the backup back, in a moment in which nobody has a transaction open."""
        backup = self.backup
        assert backup is not None
        self.rows, self.heads, self.history = backup.rows, dict(backup.heads), backup.history
        self.gaps, self.bases, self.emitted = backup.gaps, backup.bases, backup.emitted
        self.parts, self.reached = backup.parts, backup.reached
        self.backup = None

    def _agree(self, *, stateful: bool) -> None:
        """The rows are those that the ledger speaks of: no more, and no less."""
        have: dict[Life, set[int]] = {life: set() for life in self.bases}
        for row in self.rows:
            tp = TopicPartition(row.topic, row.partition)
            have.setdefault((tp, row.topic_id), set()).add(row.offset)
        for life, offsets in have.items():
            reached = self.emitted.get(life[0], 0) if stateful else self.reached.get(life, 0)
            lost = {offset for at, gap in self.gaps if at == life for offset in range(*gap)}
            should = set(range(self.bases.get(life, 0), reached)) - lost
            named = f"{life[0]} of {life[1]}"
            require(offsets == should, f"{named} has {sorted(offsets)}, not {sorted(should)}")

    def got(self, batch: Batch, query_id: str, ids: Ids) -> bool:
        """Whether it was this query that gave it the batch."""
        read = (one for one in batch.spans if one[1].until > one[1].start)
        return all((query_id, (tp, ids[tp.topic]), span) in self.parts for tp, span in read)

    def has(self, batch: Batch, ids: Ids, *, stateful: bool) -> bool:
        """Whether a batch is durable here, or all that comes before its end."""
        if stateful:
            return all(self.emitted.get(tp, -1) >= start for tp, start in batch.starts.items())
        return all(
            self.reached.get((tp, ids[tp.topic]), -1) >= span.until
            for tp, span in batch.spans
            if span.until > span.start
        )
