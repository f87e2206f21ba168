"""What may happen to the drivers of a query, and what must hold in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

from eo_listener.errors import EoListenerError, ForeignWriterError, TargetRecordsError
from eo_listener.model.ledger import Unexpected, UnexpectedRecords
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import task_rows, unfenced
from eo_listener.sinks.kafka.row_identity import RowIdentity
from eo_listener.sinks.kafka.unfenced import Findings
from eo_listener.testing.faults import Killed
from eo_listener.testing.made_up_entries import QUERY
from tests.model_checking.ledger import Broken, require
from tests.model_checking.unfenced.cluster import SINK, TARGET, Cluster, LedgerTopic, Row
from tests.model_checking.unfenced.drivers import BATCHES, EXPLAIN, Checkpoint, Driver
from tests.model_checking.unfenced.tasks import TaskLost

MANY = 120  # more things than a driver does
ONE, OTHER = frozenset({0}), frozenset({1})  # partitions that are behind


@dataclass(frozen=True, slots=True)
class History:
    """What happens; each number counts what a driver does, from 0, and -1 is never.

    The first driver is killed, or suspended, at `first`, and the one after it killed at `second`.
    What the first has under way comes `arrives` things later, in its successor's life. Another
    producer writes a record when the first comes to `foreign`.

    With `task` no driver dies, but the first attempt of the task that sends at `first`: it has
    ended, or "outlives" the try, or Spark has lost the executor of a "zombie". What it had still to
    send comes `arrives` things later, if not before.
    """

    first: int
    second: int = -1
    suspended: bool = False
    arrives: int = -1
    foreign: int = -1
    late: frozenset[int] = frozenset()
    keyed: bool = False
    task: Literal["", "dies", "outlives", "zombie"] = ""


@dataclass(slots=True)
class Stage:
    """A history that is taken, and what its drivers did."""

    history: History
    cluster: Cluster = field(default_factory=Cluster)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    counts: Counter[str] = field(default_factory=Counter)
    at: dict[tuple[str, int], Callable[[], None]] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)  # where the target ended before any batch
    named: list[UnexpectedRecords] = field(default_factory=list)
    disturbed: bool = False
    what: str = ""  # the last thing that anybody did
    refused: list[EoListenerError] = field(default_factory=list)

    def driver(self, name: str, *, accept: bool = False) -> Driver:
        return Driver(
            name,
            self.cluster,
            self.checkpoint,
            late=self.history.late,
            keyed=self.history.keyed,
            accept=accept,
        )

    def reached(self, by: str, what: str) -> None:
        number = self.counts[by]
        self.counts[by] += 1
        self.what = what
        happens = self.at.pop((by, number), None)
        if happens is not None:
            happens()
        if what == "ends" and not self.cluster.ledger:
            self.first = {number: len(log) for number, log in self.cluster.logs.items()}


def take(history: History) -> bool:
    """Take it. Raises Broken; False where it had nothing to happen, since all was over before."""
    stage = Stage(history)
    refuse_unexpected = unfenced.refuse_unexpected

    def said(found: Findings, *how: Any) -> None:
        stage.named.extend(found.records())
        refuse_unexpected(found, *how)

    with (
        patch.object(unfenced, "refuse_unexpected", said),
        patch.object(task_rows, "_PAUSE", 0),
    ):
        return _taken(stage)


def _taken(stage: Stage) -> bool:
    history = stage.history
    stage.cluster.reached = stage.reached
    happened: list[str] = []
    one = stage.driver("one")
    if history.foreign >= 0:
        stage.at["one", history.foreign] = lambda: stage.cluster.append(0, Row([], "other"))

    def lost() -> None:
        if stage.what == "row":
            happened.append("first")
            stage.disturbed = history.task == "zombie"
            if history.arrives >= 0 and one.tasks is not None:
                stage.at["one", stage.counts["one"] + history.arrives] = one.tasks.come
            raise TaskLost(outlives=history.task == "outlives")

    def fell() -> None:
        happened.append("first")
        flying = one.tasks.in_flight if one.tasks is not None else None
        if history.arrives >= 0:
            if flying is None:
                happened.clear()
            else:
                stage.disturbed = True
                stage.at["two", history.arrives] = lambda: stage.cluster.append(*flying)
        if history.suspended:
            stage.disturbed = True
            _succeed(stage, happened)
        else:
            raise Killed

    stage.at["one", history.first] = lost if history.task else fell
    _lives(stage, one, len(BATCHES) - 1 if history.task else len(BATCHES))
    if not history.suspended:
        _succeed(stage, happened)
    _finish(stage)
    wanted = {"first"} | ({"second"} if history.second >= 0 else set())
    return wanted <= set(happened) and not stage.at


def _succeed(stage: Stage, happened: list[str]) -> None:
    """The life of the second driver: it leaves the last batch to others."""

    def fell() -> None:
        happened.append("second")
        raise Killed

    if stage.history.second >= 0:
        stage.at["two", stage.history.second] = fell
    _lives(stage, stage.driver("two"), len(BATCHES) - 1)


def _lives(stage: Stage, driver: Driver, batches: int = len(BATCHES)) -> None:
    try:
        driver.run(batches)
    except Killed:
        pass
    except (ForeignWriterError, TargetRecordsError) as error:
        require(stage.disturbed, f"nobody was in the way, but {driver.name} fails: {error}")
        stage.refused.append(error)


def _finish(stage: Stage) -> None:
    """Who comes at last does all that is left; it accepts what was named before."""
    last = stage.driver("last")
    _lives(stage, last)
    if stage.refused:
        _lives(stage, stage.driver("accepting", accept=True))
    require(stage.checkpoint.done == len(BATCHES), f"{stage.checkpoint.done} batches are done")
    check(stage)


def check(stage: Stage) -> None:
    """Each row is there, once and in order, or what is wrong was named."""
    heads = LedgerTopic(stage.cluster, "judge").heads(QUERY, EXPLAIN, fenced=False)
    ends = {tp: one.until for batch in BATCHES for tp, one in batch.items()}
    require({tp: head.range.until for tp, head in heads.items()} == ends, f"heads {heads}")
    there: dict[str, list[tuple[TopicPartition, int]]] = {}
    foreign = []
    for tp, offset, row in stage.cluster.rows():
        identity = RowIdentity.from_headers(row.headers)
        if identity is None:
            foreign.append((tp, offset))
        else:
            there.setdefault(identity.values, []).append((tp, offset))
    wanted = {
        f'["t",{tp.partition},{offset}]'
        for batch in BATCHES
        for tp, one in batch.items()
        for offset in range(*one)
    }
    require(there.keys() == wanted, f"lost: {sorted(wanted - there.keys())}")
    twice = {values: places for values, places in there.items() if len(places) > 1}
    require(stage.disturbed or not twice, f"there twice: {twice}")
    for places in twice.values():
        named = [place for place in places if _is_named(stage, place, Unexpected.FOREIGN)]
        require(len(named) >= len(places) - 1, f"twice at {places}, and named at {named}")
    for place in foreign:
        tp, offset = place
        if offset >= stage.first[tp.partition] and place not in _of_last_batch(stage):
            require(_is_named(stage, place), f"a foreign record at {place} was not named")
    if not stage.disturbed:
        _check_order(stage)


def _is_named(
    stage: Stage, place: tuple[TopicPartition, int], but: Unexpected | None = None
) -> bool:
    tp, offset = place
    found = [one for one in stage.named if one.kind is not but]
    return any(tp in one.ranges and offset in range(*one.ranges[tp]) for one in found)


def _of_last_batch(stage: Stage) -> set[tuple[TopicPartition, int]]:
    """What is behind the last batch's ends: only a next one would find it."""
    records = LedgerTopic(stage.cluster, "judge")
    records.heads(QUERY, EXPLAIN, fenced=False)
    batch = records.records.batch(SINK, QUERY)
    assert batch is not None
    ends = batch.since[TARGET].ends
    return {(tp, offset) for tp, offset, _ in stage.cluster.rows() if offset >= ends[tp.partition]}


