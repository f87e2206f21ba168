"""The whole: a topic, a checkpoint, the stores, and drivers; and every step that can be taken."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

from eo_listener.errors import (
    EoListenerError,
    ForeignWriterError,
    GuardError,
    NewCheckpointError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    SinkLockedError,
)
from eo_listener.foreach_batch.starting_offsets.origins import ledger_origin
from eo_listener.foreach_batch.starting_offsets.resolve import EARLIEST, Policy, Recreated, choose
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.model_checking.batches.scope import Scope
from tests.model_checking.batches.spark import (
    F0,
    Batch,
    Checkpoint,
    Driver,
    Log,
    Phase,
    following,
    of_kafka,
    planned,
    resumed,
)
from tests.model_checking.batches.tables import Table
from tests.model_checking.batches.tape import NAME, RENAMED, Answer, Call, Heads, Stand, play
from tests.model_checking.cloning import clone
from tests.model_checking.ledger import require

Step = tuple[str, ...]
# What makes up the key of a state, beside what stands elsewhere in it.
_OF_WORLD = attrgetter("meddled", "lossy", "failed", "runs", "name", "offered", "consent")
_OF_TABLE = attrgetter(
    *("rows", "heads", "history", "gaps", "parts", "bases", "reached", "emitted", "lock", "flying")
)
_OF_DRIVER = attrgetter(
    *("run", "query_id", "name", "consent", "batch", "ends", "current", "last", "answers"),
    *("stopped", "zombie", "overtaken", "robbed", "ousted"),
)
_UNKNOWN = ("lost", "unanswered", "late")
_ERRORS: Mapping[str, type[SinkError]] = {
    "away": SinkError,
    "again": RetriableSinkError,
    "busy": SinkLockedError,
    "ousted": OutcomeUnknownError,
}


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What `starting_offsets` uses of a sink."""

    label: str
    heads: Heads

    def applied(self, query: str) -> Heads:
        return self.heads


