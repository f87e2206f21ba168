"""`eo-listener txn`: what is printed, refused and done; a stand-in for Kafka."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from eo_listener.cli import app, txn
from eo_listener.cli.txn_screen import TypedCommand
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.kafka.open_transactions import OpenTransaction, TransactionVerdict
from eo_listener.kafka.stable_offsets import StableOffsets
from eo_listener.kafka.transaction_reader import TransactionReading
from eo_listener.kafka.transaction_repair import End, EndedTransaction, Outcome
from eo_listener.model.errors import (
    EoListenerError,
    InUseError,
    KafkaError,
    SettingsError,
    UnavailableError,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.typed_command import ClusterCommands

_T = TypeVar("_T")

T0 = TopicPartition("delays", 0)
ID = "eo-listener/delays/flights"
QUICK = ["--watch", "0", "--execute"]
BY_ID = ["abort", "--transactional-id", ID]
BY_PRODUCER = ["abort", "--partition", "delays-0", "--producer-id", "4711"]


def transaction(
    verdict: TransactionVerdict = TransactionVerdict.OPEN,
    name: str | None = ID,
    sequence: int = 1,
    why: str | None = None,
) -> OpenTransaction:
    known = verdict in (TransactionVerdict.OPEN, TransactionVerdict.ENDING)
    return OpenTransaction(
        producer_id=4711,
        transactional_id=name,
        verdict=verdict,
        producers={T0: OpenProducer(4711, 0, 0, 120, sequence, 1_000_000)},
        holds=frozenset({T0}),
        described=described("Ongoing") if known else None,
        why=why,
        first_written=None if known else 1_000_000,
    )


def described(state: str) -> DescribedTransaction:
    return DescribedTransaction(
        state=state,
        producer_id=4711,
        epoch=0,
        partitions=frozenset({T0}),
        timeout=600.0,
        started=4_000_000_000_000,  # in the year 2096: its time-out is not over
    )


HANGING = transaction(TransactionVerdict.HANGING, None)
UNKNOWN = transaction(TransactionVerdict.UNKNOWN, None, why="no right")
ENDED = Outcome(End.ENDED)
TWO_PHASE = (2**31 - 1) / 1000


@dataclass
class Kafka:
    """Stands in for the reader and the repair: gives one reading after the other, the last again.

    `ended` has what was ended, and by which way.
    """

    readings: list[Sequence[OpenTransaction]]
    states: list[str] = field(default_factory=lambda: ["Ongoing"])
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    away: bool = False
    outcome: EndedTransaction = field(
        default_factory=lambda: EndedTransaction(partitions={T0: ENDED})
    )

    def partitions(self, topics: Collection[str] | None) -> tuple[TopicPartition, ...]:
        return (T0,)

    def of_group(self, group: str) -> tuple[TopicPartition, ...]:
        own = TopicPartition("__consumer_offsets", 7)
        return (own,) if group == "empty" else (T0, own)

    def stable(self, partitions: Collection[TopicPartition]) -> StableOffsets:
        if self.away:
            raise KafkaError("reading where logs end failed", code="_TRANSPORT")
        return StableOffsets(errors=self.errors if self.ended else {})

    def read(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        reading = self._next(self.readings)
        found = tuple(reading)
        held = {T0: OffsetRange(120, 155)} if found else {}
        return TransactionReading(held=held, transactions=found, errors=self.errors)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return described(self._next(self.states))

    def open_of(self, transactional_id: str, found: DescribedTransaction) -> OpenTransaction:
        return self._next(self.readings)[0]

    def fence(self, transactional_id: str, *_: object) -> EndedTransaction:
        self.ended.append(transactional_id)
        return self.outcome

    def mark_aborted(self, found: OpenTransaction, *, live: bool) -> EndedTransaction:
        self.ended.append(str(list(found.producers)))
        return self.outcome

    @staticmethod
    def _next(given: list[_T]) -> _T:
        return given.pop(0) if len(given) > 1 else given[0]


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command against a stand-in; what it raises is raised."""

    def made(kafka: Kafka, *words: str, **environment: str) -> Result:
        @contextmanager
        def opened(servers: str, *_: object) -> Iterator[object]:
            yield txn._Opened(kafka, kafka, TypedCommand(cluster=ClusterCommands(servers=servers)))  # type: ignore[arg-type]  # stands in for both

        monkeypatch.setattr(txn, "_opened", opened)
        monkeypatch.setattr(txn, "_ENDING", 0.0)
        answer = CliRunner().invoke(app, ["txn", *words, "-b", "k:9092"], env=environment)
        if isinstance(answer.exception, EoListenerError):
            raise answer.exception
        return answer

    return made


