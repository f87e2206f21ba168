"""The whole: batches on their way into topics, a coordinator, and tasks that join."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from eo_listener.errors import (
    EoListenerError,
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
    SinkLockedError,
)
from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.transaction import ONGOING, OpenTransaction
from tests.model_checking.batches import world as batches
from tests.model_checking.batches.spark import Batch, Driver, planned
from tests.model_checking.batches.tape import Answer, Call, Row, Stand
from tests.model_checking.kafka_sink.cluster import (
    FENCED,
    PREPARE_COMMIT,
    STRANGER,
    Cluster,
    Marker,
    Record,
    Request,
)
from tests.model_checking.kafka_sink.scope import Scope
from tests.model_checking.kafka_sink.tape import KEY, LEDGER, TARGETS, KafkaCall, play
from tests.model_checking.kafka_sink.tasks import Job, Task, task_of
from tests.model_checking.ledger import require

Step = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Posting:
    """A record of the ledger: what a batch of a run moves."""

    run: str
    query: str
    moves: tuple[tuple[TopicPartition, Head | None, Head], ...]
    gaps: tuple[tuple[TopicPartition, OffsetRange], ...]
    batch: Batch


class World(batches.World):
    """One state. `tables` has what was decided to be in the target, `kafka` what is there."""

    NOTICED = ("read", "init", "ledger", "rows", "entry", "describe", "commit", "end", "abort")

    def __init__(self, scope: Scope) -> None:
        self.bounds = scope
        self.kafka = Cluster((*TARGETS, LEDGER), verifies=scope.verifies, longest=scope.longest)
        self.jobs: list[Job] = []
        self.flying: list[Request] = []
        self.taken: set[str] = set()  # runs whose epoch another one has taken
        self.outlived = False  # the newest epoch is that of a time-out
        super().__init__(scope)

    def key(self) -> Hashable:
        jobs = tuple(job.key() for job in self.jobs)
        return (
            super().key(),
            self.kafka.key(),
            jobs,
            tuple(self.flying),
            frozenset(self.taken),
            self.outlived,
        )

    # What can be done

    def steps(self) -> list[Step]:
        return [*super().steps(), *self._of_tasks(), *self.of_cluster()]

    def _of_driver(self, driver: Driver) -> Iterator[Step]:
        call = driver.stand.pending if driver.stand is not None else None
        stops = not self.bounds.stops or (call is not None and call.name in self.bounds.stops)
        for step in super()._of_driver(driver):
            if stops or step[0] != "stop":
                yield step

    def _of_tasks(self) -> Iterator[Step]:
        for job in self.jobs:
            if job.driver is None and not self.left.get("orphan"):
                continue
            for task in job.tasks:
                yield from self.of_task(job, task)

    def of_task(self, job: Job, task: Task) -> Iterator[Step]:
        """What a task does, and what happens to it."""
        at = (job.name, task.name)
        if not task.closed and self.left.get("polite"):
            yield ("polite", *at)
        if task.ended:
            return
        waits = task.requests[0].kind == "add" and self.kafka.unmarked()
        if not waits:
            yield ("task", *at, "well")
            if self.left.get("twice"):
                yield ("task", *at, "twice")
        if job.driver is not None:
            yield from (
                ("lose", *at, k) for k in ("executor", "speculation", "stage") if self.left.get(k)
            )

    def of_cluster(self) -> list[Step]:
        """What the brokers do, and what reaches them late."""
        its = self.kafka.coordinator
        unmarked = self.kafka.unmarked()
        steps: list[Step] = [("mark", str(place)) for place in range(len(unmarked))]
        steps = steps if self.bounds.fine else steps[:1]
        steps += [("deliver", str(place)) for place in range(len(self.flying))]
        if its.state == ONGOING and self.left.get("timeout"):
            steps.append(("timeout",))
        if its.producer and self.left.get("expire") and self._rests():
            steps.append(("expire",))
        if self.is_foreign_open():
            steps.append(("foreign", "end"))
        elif self.left.get("foreign"):
            steps.append(("foreign", "begin"))
        return steps

    def _rests(self) -> bool:
        """Whether nobody who runs is at it, as is so when it is forgotten after days."""
        stands = [one.stand for one in self.drivers.values() if not one.stopped]
        calls = [stand.pending for stand in stands if stand is not None]
        busy = any(call is not None and call.name not in ("read", "init") for call in calls)
        return not busy and self.kafka.coordinator.state != ONGOING and not self.kafka.unmarked()

    def of_call(self, driver: Driver) -> list[Step]:
        call = driver.stand.pending if driver.stand is not None else None
        if call is None:
            return []
        return [("answer", driver.run, how) for how in self._answers(driver, call)]

    def _answers(self, driver: Driver, call: Call) -> list[str]:
        more: dict[str, tuple[str, ...]] = {
            "read": ("away",),
            "init": ("twice",),
            "entry": ("twice", "torn"),
            "describe": ("away",),
            "commit": ("lost", "unanswered", "late"),
        }
        if call.name == "init" and self.kafka.unmarked():
            return []
        if call.name in ("read", "ledger") and not self.is_readable(call):
            # Another driver has the epoch now, and leaves it open: the wait is bounded.
            overtaken = self.kafka.coordinator.state == ONGOING and not self.is_foreign_open()
            return ["blocked"] if overtaken or self.left.get("blocked") else []
        if call.name == "rows" and self.bounds.sink.method == "executors":
            return ["well"] if self._job_of(driver).done else []
        if call.name in ("rows", "entry") and self.kafka.unmarked():
            return []
        kinds = ("torn",) if call.name == "rows" else more.get(call.name, ())
        return ["well", *(kind for kind in kinds if self.left.get(kind))]

    def is_readable(self, call: Call) -> bool:
        """Whether the ledger is known to its end; without an epoch, what is open does not count."""
        its = self.kafka.coordinator
        undecided = call.name == "read" and its.state == ONGOING and not self.is_foreign_open()
        return undecided or self.kafka.logs[LEDGER].is_stable

    def is_foreign_open(self) -> bool:
        """Whether another sink has a transaction open in the ledger's partition."""
        return any(self.kafka.logs[LEDGER].open(STRANGER.producer_id))

    # A batch

    def _play(self, driver: Driver) -> Stand:
        stand = play(self.bounds.sink, driver.name, driver.batch, driver.answers)
        call = stand.pending
        if isinstance(call, KafkaCall) and call.name == "rows":
            self._start_job(driver, call)
        return stand

    def _name_of_job(self, driver: Driver) -> str:
        return f"{driver.run}:{driver.batch}:{len(driver.answers)}"

    def _job_of(self, driver: Driver) -> Job:
        name = self._name_of_job(driver)
        return next(job for job in self.jobs if job.name == name)

    def _start_job(self, driver: Driver, call: KafkaCall) -> None:
        if self.bounds.sink.method == "driver":
            return
        assert call.producer is not None
        name, layout = self._name_of_job(driver), self.bounds.sink.layout
        job = Job(name, driver.run, call.rows, call.producer, layout)
        job.start()
        for task in [task for task in job.tasks if not task.requests]:
            job.end(task)
        self.jobs.append(job)

    def _leave(self, job: Job) -> None:
        """Nobody waits for the job any more; its tasks may go on."""
        job.driver = None
        polite = "polite" in self.scope.troubles
        if all(task.ended and (task.closed or not polite) for task in job.tasks):
            self.jobs.remove(job)

    def _at_once(self, driver: Driver, call: Call) -> Answer:
        if call.name == "plan":
            driver.ids = self.log.ids
            return planned(driver, self.log, stateful=False)
        assert call.name == "moved"
        mine = {tp: head for tp, head in self.heads().items() if head.query_id == call.query}
        found = {LedgerKey(KEY, driver.name): mine} if mine else {}
        return Answer(found, frozenset(mine.items()))

    def heads(self) -> dict[TopicPartition, Head]:
        """The ledger as far as its last stable offset."""
        heads: dict[TopicPartition, Head] = {}
        for record in self.kafka.logs[LEDGER].committed():
            if isinstance(record.value, Posting):
                heads.update((tp, head) for tp, _, head in record.value.moves)
        return heads

    def _do_answer(self, run: str, how: str) -> None:
        driver = self.drivers[run]
        assert driver.stand is not None
        call = driver.stand.pending
        assert isinstance(call, KafkaCall)
        if self.left.get(how):
            self._spend(how)
        answer: Answer | None = getattr(self, f"_give_{call.name}")(driver, call, how)
        if answer is not None:  # else the client asks again
            driver.answers = (*driver.answers, answer)
            self._proceed(driver)

    def _give_init(self, driver: Driver, call: KafkaCall, how: str) -> Answer | None:
        self.taken |= set(self.drivers) - {driver.run}
        producer = self.kafka.coordinator.init()
        self.outlived = False
        if how == "twice":
            self.flying.append(Request("init"))
        return None if producer is None else Answer(producer, producer)

    def _give_read(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        found = self.heads()
        if how == "away":
            return Answer(error=SinkError)
        if how == "blocked":
            return Answer(error=SinkLockedError)
        return Answer(found, frozenset(found.items()))

    _give_ledger = _give_read

    def _give_rows(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        if self.bounds.sink.method == "driver":
            return self._sent_by_driver(driver, call, how)
        job = self._job_of(driver)
        self._leave(job)
        if job.failed:
            return self._failed([job.error])
        return Answer(job.reports, job.reports_key())

    def _sent_by_driver(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        assert call.producer is not None
        name = self._name_of_job(driver)
        task = task_of(name, 0, TARGETS, call.rows, call.producer)
        requests = task.requests
        for request in requests:
            if how == "torn" and request is requests[-1]:
                self.flying.append(request)
                return self._failed([])
            error = self._handle(request)
            if error is not None:
                return self._failed([error])
        reports = [
            TaskReport(partition_id=place, attempt=0, stage_attempt=0, records={tp: count})
            for place, (tp, count) in enumerate(task.records)
        ]
        return Answer(reports, name)

    def _give_entry(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        assert driver.current is not None
        posting = Posting(driver.run, call.query, call.moves, call.gaps, driver.current)
        sent = Request("produce", call.producer, LEDGER, 0, posting, driver.run)
        error = self._handle(Request("add", call.producer, LEDGER))
        if error is None and how in ("twice", "torn"):
            self.flying.append(sent)
        if error is None and how != "torn":
            error = self._handle(sent)
        if error is None and how != "torn":
            return Answer()
        return self._failed([] if error is None else [error])

    def _give_describe(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        its = self.kafka.coordinator
        if how == "away" or its.producer is None:
            return Answer(error=RetriableSinkError)
        found = OpenTransaction(state=its.state, producer=its.producer, partitions=its.partitions)
        return Answer(found, found)

    def _give_commit(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        request = Request("commit", call.producer)
        if how == "late":
            self.flying.append(request)
        elif how != "lost" and self._handle(request) is None and how == "well":
            return Answer()
        return Answer(error=OutcomeUnknownError)

    def _give_end(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        self.taken |= set(self.drivers) - {driver.run}
        self.kafka.coordinator.init()
        return Answer()

    def _give_abort(self, driver: Driver, call: KafkaCall, how: str) -> Answer:
        self._handle(Request("abort", call.producer))
        return Answer()

    def _failed(self, errors: Sequence[str]) -> Answer:
        """What the client raises: the age of a transaction tells that its time-out has ended it."""
        foreign = FENCED in errors and not self.outlived
        return Answer(error=ForeignWriterError if foreign else RetriableSinkError)

    def _halt(self, driver: Driver, error: EoListenerError) -> None:
        troubled = any(self.left[kind] < given for kind, given in self.scope.troubles.items())
        require(troubled, f"nothing was wrong, but {driver.run} fails: {error}")
        if isinstance(error, ForeignWriterError) and driver.run in self.taken:
            driver.overtaken = True
        super()._halt(driver, error)

    def _end(self, driver: Driver) -> None:
        for job in [job for job in self.jobs if job.driver == driver.run]:
            self._leave(job)
        super()._end(driver)

    # Requests

    def _handle(self, request: Request) -> str | None:
        """Let a request arrive, and check what it decides."""
        before = self.kafka.coordinator.state
        error = self.kafka.handle(request)
        if before == ONGOING and self.kafka.coordinator.state == PREPARE_COMMIT:
            self._decided()
        return error

    def _decided(self) -> None:
        """A transaction is committed: from now on nothing can take it back."""
        its = self.kafka.coordinator
        assert its.producer is not None
        there = {
            tp: list(self.kafka.logs[tp].open(its.producer.producer_id)) for tp in its.partitions
        }
        postings = {one.value for one in there.pop(LEDGER, ())}
        rows = [one.value for records in there.values() for one in records]
        if not postings:
            require(not rows, f"{rows[:1]} are committed without their ledger")
            return
        require(len(postings) == 1, f"two entries are committed at once: {postings}")
        (posting,) = postings
        assert isinstance(posting, Posting)
        for tp, records in there.items():
            senders = {one.by for one in records}
            require(len(senders) < 2, f"in {tp} there are records of {sorted(senders)} at once")
        call = Call("commit", KEY, posting.query, tuple(rows), posting.moves, posting.gaps)  # type: ignore[arg-type]  # rows
        self._effect(posting.run, call, posting.batch)

    def visible(self, tp: TopicPartition) -> list[Row]:
        return [one.value for one in self.kafka.logs[tp].committed() if isinstance(one.value, Row)]

    def check_readers(self) -> None:
        """Readers see what was decided, each row once and in order. Raises Broken."""
        rows = self.tables[KEY].rows
        for tp in TARGETS:
            seen = self.visible(tp)
            require(set(seen) <= rows, f"{tp} shows what was never committed")
            require(len(set(seen)) == len(seen), f"{tp} shows a row twice")
            for source in {(row.topic, row.partition) for row in seen}:
                offsets = [row.offset for row in seen if (row.topic, row.partition) == source]
                require(offsets == sorted(offsets), f"{tp} shows {source} as {offsets}")

    def _do_mark(self, place: str) -> None:
        unmarked = self.kafka.unmarked()
        for tp in unmarked[int(place) : int(place) + 1] if self.bounds.fine else unmarked:
            self.kafka.mark(tp)
        self.check_readers()

    def _do_deliver(self, place: str) -> None:
        self._handle(self.flying.pop(int(place)))

    def _do_timeout(self) -> None:
        self._spend("timeout")
        self.kafka.coordinator.fence()
        self.outlived = True

    def _do_expire(self) -> None:
        self._spend("expire")
        self.kafka.expire()

    def _do_foreign(self, how: str) -> None:
        log = self.kafka.logs[LEDGER]
        if how == "begin":
            self._spend("foreign")
            log.items += (Record(STRANGER, "another sink's"),)
        else:
            log.items += (Marker(STRANGER, commit=True),)

    # Tasks

    def _task(self, job: str, name: str) -> tuple[Job, Task]:
        found = next(one for one in self.jobs if one.name == job)
        return found, next(task for task in found.tasks if task.name == name)

    def _do_task(self, job: str, name: str, how: str) -> None:
        its, task = self._task(job, name)
        self._spend(how)
        if its.driver is None:
            self._spend("orphan")
        request, task.requests = task.requests[0], task.requests[1:]
        if how == "twice":
            self.flying.append(request)
        error = self._handle(request)
        if error is not None:
            self._fail(its, task, error)
        elif not task.requests:
            its.end(task)
        self._forget(its)

    def _do_lose(self, job: str, name: str, how: str) -> None:
        self._spend(how)
        its, task = self._task(job, name)
        if how != "speculation":
            self.flying.append(task.requests[0])
            task.requests, task.ended = (), True
        its.repeat(task, stage=how == "stage")

    def _do_polite(self, job: str, name: str) -> None:
        self._spend("polite")
        its, task = self._task(job, name)
        self._handle(Request("abort", its.producer))
        task.closed = True
        if not task.ended:
            self._fail(its, task, "aborted")
        self._forget(its)

    def _fail(self, job: Job, task: Task, error: str) -> None:
        task.requests, task.ended = (), True
        if task.report() not in job.reports and not job.failed:
            job.failed, job.error = True, error

    def _forget(self, job: Job) -> None:
        if job.driver is None and job in self.jobs:
            self._leave(job)