def _frozen(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Make dicts and sets among them hashable."""
    return tuple([_HASHED.get(type(one), _itself)(one) for one in values])


def _items(value: dict[Any, Hashable]) -> Hashable:
    return frozenset(value.items())


def _itself(value: Hashable) -> Hashable:
    return value


_HASHED: dict[type, Callable[[Any], Hashable]] = {dict: _items, set: frozenset}


class World:
    NOTICED: ClassVar[tuple[str, ...]] = ("read", "lock", "commit")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.played = functools.cache(play)  # for all copies, as the same answers lead to the same
        self.left = {**scope.troubles, "start": scope.starts}
        self.log = Log.of(scope.partitions)
        self.checkpoint = Checkpoint(dict(self.log.ends), dict(self.log.lives))
        self.tables = {key: Table() for key in scope.how.keys}
        self.drivers: dict[str, Driver] = {}
        self.runs = 0
        self.name = NAME  # that the query has in its program now
        self.firsts: dict[str, dict[TopicPartition, int]] = {}  # by run: where its query began
        self.meddled: set[str] = set()  # query ids whose checkpoint is not behind the ledger
        self.lossy = False  # records were deleted before anybody read them
        self.failed: str | None = None  # the error that failed the newest batch
        self.offered: str | None = None  # what confirms the checkpoint, if its beginning is right
        self.consent: str | None = None  # new_checkpoint, as the program says it now
        self._start()

    def copy(self) -> World:
        return clone(self, {})  # type: ignore[no-any-return]  # it gives what it got

    def key(self) -> Hashable:
        tables = tuple(
            (key, *_frozen(_OF_TABLE(table)), table.backup is not None)
            for key, table in self.tables.items()
        )
        drivers = tuple(_frozen(_OF_DRIVER(driver)) for driver in self.drivers.values())
        log = (*self.log.lives.values(), *self.log.starts.items(), *self.log.ends.items())
        checkpoint = self.checkpoint
        files = (checkpoint.life, tuple(checkpoint.batches), checkpoint.done, checkpoint.lost)
        first = (*checkpoint.first.items(), *checkpoint.topics.values())
        rest = (*self.left.values(), *_frozen(_OF_WORLD(self)))
        return (log, files, first, tables, drivers, rest)

    # Who is there

    def chief(self) -> Driver | None:
        """The driver that was started last, if it runs and never stood still."""
        last = next(reversed(self.drivers.values()), None)
        return None if last is None or last.stopped or last.zombie else last

    def _start(self) -> None:
        self.runs += 1
        files = self.checkpoint
        driver = Driver(
            run=f"r{self.runs}",
            query_id=files.id,
            batch=files.done,
            ends=files.durable,
            last=files.batches[files.done - 1] if files.done else None,
            topics=files.topics,
            first=files.first,
            name=self.name,
            consent=self.consent,
        )
        self.drivers[driver.run] = driver
        self.firsts[driver.run] = files.first
        if len(files.batches) > files.done:
            batch = files.batches[files.done] = resumed(driver, files.batches[files.done])
            driver.begin(batch)
            self._proceed(driver)

    # What can be done

    def steps(self) -> list[Step]:
        steps = [step for driver in self.drivers.values() for step in self._of_driver(driver)]
        for key, table in self.tables.items():
            if table.flying is not None:
                steps += [("land", key), ("fade", key)]
            if self.left.get("restore") and table.backup is not None and table.lock is None:
                steps.append(("restore", key))
            if self.left.get("empty") and table.heads and table.lock is None:
                steps.append(("empty", key))
        if self.chief() is not None and self.left["start"] and self.left.get("overlap"):
            steps.append(("start", "overlap"))
        if self.chief() is None and self.left["start"]:
            steps += [("start", how) for how in ("same", *self._restarts())]
        return [*steps, *self._of_topic()]

    def _of_driver(self, driver: Driver) -> Iterator[Step]:
        if driver.stopped:
            yield ("resume", driver.run)
            return
        yield from self.of_spark(driver)
        yield from self.of_call(driver)
        if self.left.get("crash"):
            yield ("crash", driver.run)
        if self.left.get("zombie") and not driver.zombie:
            yield ("stop", driver.run)
        if self.left.get("aside") and driver.untouched:
            yield ("aside", driver.run)

    def _of_topic(self) -> Iterator[Step]:
        if self.left.get("produce"):
            there = enumerate(self.scope.partitions)
            yield from (("produce", str(place)) for place, tp in there if tp in self.log.ends)
        if self.log.ends[self.scope.partitions[0]]:
            for kind in ("recreate", "shrink"):
                if self.left.get(kind):
                    yield from ((kind, str(records)) for records in self.scope.recreated_records)
        if self.left.get("retention") and self._unread():
            yield ("retention",)

    def _restarts(self) -> Iterator[str]:
        kinds = ["rewind"] if self.checkpoint.done else []
        kinds += ["forgotten"] if self.checkpoint.batches else []
        kinds += ["careless", "stranger"]
        # What runs under the old name is not kept out by heads under the new one.
        kinds += [] if self.drivers else ["rename"]
        yield from (kind for kind in kinds if self.left.get(kind))
        if self.offered is not None:
            yield "confirm"
        for kind in ("ledger", "earliest") if self.log.recreated else ("ledger",):
            if self.left.get(kind) and self.from_ledger(recreated=kind == "earliest") is not None:
                yield kind

    def _unread(self) -> bool:
        tp = self.scope.partitions[0]
        return self.log.ends[tp] > max(self.checkpoint.durable.get(tp, 0), self.log.starts[tp])

    def of_spark(self, driver: Driver, *, more: bool = True) -> list[Step]:
        """What Spark does next; `more` allows new records."""
        if driver.phase is Phase.BATCH:
            stand = driver.stand
            done = stand is not None and stand.pending is None
            return [("finish", driver.run)] if done else []
        steps: list[Step] = []
        if more and self._data_batches(driver) < self.scope.batches:
            steps.append(("plan", driver.run, "more"))
        if self.log.ends != driver.position:
            steps.append(("plan", driver.run, "all"))
        if self.scope.stateful and driver.last is not None and not driver.last.empty:
            steps.append(("plan", driver.run, "none"))
        return steps

    def _data_batches(self, driver: Driver) -> int:
        done = self.checkpoint.batches[: driver.batch]
        return sum(not batch.empty for batch in done)

    def of_call(self, driver: Driver) -> list[Step]:
        call = driver.stand.pending if driver.stand is not None else None
        if call is None:
            return []
        at = ("answer", driver.run)
        if call.name == "read":
            return [(*at, "well"), *([(*at, "away")] if self.left.get("away") else [])]
        if call.name == "lock":
            return [(*at, how) for how in self._of_lock(call.key)]
        assert call.name == "commit"
        if call.key in driver.ousted:
            return [(*at, "ousted")]
        return [(*at, "well"), *((*at, kind) for kind in _UNKNOWN if self.left.get(kind))]

    def _of_lock(self, key: str) -> Iterator[str]:
        holder = self.tables[key].lock
        if holder is None:
            yield "well"
            if self.left.get("again"):
                yield "again"
        elif holder in self.drivers and self.drivers[holder].stopped:
            yield "busy" if self.scope.how.exclusive else "oust"

    # Doing it

    def take(self, step: Step) -> None:
        """Take a step. Raises Broken when a rule does not hold."""
        name, *rest = step
        getattr(self, f"_do_{name}")(*rest)

    def _spend(self, kind: str) -> None:
        if kind in self.left:
            self.left[kind] -= 1

    def _do_plan(self, run: str, which: str) -> None:
        driver = self.drivers[run]
        files = self.checkpoint
        if which == "more":
            step, starts = self.scope.steps[driver.batch % len(self.scope.steps)], driver.position
            ends = {tp: starts.get(tp, 0) + step.get(tp, 0) for tp in self.log.ends}
            self.log.ends = {tp: max(ends[tp], end) for tp, end in self.log.ends.items()}
        else:
            ends = dict(self.log.ends if which == "all" else driver.ends)
        batch = following(driver, ends, files.lost)
        if driver.query_id != files.id or len(files.batches) != driver.batch:
            del self.drivers[run]  # another run has planned this batch
            return
        files.batches.append(batch)
        driver.begin(batch)
        self._proceed(driver)

    def _do_finish(self, run: str) -> None:
        driver = self.drivers[run]
        batch, stand = driver.current, driver.stand
        assert batch is not None
        assert stand is not None
        for key, table in self.tables.items():
            what = f"Spark was answered that batch {driver.batch} is in {key}"
            there = driver.robbed or table.has(batch, driver.ids, stateful=self.scope.stateful)
            require(there, f"{what}, and it is not")
            mine = driver.robbed or table.got(batch, driver.query_id, driver.ids)
            require(mine, f"{what}, and it is of another query")
        ran = stand.executed or not self.scope.stateful
        require(ran, f"batch {driver.batch} of a stateful query was not run")
        self._commit_batch(driver)

    def _do_aside(self, run: str) -> None:
        self._spend("aside")
        self.meddled.add(self.drivers[run].query_id)
        self._commit_batch(self.drivers[run])

    def _commit_batch(self, driver: Driver) -> None:
        files = self.checkpoint
        mine = driver.query_id == files.id and files.done == driver.batch
        if not mine or files.batches[driver.batch :] != [driver.current]:
            del self.drivers[driver.run]  # another run has finished it
            return
        files.done += 1
        driver.go_on()

    def _do_answer(self, run: str, how: str) -> None:
        driver = self.drivers[run]
        assert driver.stand is not None
        call = driver.stand.pending
        assert call is not None
        driver.answers = (*driver.answers, self._answer(driver, call, how))
        self._proceed(driver)

    def _proceed(self, driver: Driver) -> None:
        """Let a batch go on to its next call that others can notice."""
        while True:
            stand = driver.stand = self._play(driver)
            call = stand.pending
            if call is None or call.name in self.NOTICED:
                break
            driver.answers = (*driver.answers, self._at_once(driver, call))
        if stand.error is not None:
            self._halt(driver, stand.error)

    def _play(self, driver: Driver) -> Stand:
        how, consent = self.scope.how, driver.consent
        return self.played(how, driver.name, driver.batch, driver.answers, consent)

    def _at_once(self, driver: Driver, call: Call) -> Answer:
        if call.name == "plan":
            driver.ids = self.log.ids
            return planned(driver, self.log, stateful=self.scope.stateful)
        table = self.tables[call.key]
        if call.name == "moved":
            moved: dict[LedgerKey, dict[TopicPartition, Head]] = {}
            mine = {at: head for at, head in table.heads.items() if head.query_id == call.query}
            for (name, tp), head in mine.items():
                moved.setdefault(LedgerKey(call.key, name), {})[tp] = head
            return Answer(moved, frozenset(mine.items()))
        if call.name == "history":
            heads = table.remembered()
            return Answer(heads, frozenset(heads.items()))
        assert call.name == "rollback"
        if table.lock == driver.run:
            table.lock = None
        return Answer()

    def _answer(self, driver: Driver, call: Call, how: str) -> Answer:
        self._spend(how)
        table = self.tables[call.key]
        if how == "ousted":
            driver.ousted.discard(call.key)
        if how in _ERRORS:
            return Answer(error=_ERRORS[how])
        if call.name == "commit":
            return self._commit(driver, call, how)
        if call.name == "lock":
            if how == "oust" and table.lock is not None:
                self.drivers[table.lock].ousted.add(call.key)
            table.lock = driver.run
        if call.name == "read":
            found = table.of(call.query)
            return Answer(found, frozenset(found.items()))
        return Answer(dict(table.heads), frozenset(table.heads.items()))

    def _commit(self, driver: Driver, call: Call, how: str) -> Answer:
        table, batch = self.tables[call.key], driver.current
        assert batch is not None
        if how == "late":
            table.flying = (driver.run, call, batch)
            table.lock = f"{driver.run} on its way"
            return Answer(error=OutcomeUnknownError)
        if table.lock == driver.run:
            table.lock = None
        if how != "lost":
            self._effect(driver.run, call, batch)
        return Answer() if how == "well" else Answer(error=OutcomeUnknownError)

    def _effect(self, run: str, call: Call, batch: Batch) -> None:
        table = self.tables[call.key]
        first = self.firsts[run]
        table.commit(run, call, batch, self.log, first, stateful=self.scope.stateful)
        several = len({tp for tp, _ in table.bases}) < len(table.bases)
        consent = self.scope.how.on_recreated == "restart"
        require(consent or not several, f"{run} begins a recreated topic unasked")
        if any(head.query_id != self.checkpoint.id for _, _, head in call.moves):
            self.meddled.add(self.checkpoint.id)  # a zombie of the checkpoint before this one
        for other in self.drivers.values():
            other.overtaken = other.overtaken or other.run != run

    def _halt(self, driver: Driver, error: EoListenerError) -> None:
        what = f"{driver.run}, batch {driver.batch}: {type(error).__name__}: {error}"
        if isinstance(error, ForeignWriterError):
            require(driver.overtaken, f"nobody else has written, but {what}")
            require(not self._has_all(driver), f"a healthy replay fails: {what}")
        elif isinstance(error, GuardError):
            meddled = driver.query_id in self.meddled or driver.topics != self.log.lives
            halts = self.log.recreated and self.scope.how.on_recreated == "fail"
            unnamed = isinstance(error, NewCheckpointError) and self._see_offer(driver, error)
            excused = driver.overtaken or meddled or self.lossy or halts or unnamed
            require(excused, f"a false alarm: {what}")
        else:
            require(isinstance(error, SinkError), f"not an error of a sink: {what}")
        self.failed = type(error).__name__
        self._end(driver)

    def _see_offer(self, driver: Driver, error: NewCheckpointError) -> bool:
        """Whether a sink has another checkpoint, and this one is not confirmed; how to, it says."""
        named = re.search(r'new_checkpoint="(.*?)"', str(error))
        assert named is not None
        if driver.query_id == self.checkpoint.id:
            right = self.read_of_files() == {driver.first[F0]}
            self.offered = named[1] if right else None
        there = (table.of(driver.name).get(BATCHES) for table in self.tables.values())
        other = any(head is not None and head.query_id != driver.query_id for head in there)
        return other and driver.query_id not in (driver.consent or "").split()

    def read_of_files(self) -> set[int]:
        life = (F0, self.log.ids[F0.topic])
        return {table.reached.get(life, 0) for table in self.tables.values()}

    def _has_all(self, driver: Driver) -> bool:
        """Whether each sink has just the driver's own batch, of its own query."""
        batch = driver.current
        assert batch is not None
        read = [(tp, span) for tp, span in batch.kafka.items() if span.start < span.until]
        ours = {(tp, span, driver.ids[tp.topic], driver.query_id) for tp, span in read}
        if batch.files is not None:
            number = OffsetRange(driver.batch, driver.batch + 1)
            ours.add((BATCHES, number, batch.plan_id, driver.query_id))
        return bool(ours) and all(
            ours <= {(tp, one.range, one.topic_id, one.query_id) for tp, one in there.items()}
            for there in (table.of(driver.name) for table in self.tables.values())
        )

    def _end(self, driver: Driver) -> None:
        for table in self.tables.values():
            if table.lock == driver.run:
                table.lock = None
        del self.drivers[driver.run]

    # Operators and administrators

    def _do_crash(self, run: str) -> None:
        self._spend("crash")
        self._end(self.drivers[run])

    def _do_stop(self, run: str) -> None:
        self._spend("zombie")
        self.drivers[run].stopped = True

    def _do_resume(self, run: str) -> None:
        self.drivers[run].stopped, self.drivers[run].zombie = False, True

    def _do_land(self, key: str) -> None:
        table = self.tables[key]
        assert table.flying is not None
        flying, table.flying, table.lock = table.flying, None, None
        self._effect(*flying)

    def _do_fade(self, key: str) -> None:
        self.tables[key].flying = self.tables[key].lock = None

    def _do_restore(self, key: str) -> None:
        self._spend("restore")
        self.tables[key].restore()
        self._rob()

    def _do_empty(self, key: str) -> None:
        self._spend("empty")
        self.tables[key] = Table(flying=self.tables[key].flying)
        self._rob()

    def _rob(self) -> None:
        self.meddled.add(self.checkpoint.id)
        for driver in self.drivers.values():
            driver.overtaken = driver.robbed = True

    def _do_start(self, how: str) -> None:
        self._spend("start")
        self._spend(how)
        files = self.checkpoint
        if how in ("rewind", "forgotten"):
            self.meddled.add(files.id)
            if how == "rewind" or len(files.batches) == files.done:
                files.done -= 1
            kept = files.done + (how == "rewind")
            files.lost += F0 in files.first and kept < len(files.batches)
            del files.batches[kept:]
        elif how in ("careless", "stranger"):
            self.renew(self.log.ends if how == "careless" else dict.fromkeys(self.log.ends, 0))
            self.meddled.add(self.checkpoint.id)
        elif how == "rename":
            self.name = RENAMED if self.name == NAME else NAME
            self.meddled.add(files.id)
        elif how == "confirm":
            self.consent, self.offered = self.offered, None
        elif how in ("ledger", "earliest"):
            first = self.from_ledger(recreated=how == "earliest")
            assert first is not None
            self.renew(first)
        self._start()

    def renew(self, first: Mapping[TopicPartition, int]) -> None:
        """Put a new checkpoint in place, which starts there."""
        life = self.checkpoint.life + 1
        self.checkpoint, self.offered = Checkpoint(dict(first), dict(self.log.lives), life), None

    def from_ledger(self, *, recreated: bool) -> dict[TopicPartition, int] | None:
        """Where a new checkpoint begins by its ledgers; None where there is no such place."""
        first = of_kafka(self.log.starts)
        if first and any(table.of(self.name) for table in self.tables.values()):
            kafka = self._starting_offsets(recreated=recreated)
            if kafka is None:
                return None
            first = kafka
        if F0 not in self.log.ends:
            return first
        read = self.read_of_files()
        return {**first, F0: read.pop()} if len(read) == 1 else None

    def _starting_offsets(self, *, recreated: bool) -> dict[TopicPartition, int] | None:
        """What `starting_offsets` gives; None if it refuses."""
        starts, ends = of_kafka(self.log.starts), of_kafka(self.log.ends)
        snapshot = GroupSnapshot(positions={}, starts=starts, ends=ends, topic_ids=self.log.ids)
        sinks: Any = [_Ledger(key, table.of(self.name)) for key, table in self.tables.items()]
        try:
            found = choose(
                ledger_origin(sinks, self.name),
                snapshot.starts,
                snapshot,
                missing=Policy.EARLIEST,
                out_of_range=Policy.FAIL,
                recreated=Recreated.EARLIEST if recreated else Recreated.FAIL,
            )
        except (GuardError, SettingsError):
            return None
        return {tp: self.log.starts[tp] if at == EARLIEST else at for tp, at in found.items()}

    def _do_produce(self, place: str) -> None:
        self._spend("produce")
        self.log.ends[self.scope.partitions[int(place)]] += 1

    def _do_recreate(self, records: str) -> None:
        self._spend("recreate")
        self._delete_and_recreate(self.scope.partitions, int(records))

    def _do_shrink(self, records: str) -> None:
        self._spend("shrink")
        self._delete_and_recreate(self.scope.partitions[:1], int(records))

    def _delete_and_recreate(self, partitions: tuple[TopicPartition, ...], records: int) -> None:
        topic = partitions[0].topic
        self.log.recreate_topic(topic, [tp for tp in partitions if tp.topic == topic], records)

    def _do_retention(self) -> None:
        self._spend("retention")
        self.lossy = True
        tp = self.scope.partitions[0]
        self.log.starts[tp] = max(self.checkpoint.durable.get(tp, 0), self.log.starts[tp]) + 1