def test_a_transaction_of_ours(run: Run) -> None:
    """Whose it is, since when, what it holds up, until when, and what to type."""
    answer = run(Kafka([[transaction()]]), "list", "-t", "delays")
    assert answer.exit_code == 0, "its coordinator ends it in time"
    for said in (
        "delays-0: consumers under read_committed stand at 120; the log ends at 155",
        "ours: KafkaSink delays, query 'flights'",
        "its coordinator ends it by 2096-10-02 07:16:40 UTC",
        "nothing while query 'flights' runs, which ends it by itself",
        "where it is gone, start query 'flights' again; or:",
        f"eo-listener txn abort -b k:9092 --transactional-id {ID}",
    ):
        assert said in answer.stdout
    (found,) = json.loads(run(Kafka([[transaction()]]), "list", "--json").stdout)["transactions"]
    assert found["ours"] == {"sink": "delays", "query": "flights", "group": None}
    assert (found["verdict"], found["ends_by"]) == ("open", 4_000_000_600_000)
    assert found["partitions"][0]["start_offset"] == 120


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (transaction(name="eo-listener-flights"), 0, "ours: commits to group flights"),
        (transaction(name="payments"), 0, "not ours"),
        (replace(transaction(), why=None), 0, "nothing while query 'flights' runs"),
        (transaction(name="payments"), 0, "nothing while its program runs"),
        (HANGING, 1, "txn abort -b k:9092 --partition delays-0 --producer-id 4711"),
        (transaction(TransactionVerdict.HANGING, "payments"), 1, "--producer-id 4711"),
        (UNKNOWN, 3, "no right"),
    ],
)
def test_each_kind(found: OpenTransaction, code: int, said: str, run: Run) -> None:
    """Exit status 1 where something is to be done, 3 where that is not known."""
    answer = run(Kafka([[found]]), "list")
    assert said in answer.stdout
    assert answer.exit_code == code


def test_one_that_its_coordinator_does_not_end(run: Run) -> None:
    """Its time-out is over: exit status 1."""
    late = replace(transaction(), described=replace(described("Ongoing"), started=0))
    answer = run(Kafka([[late]]), "list")
    assert answer.exit_code == 1
    assert "should have ended it by 1970-01-01 00:10:00 UTC" in answer.stdout

    assert "to do        look at the brokers: its coordinator is late" in answer.stdout
    assert "nothing while" not in answer.stdout


def test_an_ending_that_is_stuck(run: Run) -> None:
    """Exit status 1 where its markers are not written some seconds later either."""
    ending = transaction(TransactionVerdict.ENDING)
    answer = run(Kafka([[ending]]), "list")
    assert answer.exit_code == 1
    assert "has not written them for some seconds" in " ".join(answer.stdout.split())
    assert "look at the brokers" in answer.stdout
    (found,) = json.loads(run(Kafka([[ending]]), "list", "--json").stdout)["transactions"]
    assert found["stuck"] is True
    answer = run(Kafka([[ending], []]), "list")
    assert (answer.exit_code, "no open transaction" in answer.stdout) == (0, True)
    answer = run(Kafka([[transaction()]]), "list", "--json")
    assert json.loads(answer.stdout)["transactions"][0]["stuck"] is False


