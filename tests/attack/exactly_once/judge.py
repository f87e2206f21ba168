"""Was every record written exactly once, and do all who count it agree? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby

from eo_listener.offsets import TopicPartition
from tests.attack.exactly_once import versions
from tests.attack.exactly_once.driver import DELAY, ODD, WINDOW
from tests.attack.exactly_once.store import Holding

COLUMNS = {  # by the shape of the rows
    "rows": 'topic, partition, "offset"',
    "windows": "begun, events",
    "versions": versions.COLUMNS,
}

Ends = Mapping[TopicPartition, int]


def at_rest(holding: Holding, *, by_partition: bool = False, ahead: bool = False) -> list[str]:
    """What is wrong with a store in which each row names its record, whenever nobody writes.

    The rows are those of the records below the ledger's heads, each once, and the history leads
    from the beginning to the heads without a gap or an overlap. `by_partition`: each partition has
    been written by a transaction of its own. `ahead`: rows may be there before the ledger says so.
    Where there are dead letters, these are records too, each in its own table; those of the last
    batch may all be still to come.
    """
    found = Counter(holding.rows)
    expected = {
        (tp.topic, tp.partition, offset)
        for tp, until in holding.heads.items()
        for offset in range(until)
        if holding.letters is None or not _is_letter(offset)
    }
    early = [] if ahead else sorted(found.keys() - expected)
    twice = [row for row, count in found.items() if count > 1]
    return [
        *(f"written {found[row]} times: {row}" for row in twice[:5]),
        *(f"not written: {row}" for row in sorted(expected - found.keys())[:5]),
        *(f"ahead of the ledger: {row}" for row in early[:5]),
        *_letters(holding),
        *_chained(holding),
        *_counted(holding, by_partition=by_partition),
    ]


def _is_letter(offset: int) -> bool:
    return offset % ODD == ODD - 1


def _letters(holding: Holding, *, settled: bool = False) -> list[str]:
    """What is wrong with the dead letters; `settled`: those of the last batch must be there."""
    if holding.letters is None:
        return []
    found = Counter(holding.letters)
    expected = {
        (tp.topic, tp.partition, offset)
        for tp, until in holding.heads.items()
        for offset in filter(_is_letter, range(until))
    }
    last = {
        (tp.topic, tp.partition, offset)
        for tp, start in holding.last.items()
        for offset in filter(_is_letter, range(start, holding.heads[tp]))
    }
    missing = expected - found.keys()
    lost = missing - last if missing >= last and not settled else missing
    return [
        *(f"{count} times a dead letter: {row}" for row, count in found.items() if count > 1),
        *(f"no dead letter: {row}" for row in sorted(lost)[:5]),
        *(f"a dead letter too many: {row}" for row in sorted(found.keys() - expected)[:5]),
    ]


def windows_at_rest(holding: Holding, partitions: int) -> list[str]:
    """What is wrong with a store of counted windows: from the first on, each once and whole."""
    expected = [(number * WINDOW, WINDOW * partitions) for number in range(len(holding.rows))]
    wrong = [] if list(holding.rows) == expected else [f"windows: {holding.rows}"]
    return [*wrong, *_chained(holding)]


def at_the_end(holding: Holding, ends: Ends, checkpoint: Ends, group: Ends) -> list[str]:
    """What is wrong when all was processed: everybody stands at the log's end, nothing is left."""
    positions = {"ledger": holding.heads, "checkpoint": checkpoint, "group": group}
    wrong = [
        f"{who} at {dict(where)}, the log ends at {dict(ends)}"
        for who, where in positions.items()
        if dict(where) != dict(ends)
    ]
    left = [f"{count} branches are left" for count in holding.branches if count != 1]
    return wrong + left + _letters(holding, settled=True)


def all_windows(holding: Holding, ends: Ends) -> list[str]:
    """What is wrong with the number of windows: all that the watermark has closed."""
    newest = max(ends.values()) - 1
    closed = (newest - DELAY) // WINDOW
    return [] if len(holding.rows) == closed else [f"{len(holding.rows)} windows of {closed}"]


def _chained(holding: Holding) -> list[str]:
    """What is wrong with the history: each partition's ranges, in order, follow one another."""
    if holding.history is None:
        return []
    wrong = []
    heads = dict.fromkeys(holding.heads, 0)
    for tp, ranges in groupby(holding.history, key=lambda one: one.partition):
        at, batch = 0, -1
        for one in ranges:
            if one.range.start != at or one.range.until < at or one.batch <= batch:
                wrong.append(f"{tp}: {one.range} of batch {one.batch} after {at} of batch {batch}")
            at, batch = one.range.until, one.batch
        heads[tp] = at
    if heads != holding.heads:
        wrong.append(f"the history ends at {heads}, the ledger at {holding.heads}")
    return wrong


def _counted(holding: Holding, *, by_partition: bool) -> list[str]:
    """What is wrong with the numbers of rows that the history gives its transactions."""
    if holding.history is None:
        return []
    each = {(one.batch, one.partition if by_partition else None): one for one in holding.history}
    applied = sum(one.rows for one in each.values())
    if applied == len(holding.rows):
        return []
    return [f"{len(holding.rows)} rows, the history counts {applied}"]
