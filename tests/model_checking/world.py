"""The whole: one cluster, the checkpoints, one or two drivers; and every step that can be taken.

Time passes only while no running driver has anything to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from eo_listener.commit.groups.cluster_state import STANDSTILL
from eo_listener.commit.groups.group_state import CommitRequest, SnapshotRequest
from eo_listener.commit.tracking.event_buffer import Ended
from eo_listener.commit.tracking.group_names import GroupNames
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.events import Committed, GuardViolation
from eo_listener.offsets import Offsets, Position, TopicPartition
from tests.model_checking.broker import Cluster, Request
from tests.model_checking.cloning import clone
from tests.model_checking.driver import Driver
from tests.model_checking.freeze import freeze
from tests.model_checking.ledger import Broken, Truth, require, unread
from tests.model_checking.scope import GROUP, Scope
from tests.model_checking.spark import (
    Batch,
    Checkpoint,
    Glitch,
    LateEvent,
    Phase,
    QueryRun,
    following,
    glitches_after,
    spoilt,
)

Step = tuple[str, ...]

RULES = GroupRouting(names=GroupNames(groups={}), kafka={})
_OF_DRIVER = attrgetter(  # for the key of a state
    *("name", "stopped", "zombie", "fenced", "outstanding", "on_its_way", "runs", "buffer"),
    *("cluster_state", "tracker", "front.offered", "has_new_run"),
)
REQUEST = 8.0  # a request that is not answered takes so long
_MAX_REQUESTS = 60  # requests at one instant: more is a driver that turns on the spot

_CHECKPOINTS = ("rewind", "fresh", "latest")
_ANSWERS = ("lost", "unanswered", "delayed", "missing", "partial")
_ADMINISTRATORS = (
    "pause",
    "delete",
    "recreate",
    "truncate",
    "expire",
    "members",
    "reset",
    "forget",
)


class World:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.setting = scope.setting()
        self.now = 0.0
        self.left = {**scope.faults, "tick": scope.ticks}
        self.kafka = Cluster(fencing=scope.fencing)
        for topic in sorted({tp.topic for step in scope.steps for tp in step}):
            count = max(tp.partition for step in scope.steps for tp in step) + 1
            self.kafka.create(topic, count)
        self.checkpoints = {query: Checkpoint(query) for query in scope.queries}
        self.drivers: dict[str, Driver] = {}
        self.names = 0
        self.busy = 0
        self.truth = Truth()
        self._driver()

    def copy(self) -> World:
        return clone(self, {})  # type: ignore[no-any-return]  # it gives what it got

    def key(self) -> object:
        drivers = [
            (str(self._still(d)), tuple(d.bus), frozenset(d.cluster_state._active), *_OF_DRIVER(d))
            for d in self.drivers.values()
        ]
        rest = (self.left, self.kafka, self.checkpoints, self.truth, drivers)
        return freeze(rest, self.now)

    def _still(self, driver: Driver) -> float:
        return min(STANDSTILL + 1.0, self.now - driver.stopped_at) if driver.stopped else 0.0

    def wanted(self, checkpoint: Checkpoint) -> int:
        """How many batches it is to have; a new one fewer, so that it stays below the old."""
        return max(1, self.scope.batches - checkpoint.life + 1)

    def right(self) -> dict[TopicPartition, int]:
        """Where the group should be: where the slowest query is that reads the partition."""
        right: dict[TopicPartition, int] = {}
        for checkpoint in self.checkpoints.values():
            for tp, offset in checkpoint.durable.items():
                right[tp] = min(offset, right.get(tp, offset))
        return right

    # Who is there

    def running(self) -> Iterator[Driver]:
        return (driver for driver in self.drivers.values() if not driver.stopped)

    def chief(self) -> Driver | None:
        """The driver that was started last, if it runs."""
        last = next(reversed(self.drivers.values()), None)
        return None if last is None or last.stopped or last.zombie else last

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _driver(self) -> Driver:
        name, options = self._name("d"), self.scope.options()
        driver = Driver(name, RULES, self.setting, options, behind=self.scope.behind)
        self.drivers[driver.name] = driver
        for query in self.scope.queries:
            self._run(driver, query)
        return driver

    def _run(self, driver: Driver, query: str) -> None:
        driver.start(QueryRun(self._name("r"), self.checkpoints[query]))

    # What can be done

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        idle = True
        for driver in self.running():
            its = self.of_listener(driver)
            idle = idle and not its
            spark = [step for run in driver.runs.values() for step in self._of_spark(driver, run)]
            idle = idle and not any(step[0] == "restore" for step in spark)
            bus: list[Step] = [("deliver", driver.name)] if driver.bus else []
            steps += its + bus + spark + self._of_operator(driver)
        steps += [("land", str(i)) for i in range(len(self.kafka.delayed))]
        steps += [("resume", d.name) for d in self.drivers.values() if d.stopped]
        if self.chief() is None:
            steps += [("start", *how) for how in self._restarts()]
        if self.kafka.topics:
            kinds = [kind for kind in _ADMINISTRATORS if self.left.get(kind)]
            steps += [(kind,) for kind in kinds if kind != "pause" or idle]
        moment = self.next_moment() if idle else None
        if moment is not None and self.left["tick"]:
            steps.append(("tick",))
        return steps

    def _restarts(self) -> Iterator[Step]:
        yield ("same",)
        if any(checkpoint.done for checkpoint in self.checkpoints.values()):
            yield from ((kind,) for kind in _CHECKPOINTS if self.left.get(kind))

    def of_listener(self, driver: Driver) -> list[Step]:
        """What the driver's tracker thread and worker have to do now."""
        return [*self._of_router(driver), *self._of_worker(driver)]

    def _of_router(self, driver: Driver) -> list[Step]:
        due = driver.due(self.now)
        return [("serve", driver.name)] if due is not None and due <= self.now else []

    def _of_worker(self, driver: Driver) -> list[Step]:
        out = driver.outstanding
        if out is None:
            return [("send", driver.name)] if driver.wait(self.now) == 0.0 else []
        if driver.on_its_way:
            return [("answer", driver.name, "gone")]
        kinds = ("snapshot",) if isinstance(out, SnapshotRequest) else _ANSWERS
        faults = [kind for kind in kinds if self.left.get(kind)]
        if len(getattr(out, "positions", ())) < 2:
            faults = [kind for kind in faults if kind != "partial"]
        return [("answer", driver.name, kind) for kind in ("well", *faults)]

    def _of_spark(self, driver: Driver, run: QueryRun) -> list[Step]:
        again = self.left.get("twice") and run.posted is not None
        twice: list[Step] = [("twice", driver.name, run.query)] if again else []
        return [*self._of_run(driver, run), *twice]

    def _of_run(self, driver: Driver, run: QueryRun) -> list[Step]:
        at = (driver.name, run.query)
        match run.phase:
            case Phase.NEW:
                return [("restore", *at)]
            case Phase.IDLE | Phase.PLANNED if driver.zombie and self.scope.polite:
                return []
            case Phase.IDLE if run.batch < self.wanted(run.checkpoint) and self.kafka.topics:
                steps: list[Step] = [("plan", *at)]
                if self.left.get("glitch"):
                    for last in run.checkpoint.batches[: run.batch][-1:]:
                        possible = glitches_after(last, self.scope.glitches)
                        steps += [("plan", *at, glitch.value) for glitch in possible]
                return steps
            case Phase.PLANNED:
                return [("finish", *at)]
            case Phase.DONE:
                held_up = [kind for kind in ("drop", "late") if self.left.get(kind)]
                return [("event", *at), *((kind, *at) for kind in held_up)]
        return []

    def _of_operator(self, driver: Driver) -> list[Step]:
        steps: list[Step] = []
        if self.left.get("crash"):
            steps.append(("crash", driver.name))
        if self.left.get("zombie") and not driver.zombie:
            steps.append(("stop", driver.name))
        if driver.zombie and self.left.get("return"):
            over = [query for query in self.scope.queries if query not in driver.runs]
            steps += [("again", driver.name, query, "return") for query in over]
        if driver is self.chief():
            for query in self.scope.queries:
                if query not in driver.runs:
                    steps.append(("again", driver.name, query, "same"))
                    kinds = [kind for kind in _CHECKPOINTS if self.left.get(kind)]
                    steps += [("again", driver.name, query, kind) for kind in kinds]
                else:
                    kinds = [kind for kind in ("restart", "mute") if self.left.get(kind)]
                    steps += [("end", driver.name, query, kind) for kind in kinds]
        return steps

    def next_moment(self) -> float | None:
        times = [request.expires for request in self.kafka.delayed]
        for driver in self.running():
            wait = driver.wait(self.now)
            due = driver.due(self.now)
            times += [] if wait is None else [self.now + wait]
            times += [] if due is None else [due]
        return min(times, default=None)

    # Doing it

    def take(self, step: Step) -> None:
        """Take a step. Raises Broken when a rule does not hold."""
        name, *rest = step
        self.busy = self.busy + 1 if name in ("serve", "send", "answer") else 0
        require(self.busy < _MAX_REQUESTS, f"{rest[:1]} turns on the spot")
        if name in self.left:
            self._spend(name)
        getattr(self, f"_do_{name}")(*rest)
        for driver in self.drivers.values():
            self._listen(driver)

    def _listen(self, driver: Driver) -> None:
        for event in driver.take_events():
            self.truth.tell(driver.name, event, self.right())
            if isinstance(event, Committed):
                self._confirmed(event)
            if isinstance(event, GuardViolation):
                withheld = self.scope.guard is GuardMode.WITHHOLD
                require(event.withheld == withheld, f"{driver.name}: withheld={event.withheld}")
                if unread(event):
                    self._compare_unread(driver, event)
                if unread(event) or not withheld:
                    continue
                before = self.truth.excused[event.run_id][event.batch_id]
                ceiling = before.merge(driver.front.offered)
                self.truth.withheld(driver.name, self._partitions(), ceiling)

    def _compare_unread(self, driver: Driver, event: GuardViolation) -> None:
        """A range of unread records lies between the group's offset and the query's beginning.

        The driver commits nothing beyond the group's offset.
        """
        positions, began = self.kafka.held(GROUP), self.truth.began[event.run_id]
        for tp, start, until in ((v.partition, v.start, v.until) for v in event.violations):
            require(positions[tp].offset == start < until == began[tp], f"{tp} has not {event}")
            if event.withheld:
                self.truth.withheld(driver.name, (tp,), Offsets({tp: start}))

    def _confirmed(self, event: Committed) -> None:
        held = self.kafka.held(event.group)
        for tp, offset in event.offsets.items():
            there = tp in held and held[tp].offset == offset
            require(there, f"{tp} at {offset} is said to be committed, and is not")

    def _spend(self, kind: str) -> None:
        self.left[kind] -= 1

    def _do_tick(self) -> None:
        moment = self.next_moment()
        assert moment is not None
        self.pass_to(moment)

    def pass_to(self, moment: float) -> None:
        since, self.now = self.now, max(moment, self.now)
        for driver in self.running():
            driver.live(since, self.now)
        self.kafka.delayed = [one for one in self.kafka.delayed if one.expires > self.now]

    # Spark

    def _at(self, driver: str, query: str) -> tuple[Driver, QueryRun]:
        return self.drivers[driver], self.drivers[driver].runs[query]

    def _do_restore(self, driver: str, query: str) -> None:
        owner, run = self._at(driver, query)
        run.restore()
        if run.current is not None:  # what was deleted since is lost to whoever reads it now
            run.replan(self._with_losses(owner, run.current))
        run.planned = self.now if self.scope.lossy else None
        self.truth.starts(run.run, run.checkpoint.began)
        self.truth.durable(run.run, run.committed)

    def _do_plan(self, driver: str, query: str, glitch: str | None = None) -> None:
        owner, run = self._at(driver, query)
        batches, number = run.checkpoint.batches, run.batch
        if len(batches) != number:  # another run has planned this batch, or the last is gone
            owner.end(run)
            return
        step = self.scope.steps[number % len(self.scope.steps)]
        last = batches[number - 1] if number else None
        batch = following(last, step, run.checkpoint.began)
        if glitch is not None and last is not None:
            self._spend("glitch")
            how = next(one for one in self.scope.glitches if one.value == glitch)
            batch = spoilt(last, step, how)
        batch = self._with_losses(owner, batch)
        self.kafka.grow(batch.end)
        run.plan(batch)
        run.planned = self.now if self.scope.lossy else None

    def _with_losses(self, owner: Driver, batch: Batch) -> Batch:
        """Note whether Kafka has deleted what the batch is to read, and whether that was seen."""
        tp = min(self._partitions())
        topic = self.kafka.topics.get(tp.topic)
        start = None if batch.start is None else batch.start.get(tp)
        # A batch with a loss may be repeated by a driver that knows less than the one before it.
        if topic is None or start is None or batch.glitch not in (None, Glitch.LOST):
            return batch
        if not start < min(topic.starts[tp.partition], batch.end.get(tp, 0)):
            return batch
        seen = self.truth.seen.get((owner.name, tp))
        known = seen is not None and seen.topic_id == topic.id and seen.start > start
        return replace(batch, glitch=Glitch.LOST, known=known)

    def _do_finish(self, driver: str, query: str) -> None:
        owner, run = self._at(driver, query)
        if run.finish():
            self.truth.durable(run.run, run.committed)
        else:
            owner.end(run)

    def _do_event(self, driver: str, query: str) -> None:
        owner, run = self._at(driver, query)
        if owner.bus:
            owner.bus.append(run.posting())
        else:
            self._deliver(owner, run.posting())
        run.posted = run.event() if self.left.get("twice") else None
        run.untold.clear()
        run.go_on()

    def _do_late(self, driver: str, query: str) -> None:
        """The listener bus is slow: this event, and all that follows, waits there."""
        owner, run = self._at(driver, query)
        owner.bus.append(run.posting())
        run.untold.clear()
        run.go_on()

    def _do_deliver(self, driver: str) -> None:
        owner = self.drivers[driver]
        self._deliver(owner, owner.bus.pop(0))

    def _deliver(self, owner: Driver, event: LateEvent) -> None:
        if event.progress is None or event.batch is None:
            owner.buffer.add(Ended(event.run))
            return
        self.truth.delivered(event.run, event.progress.batch_id, event.batch, event.hidden)
        owner.buffer.add(event.progress)
        run = owner.queries.runs.get(event.run)
        if run is not None:
            run.told = event.batch.end

    def _do_twice(self, driver: str, query: str) -> None:
        owner, run = self._at(driver, query)
        assert run.posted is not None
        owner.buffer.add(run.posted)

    def _do_drop(self, driver: str, query: str) -> None:
        _, run = self._at(driver, query)
        assert run.current is not None
        run.untold.append(run.current)
        run.go_on()

    # The listener

    def _do_serve(self, driver: str) -> None:
        its = self.drivers[driver]
        its.front.fresh.clear()
        its.serve(self.now)
        known = [run for run in its.runs.values() if run.reported]  # before these events
        for run in its.runs.values():
            run.reported = run.told
        for tp, offset in its.front.fresh if len(self.scope.queries) > 1 else ():
            lowest = min((run.committed.get(tp, offset) for run in known), default=offset)
            require(offset <= lowest, f"{driver} offers {tp} at {offset}, a query is at {lowest}")

    def _do_send(self, driver: str) -> None:
        its = self.drivers[driver]
        its.outstanding = out = its.request(self.now)
        if isinstance(out, SnapshotRequest):
            self.truth.ask(driver, its.front.offered)
            if out.takes_over:
                require(its.has_new_run, f"{driver} takes the group back without a new run")
                its.fenced = its.has_new_run = False
                self.kafka.outlived.discard((out.group, driver))
        require(out is None or not its.fenced, f"{driver} goes on, though another has taken over")

    def _do_answer(self, driver: str, how: str) -> None:
        its = self.drivers[driver]
        request, its.outstanding = its.outstanding, None
        if isinstance(request, SnapshotRequest):
            self._answer_look(its, request, how)
        elif isinstance(request, CommitRequest):
            self._answer_commit(its, request, how)

    def _answer_look(self, driver: Driver, request: SnapshotRequest, how: str) -> None:
        if how == "snapshot":
            self._spend("snapshot")
        state, names = driver.cluster_state.group(request.group), request.partitions
        if how != "well":
            self.pass_to(self.now + REQUEST / 2)
            driver.front.events += state.on_snapshot_failed(request, "_TIMED_OUT", self.now)
        elif not self.kafka.admits(driver.name, request.group):
            driver.fenced = True
            driver.front.events += state.on_snapshot_failed(request, "_FENCED", self.now)
        else:
            snapshot = self.kafka.snapshot(request.group, names)
            self.truth.on_snapshot(driver.name, names, self.kafka, self.now)
            if driver is self.chief():
                self.truth.meddled.difference_update(names)
                self.truth.taken_back.difference_update(names)
            driver.front.events += state.on_snapshot(request, snapshot, self.now)

    def _answer_commit(self, driver: Driver, request: CommitRequest, how: str) -> None:
        group, positions = request.group, dict(request.positions)
        if how in self.left:
            self._spend(how)
        driver_gone = driver.on_its_way
        driver.on_its_way = False
        answer: Mapping[TopicPartition, str | None]
        if how in ("lost", "delayed", "gone"):
            if how == "delayed":
                self._delay(driver, request)
            if not driver_gone:
                self.pass_to(self.now + REQUEST)
            answer = dict.fromkeys(positions, "_TIMED_OUT")
        elif not self.kafka.admits(driver.name, group):
            driver.fenced = True
            answer = dict.fromkeys(positions, "_FENCED")
        else:
            answer = self._arrive(driver, group, positions, how)
        state = driver.cluster_state.group(group)
        driver.front.events += state.on_commit_answer(request, answer, self.now)

    def _arrive(
        self, driver: Driver, group: str, positions: dict[TopicPartition, Position], how: str
    ) -> Mapping[TopicPartition, str | None]:
        answer = self.kafka.answer(positions)
        last = max(positions)
        if how == "partial":
            answer[last] = "COORDINATOR_LOAD_IN_PROGRESS"
        held = self.kafka.held(group)
        for tp, position in positions.items():
            if answer[tp] is None:
                found = held.get(tp)
                back = found is not None and position.offset < found.offset
                require(not back or self.scope.goes_back, f"{driver.name} goes back at {tp}")
                self.truth.landing(
                    driver.name, tp, position, found, self.kafka, self.setting, self.now
                )
                self._write(driver.name, held, tp, position)
                if driver.zombie:
                    self.truth.meddled.add(tp)
        if how == "missing":
            del answer[last]
        if how == "unanswered":
            self.pass_to(self.now + REQUEST)
            return dict.fromkeys(positions, "_TIMED_OUT")
        return answer

    def _write(
        self, by: str, held: dict[TopicPartition, Position], tp: TopicPartition, position: Position
    ) -> None:
        self.truth.committed(tp, position)
        if held.get(tp) != position:
            held[tp] = position
            self.truth.changed(by, tp)

    def _delay(self, driver: Driver, request: CommitRequest) -> None:
        positions, expires = tuple(sorted(request.positions.items())), self.scope.repeat_after
        late = (driver.name, request.group, positions, self.now, self.now + expires, driver.zombie)
        self.kafka.delayed.append(Request(*late))

    def _do_land(self, number: str) -> None:
        request = self.kafka.delayed.pop(int(number))
        owner = self.kafka.owners.get(request.group)
        if self.kafka.fencing and owner != request.driver:
            return
        held = self.kafka.held(request.group)
        answer = self.kafka.answer(dict(request.positions))
        for tp, position in request.positions:
            if answer[tp] is None:
                if request.zombie:
                    self.truth.landed_late(tp, position, held.get(tp))
                self._write("", held, tp, position)

    # Operators and administrators

    def _leave(self, driver: Driver) -> None:
        """What the driver has sent may still land, whatever becomes of the driver."""
        if isinstance(driver.outstanding, CommitRequest) and not driver.on_its_way:
            self._delay(driver, driver.outstanding)
            driver.on_its_way = True

    def _do_crash(self, driver: str) -> None:
        its = self.drivers.pop(driver)
        self._leave(its)
        for run in its.runs.values():
            self.truth.owed.pop(run.run, None)

    def _do_stop(self, driver: str) -> None:
        self._spend("zombie")
        self._leave(self.drivers[driver])
        self.drivers[driver].stopped = True
        self.drivers[driver].stopped_at = self.now

    def _do_resume(self, driver: str) -> None:
        its = self.drivers[driver]
        its.stopped, its.zombie = False, True
        if self.now - its.stopped_at > STANDSTILL:
            self.truth.stood_still(driver)

    def _do_start(self, how: str) -> None:
        for checkpoint in tuple(self.checkpoints.values()):
            self._prepare(checkpoint, how)
        self._driver()

    def _prepare(self, checkpoint: Checkpoint, how: str) -> None:
        if how == "rewind":
            checkpoint.rewind(max(0, checkpoint.done - 1))
        elif how == "fresh":
            self.checkpoints[checkpoint.query] = Checkpoint(checkpoint.query, checkpoint.life + 1)
        elif how == "latest":  # as "fresh", but it begins at the end of the log
            tps, topics = self._partitions(), self.kafka.topics
            began = Offsets({tp: topics[tp.topic].ends[tp.partition] for tp in tps})
            life = checkpoint.life + 1
            self.checkpoints[checkpoint.query] = Checkpoint(checkpoint.query, life, began)
        if how in self.left:
            self._spend(how)

    def _do_end(self, driver: str, query: str, how: str) -> None:
        self._spend(how)
        its, run = self._at(driver, query)
        its.end(run, told=how != "mute")

    def _do_again(self, driver: str, query: str, how: str) -> None:
        self._prepare(self.checkpoints[query], how)
        self._run(self.drivers[driver], query)

    def _do_recreate(self) -> None:
        topic = min(self.kafka.topics)
        self.kafka.create(topic, len(self.kafka.topics[topic].ends))
        self._meddle(tp for tp in self._partitions() if tp.topic == topic)

    def _do_pause(self) -> None:
        """Nobody does anything for a while; a driver that is suspended stays so for longer."""
        self.pass_to(self.now + 20.0)

    def _do_delete(self) -> None:
        self.kafka.delete(min(self.kafka.topics))
        self._meddle(self._partitions())

    def _do_truncate(self) -> None:
        topic = self.kafka.topics[min(self.kafka.topics)]
        topic.ends[0] = max(0, topic.ends[0] - 3)
        self._meddle(self._partitions())

    def _do_forget(self) -> None:
        """Something is written to the first partition, and deleted before anybody has read it."""
        self.pass_to(self.now + 1.0)
        tp = min(self._partitions())
        topic = self.kafka.topics[tp.topic]
        topic.ends[tp.partition] += 1
        topic.starts[tp.partition] = topic.ends[tp.partition]

    def _do_expire(self) -> None:
        held = self.kafka.held(GROUP)
        self._meddle(tuple(held))
        held.clear()

    def _do_members(self) -> None:
        self.kafka.members = not self.kafka.members

    def _do_reset(self) -> None:
        """A tool sets the first partition back, over whatever writes there."""
        held = self.kafka.held(GROUP)
        tp = min(self._partitions())
        self._write("", held, tp, Position(offset=max(0, held[tp].offset - 1) if tp in held else 1))
        self._meddle((tp,))

    def _partitions(self) -> tuple[TopicPartition, ...]:
        return tuple({tp: None for step in self.scope.steps for tp in step})

    def _meddle(self, tps: object) -> None:
        for tp in tps:  # type: ignore[attr-defined]  # any iterable of partitions
            self.truth.changed("", tp)
            self.truth.meddled.add(tp)


__all__ = ["Broken", "Step", "World"]