def test_one_of_a_two_phase_commit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have to be committed (KIP-939): no command that aborts it, and none that does it."""
    state = replace(described("Ongoing"), timeout=TWO_PHASE)
    prepared = replace(transaction(name="flink"), described=state)
    answer = run(Kafka([[prepared]]), "list")
    assert answer.exit_code == 0
    assert "no time-out ends it" in " ".join(answer.stdout.split())
    assert "start it again: it may have to be committed" in " ".join(answer.stdout.split())
    assert "txn abort" not in answer.stdout
    kafka = Kafka([[prepared]])
    monkeypatch.setattr(kafka, "describe", lambda name: state)
    with pytest.raises(SettingsError, match="KIP-939"):
        run(kafka, "abort", "--transactional-id", "flink", *QUICK, "--live")
    assert not kafka.ended


@pytest.mark.parametrize("words", [BY_ID, BY_PRODUCER])
def test_what_has_not_ended_everywhere(words: list[str], run: Run) -> None:
    """Each partition is told, and the exit status is 3."""
    outcome = EndedTransaction(
        partitions={
            T0: ENDED,
            TopicPartition("delays", 1): Outcome(End.HELD, "still stand at 120"),
            TopicPartition("delays", 2): Outcome(End.UNKNOWN, "no answer"),
        },
        coordinator=Outcome(End.OPEN, "PrepareAbort"),
    )
    found = [[transaction() if words is BY_ID else HANGING]]
    answer = run(Kafka([*found], outcome=outcome), *words, *QUICK)
    assert answer.exit_code == 3
    for said in (
        "delays-0: ended\n",
        "delays-1: ended, readers held up: still stand at 120",
        "delays-2: not known: no answer",
        "its coordinator: still open: PrepareAbort",
    ):
        assert said in answer.stdout
    assert "ended: it is not open any more" not in answer.stdout
    answer = run(Kafka([*found], outcome=outcome), *words, *QUICK, "--json")
    told = json.loads(answer.stdout)
    assert (answer.exit_code, told["ended"], told["still_held"]) == (3, False, None)
    assert [one["end"] for one in told["outcome"]["partitions"]] == [
        "ended",
        "ended, readers held up",
        "not known",
    ]


def test_what_cannot_be_read_is_said(run: Run) -> None:
    """No leader that refuses an answer makes a partition look as if it were free."""
    refused = KafkaError("not allowed", code="TOPIC_AUTHORIZATION_FAILED", fix="kafka-acls --add")
    answer = run(Kafka([[]], errors={T0: refused}), "list")
    assert answer.exit_code == 3
    assert "transactions are open in delays-0: not allowed" in answer.stdout
    assert "kafka-acls --add" in answer.stdout
    assert "no open transaction" not in answer.stdout
    told = json.loads(run(Kafka([[]], errors={T0: refused}), "list", "--json").stdout)
    assert told["partitions"][0]["log_stable"] is None
    assert "not allowed" in told["partitions"][0]["error"]
    assert "no open transaction" in run(Kafka([[]]), "list").stdout


def test_a_hundred_partitions(run: Run) -> None:
    """The screen shows the first of them, and the command and JSON all."""
    one = HANGING.producers[T0]
    many = {TopicPartition("delays", number): one for number in range(100)}
    wide = replace(HANGING, producers=many)
    found = run(Kafka([[wide]]), "list").stdout
    assert found.count("open in") == 10
    assert "and 90 more partitions" in found
    assert found.count("--partition delays-") == 100
    (told,) = json.loads(run(Kafka([[wide]]), "list", "--json").stdout)["transactions"]
    assert len(told["partitions"]) == 100


def test_a_group_without_offsets(run: Run) -> None:
    """Its topics are not known, unless its first commit is what is open."""
    with pytest.raises(SettingsError, match="group empty holds no offsets"):
        run(Kafka([[]]), "list", "-g", "empty")
    assert run(Kafka([[transaction()]]), "list", "-g", "empty").exit_code == 0
    assert run(Kafka([[]]), "list", "-g", "full").exit_code == 0


def test_on_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are wrapped at 80 columns, commands are not, and no terminal obeys a name."""
    monkeypatch.setattr(txn, "console", _narrow)
    hostile = transaction(name="eo-listener/\x1b[31m[/b]/it%27s")
    found = run(Kafka([[hostile]]), "list", NO_COLOR="1").stdout
    assert "\x1b" not in found
    assert "[/b]" in found
    lines = [line for line in found.splitlines() if "eo-listener txn" not in line]
    assert max(map(len, lines)) <= 80, found