def _check_order(stage: Stage) -> None:
    newest: dict[tuple[TopicPartition, str], int] = {}
    for tp, _, row in stage.cluster.rows():
        identity = RowIdentity.from_headers(row.headers)
        if identity is not None:
            source, _, offset = identity.values[:-1].rpartition(",")
            before = newest.get((tp, source), -1)
            require(before < int(offset), f"in {tp}, {identity.values} comes after {before}")
            newest[tp, source] = int(offset)


@dataclass(frozen=True, slots=True)
class Kind:
    """Histories of one kind, by where things happen."""

    name: str
    make: Callable[[int, int], History]
    both: bool = True  # whether the second number says anything


KINDS = {
    kind.name: kind
    for kind in (
        Kind("crash", lambda first, _: History(first), both=False),
        Kind("crash with keys", lambda first, _: History(first, keyed=True), both=False),
        Kind("crash, one behind", lambda first, _: History(first, late=ONE), both=False),
        Kind("crash, other behind", lambda first, _: History(first, late=OTHER), both=False),
        Kind("crashes", History),
        Kind("crashes, one behind", lambda one, two: History(one, two, late=ONE)),
        Kind("crashes, other behind", lambda one, two: History(one, two, late=OTHER)),
        Kind("zombie", lambda first, _: History(first, suspended=True), both=False),
        Kind("zombie, crash", lambda first, second: History(first, second, suspended=True)),
        Kind("late row", lambda first, arrives: History(first, arrives=arrives)),
        Kind("task dies", lambda one, _: History(one, task="dies"), both=False),
        Kind("task outlives", lambda one, two: History(one, task="outlives", arrives=two)),
        Kind("task zombie", lambda one, two: History(one, task="zombie", arrives=two)),
        Kind("foreign", lambda first, foreign: History(first, foreign=min(first, foreign))),
    )
}


def search(kind: Kind) -> int:
    """Take all histories of a kind; returns how many. Raises Broken with the one that breaks it."""
    taken = 0
    for first in range(MANY):
        any_here = False
        for second in range(MANY if kind.both else 1):
            history = kind.make(first, second)
            try:
                happened = take(history)
            except Broken as broken:
                raise Broken(f"{history}: {broken}") from broken
            if not happened and (second or not kind.both):
                break
            any_here = any_here or happened
            taken += happened
            if kind.name == "foreign" and second >= first:
                break
        if not any_here and not _may_skip(kind, first):
            break
    return taken


def _may_skip(kind: Kind, first: int) -> bool:
    """Whether there may be more, though nothing happened here: it needs a row that is sent."""
    of_rows = kind.name.endswith("late row") or kind.name.startswith("task ")
    return of_rows and first < MANY - 1