def _narrow() -> Console:
    return Console(width=80, highlight=False, markup=False, emoji=False)


def test_an_abort_is_a_dry_run(run: Run) -> None:
    """It says first what it would mean, and changes nothing."""
    kafka = Kafka([[transaction()]])
    answer = run(kafka, *BY_ID)
    for said in ("ForeignWriterError", "nothing is lost or doubled", "dry run"):
        assert said in " ".join(answer.stdout.split())
    assert not kafka.ended
    found = json.loads(run(kafka, *BY_ID, "--json").stdout)
    assert (found["executed"], found["ended"]) == (False, False)
    assert "ForeignWriterError" in found["consequence"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("eo-listener-flights", "commits nothing more until its program is started again"),
        ("payments", "ProducerFencedException"),
    ],
)
def test_the_consequence_of_another_owner(name: str, said: str, run: Run) -> None:
    """That of a listener's commits, and of a program that is not ours."""
    found = run(Kafka([[transaction(name=name)]]), "abort", "--transactional-id", name)
    assert said in " ".join(found.stdout.split())


def test_one_of_ours_goes_by_fencing(run: Run) -> None:
    """And one that no coordinator has by markers."""
    kafka = Kafka([[transaction()]])
    assert "ended: it is not open any more" in run(kafka, *BY_ID, *QUICK).stdout
    assert kafka.ended == [ID]
    kafka = Kafka([[HANGING]])
    assert json.loads(run(kafka, *BY_PRODUCER, *QUICK, "--json").stdout)["ended"] is True
    assert kafka.ended == [str([T0])]


@pytest.mark.parametrize("words", [BY_ID, BY_PRODUCER])
def test_a_producer_at_work_is_not_fenced(words: list[str], run: Run) -> None:
    """Unless that is what is asked."""
    verdict = TransactionVerdict.OPEN if words is BY_ID else TransactionVerdict.HANGING
    moving = [[transaction(verdict, sequence=number)] for number in (1, 2)]
    kafka = Kafka([*moving])
    with pytest.raises(InUseError, match="at work"):
        run(kafka, *words, *QUICK)
    assert not kafka.ended
    kafka = Kafka([*moving])
    assert run(kafka, *words, *QUICK, "--live").exit_code == 0
    assert kafka.ended


def test_whether_it_is_at_work_is_not_known(run: Run) -> None:
    """Where the leaders do not say: refused, unless that is what is asked."""
    blind = transaction(why="give it the right to Read")
    with pytest.raises(UnavailableError, match="right to Read"):
        run(Kafka([[blind]]), *BY_ID, *QUICK)
    kafka = Kafka([[blind]])
    run(kafka, *BY_ID, *QUICK, "--live")
    assert kafka.ended == [ID]


@pytest.mark.parametrize("words", [BY_ID, BY_PRODUCER])
def test_what_has_ended_by_itself(words: list[str], run: Run) -> None:
    """Before the command, or while it waits: nothing is changed, and nothing is wrong."""
    kafka = Kafka([[]], states=["CompleteAbort"])
    assert "nothing to end" in run(kafka, *words, *QUICK).stdout
    kafka = Kafka([[transaction() if words is BY_ID else HANGING], []], states=["Ongoing", "Empty"])
    assert "has ended by itself" in run(kafka, *words, *QUICK).stdout
    assert not kafka.ended


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        (transaction(), SettingsError, f"--transactional-id {ID} instead"),
        (transaction(name="it's"), SettingsError, re.escape("""--transactional-id 'it'"'"'s'""")),
        (transaction(TransactionVerdict.ENDING), SettingsError, "does not hang"),
        (UNKNOWN, UnavailableError, "no right"),
    ],
)
def test_no_marker_for_what_a_coordinator_may_have(
    found: OpenTransaction, error: type[EoListenerError], said: str, run: Run
) -> None:
    """It could still be committed in other partitions; --live is no way round that."""
    kafka = Kafka([[found]])
    with pytest.raises(error, match=said):
        run(kafka, *BY_PRODUCER, *QUICK, "--live")
    assert not kafka.ended
    kafka = Kafka([[HANGING], [found]])
    with pytest.raises(error, match=said):
        run(kafka, *BY_PRODUCER, *QUICK)
    assert not kafka.ended, "it was looked at once more"


def test_a_partition_that_does_not_exist(run: Run) -> None:
    """A misspelled one is not one without a transaction."""
    with pytest.raises(SettingsError, match="delays-1 does not exist"):
        run(Kafka([[HANGING]]), "abort", "--partition", "delays-1", "--producer-id", "4711", *QUICK)


def test_a_state_that_is_not_known(run: Run) -> None:
    """Of newer brokers: it is not said that nothing is open."""
    with pytest.raises(UnavailableError, match="state is Unknown"):
        run(Kafka([[]], states=["Unknown"]), *BY_ID, *QUICK)


def test_what_was_ended_is_said_where_kafka_is_away_after_it(run: Run) -> None:
    """The rest is not known."""
    answer = run(Kafka([[transaction()]], away=True), *BY_ID, *QUICK)
    assert answer.exit_code == 0
    assert "ended: it is not open any more" in answer.stdout
    assert "is not known" in answer.stdout
    found = json.loads(run(Kafka([[HANGING]], away=True), *BY_PRODUCER, *QUICK, "--json").stdout)
    assert (found["ended"], found["still_held"]) == (True, None)


def test_a_partition_that_has_lost_its_leader_since_is_not_said_to_be_free(run: Run) -> None:
    """Whether another transaction holds it up is not known then."""
    kafka = Kafka([[transaction()]])
    kafka.errors = {T0: KafkaError("it has no leader", code="LEADER_NOT_AVAILABLE")}
    found = json.loads(run(kafka, *BY_ID, *QUICK, "--json").stdout)
    assert (found["ended"], found["still_held"]) == (True, None)


def test_one_that_is_being_ended_is_left_alone(run: Run) -> None:
    """By its id: its coordinator writes its markers."""
    with pytest.raises(UnavailableError, match="PrepareAbort"):
        run(Kafka([[transaction()]], states=["PrepareAbort"]), *BY_ID, *QUICK)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--transactional-id", "a", "--producer-id", "7"],
        ["--partition", "t-0"],
        ["--producer-id", "7"],
        ["--partition", "t", "--producer-id", "7"],
        ["--transactional-id", " "],
    ],
)
def test_one_transaction_must_be_named(words: list[str], run: Run) -> None:
    """In one way, whole."""
    with pytest.raises(SettingsError):
        run(Kafka([[]]), "abort", *words)


def test_the_options_are_repeated() -> None:
    """In the command that is printed: but for secrets."""
    typed = TypedCommand(
        cluster=ClusterCommands(servers="k:9092", client=True),
        more=("--kafka-clients", "/with blank"),
    )
    found = typed.abort(transaction())
    assert "--kafka-clients '/with blank'" in found
    assert found.endswith("(with the same -X)")
    assert os.linesep not in found


@pytest.mark.slow
def test_a_broker_that_is_away(tmp_path: Path) -> None:
    """One line, exit status 3, and no Java is started for it."""
    names = ["kafka-clients", "jackson-annotations", "jackson-core", "jackson-databind"]
    for name in [*names, "slf4j-api"]:
        (tmp_path / f"{name}-1.0.jar").touch()
    words = ["txn", "list", "-b", "127.0.0.1:1", "--kafka-clients", str(tmp_path)]
    answer = CliRunner().invoke(app, words)
    assert isinstance(answer.exception, KafkaError)
    assert answer.exception.exit_code == 3
    assert "Check that the broker runs" in str(answer.exception)
