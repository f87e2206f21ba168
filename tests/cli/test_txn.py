"""`eo-listener txn`: what is shown, refused and done; no broker."""

from __future__ import annotations

import io
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from rich.console import Console
from typer.testing import Result

from eo_listener.cli import txn
from eo_listener.cli.txn import Commands, consequence, document, print_reading, whose
from eo_listener.errors import (
    EoListenerError,
    InUseError,
    KafkaError,
    SettingsError,
    UnavailableError,
)
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.kafka.open_transactions import (
    OpenTransaction,
    TransactionReading,
    TransactionVerdict,
)
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.cli.commands import invoke

T0 = TopicPartition("delays", 0)
ID = "eo-listener/delays/flights"
NOW = 4_000_000_000_000  # in the year 2096
TWO_PHASE = (2**31 - 1) / 1000
COMMANDS = Commands(ClusterCommands(servers="k:9092"))
KAFKAS = "kafka-transactions.sh --bootstrap-server k:9092"
QUICK = ["--watch", "0", "--execute"]
PARTITIONS = frozenset({T0})
ONGOING = DescribedTransaction(
    state="Ongoing", producer_id=4711, epoch=0, partitions=PARTITIONS, timeout=600.0, started=NOW
)
OPEN, ENDING, UNKNOWN, HANGING = TransactionVerdict


def transaction(
    verdict: TransactionVerdict = OPEN,
    name: str | None = ID,
    sequence: int = 1,
    described: DescribedTransaction = ONGOING,
) -> OpenTransaction:
    return OpenTransaction(
        producer_id=4711,
        transactional_id=name,
        verdict=verdict,
        producers={T0: OpenProducer(4711, 0, 120, sequence, 1_000_000)},
        blocked=frozenset({T0}),
        described=described if verdict in (OPEN, ENDING) else None,
        reason="no right" if verdict is UNKNOWN else None,
    )


OURS = "ours: KafkaSink delays, query 'flights'"
ABORT = "eo-listener txn abort -b k:9092 --transactional-id"
PREPARED = transaction(name="flink", described=replace(ONGOING, timeout=TWO_PHASE))


def reading(*found: OpenTransaction) -> TransactionReading:
    return TransactionReading(unstable={T0: OffsetRange(120, 155)}, transactions=found, errors={})


def screen(shown: TransactionReading, commands: Commands = COMMANDS, *, width: int = 80) -> str:
    out = io.StringIO()
    print_reading(Console(file=out, width=width, markup=False), shown, commands, NOW)
    return out.getvalue()


@pytest.mark.parametrize(
    ("found", "owner", "commands"),
    [
        (transaction(), OURS, [f"{ABORT} {ID}"]),
        (transaction(name="eo-listener-flights"), "ours: commits to group flights, ",
         [f"{ABORT} eo-listener-flights"]),
        (transaction(name="it's"), "not ours", [f"{ABORT} 'it'\"'\"'s'"]),
        (transaction(HANGING, None), "not known",
         [f"{KAFKAS} abort --topic delays --partition 0 --start-offset 120"]),
        (transaction(ENDING), OURS, []),
        (transaction(UNKNOWN), OURS, []),
        (PREPARED, "not ours", []),
    ],
)  # fmt: skip  # one case a line
def test_each_kind_of_transaction(found: OpenTransaction, owner: str, commands: list[str]) -> None:
    """Whose it is, and the command that ends it, whole on one line of the screen."""
    assert whose(found).startswith(owner)
    (told,) = document(reading(found), COMMANDS, NOW)["transactions"]
    assert (told["commands"], told["verdict"]) == (commands, found.verdict.value)
    lines = screen(reading(found), width=200).splitlines()
    assert [line[2:] for line in lines if line.startswith("  ")] == commands


def test_the_document_of_one_of_ours() -> None:
    """Sink and query, since when, and by when it ends; overdue a minute after that."""
    told = document(reading(transaction()), COMMANDS, NOW)
    (found,) = told["transactions"]
    assert found["ours"] == {"sink": "delays", "query": "flights", "group": None}
    assert (found["since"], found["timeout"], found["ends_by"]) == (NOW, 600.0, NOW + 600_000)
    assert (found["overdue"], found["two_phase"]) == (False, False)
    of_it = {"start_offset": 120, "epoch": 0, "last_record": 1_000_000, "holds": True}
    assert found["partitions"] == [{"topic": "delays", "partition": 0, **of_it}]
    of_log = {"log_stable": 120, "log_end": 155}
    assert told["partitions"] == [{"topic": "delays", "partition": 0, **of_log}]
    assert document(reading(transaction()), COMMANDS, NOW + 660_001)["transactions"][0]["overdue"]


def test_what_cannot_be_read_is_shown() -> None:
    """No leader that refuses an answer makes a partition look as if it were free."""
    refused = KafkaError("not allowed", code="TOPIC_AUTHORIZATION_FAILED", fix="kafka-acls --add")
    found = TransactionReading(unstable={}, transactions=(), errors={T0: refused})
    assert "kafka-acls --add" in screen(found)
    (told,) = document(found, COMMANDS, NOW)["partitions"]
    of_log = {"log_stable": None, "log_end": None, "error": str(refused)}
    assert told == {"topic": "delays", "partition": 0, **of_log}


def test_a_hundred_partitions() -> None:
    """The screen shows the first ten of them, and JSON all, each with its command."""
    one = OpenProducer(4711, 0, 120, 1, 1_000_000)
    many = {TopicPartition("delays", number): one for number in range(100)}
    wide = replace(transaction(HANGING, None), producers=many)
    found = screen(reading(wide), width=200)
    counts = {words: found.count(words) for words in ("from offset", "--start-offset", "90 more")}
    assert counts == {"from offset": 10, "--start-offset": 10, "90 more": 2}
    (told,) = document(reading(wide), COMMANDS, NOW)["transactions"]
    assert (len(told["partitions"]), len(told["commands"])) == (100, 100)


def test_on_a_narrow_terminal() -> None:
    """Texts are wrapped at 80 columns, commands are not, and no terminal obeys a name."""
    hostile = transaction(name="eo-listener/\x1b[31m[/b]/" + 80 * "x")
    found = screen(reading(hostile))
    assert "\x1b" not in found
    assert "[/b]" in found
    lines = found.splitlines()
    assert max(len(line) for line in lines if "eo-listener txn" not in line) <= 80, found
    assert any(len(line) > 80 for line in lines)


def test_the_options_are_repeated() -> None:
    """In our command all but secrets; Kafka's own takes a file of properties."""
    cluster = ClusterCommands(servers="k:9092", client=True)
    commands = Commands(cluster, ("--kafka-clients", "/with blank"))
    (ours,) = commands.end(transaction())
    assert "--kafka-clients '/with blank'" in ours
    assert ours.endswith("(with the same -X)")
    (kafkas,) = commands.end(transaction(HANGING, None))
    words = shlex.split(kafkas)
    assert words.index("--command-config") < words.index("abort")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (ID, "ForeignWriterError"),
        ("eo-listener-flights", "restarted"),
        ("payments", "ProducerFencedException"),
    ],
)
def test_the_consequence_of_each_owner(name: str, part: str) -> None:
    """Of a sink's query, of a listener's commits, and of a program that is not ours."""
    assert part in consequence(transaction(name=name))


@dataclass
class Kafka:
    """Stands in for reader and repair: one reading after the other; `ended` were taken over."""

    readings: list[Sequence[OpenTransaction]]
    described: DescribedTransaction = ONGOING
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    left: Mapping[str, str] = field(default_factory=dict)

    def partitions(self, topics: Collection[str] | None) -> tuple[TopicPartition, ...]:
        return (T0,)

    def of_group(self, group: str) -> tuple[TopicPartition, ...]:
        own = TopicPartition("__consumer_offsets", 7)
        return (own,) if group == "empty" else (T0, own)

    def read(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        return replace(reading(*self._next()), errors=self.errors)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return self.described

    def open_under(self, transactional_id: str, found: DescribedTransaction) -> OpenTransaction:
        return self._next()[0]

    def fence(self, transactional_id: str, found: OpenTransaction) -> Mapping[str, str]:
        self.ended.append(transactional_id)
        return self.left

    def _next(self) -> Sequence[OpenTransaction]:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def run(kafka: Kafka, *words: str) -> Result:
    """Run the command against a stand-in; what it raises is raised."""

    @contextmanager
    def opened(*_: object) -> Iterator[object]:
        yield kafka, kafka, COMMANDS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(txn, "_opened", opened)
        return invoke("txn", *words, "-b", "k:9092")


def abort(kafka: Kafka, *words: str) -> Result:
    return run(kafka, "abort", "--transactional-id", ID, *words)


LATE = transaction(described=replace(ONGOING, started=0))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([transaction()], 0),
        ([transaction(ENDING)], 0),
        ([PREPARED], 0),
        ([LATE], 1),
        ([transaction(HANGING, None)], 1),
        ([transaction(HANGING, None), transaction(UNKNOWN)], 3),
    ],
)
def test_the_exit_status_of_list(found: list[OpenTransaction], code: int) -> None:
    """1 if something is to be done, 3 if that is not known."""
    assert run(Kafka([found]), "list", "--json").exit_code == code
    away = KafkaError("no leader", code="LEADER_NOT_AVAILABLE")
    assert run(Kafka([found], errors={T0: away}), "list").exit_code == 3


def test_a_group_without_offsets() -> None:
    """Its topics are not known, unless its first commit is what is open."""
    with pytest.raises(SettingsError):
        run(Kafka([[]]), "list", "-g", "empty")
    assert run(Kafka([[transaction()]]), "list", "-g", "empty").exit_code == 0
    assert run(Kafka([[]]), "list", "-g", "full").exit_code == 0


def test_an_abort_is_a_dry_run() -> None:
    """It names the consequence, and changes nothing; with --execute the id is taken over."""
    kafka = Kafka([[transaction()]])
    answer = abort(kafka)
    assert "ForeignWriterError" in " ".join(answer.stdout.split())
    assert not kafka.ended
    assert abort(kafka, *QUICK).exit_code == 0
    assert kafka.ended == [ID]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_what_has_not_ended_everywhere(words: list[str]) -> None:
    """Each place is named, and the exit status is 3."""
    kafka = Kafka([[transaction()]], left={"delays-1": "no answer"})
    answer = abort(kafka, *QUICK, *words)
    assert answer.exit_code == 3
    assert "delays-1" in answer.stdout
    assert "no answer" in answer.stdout


@pytest.mark.parametrize(
    ("readings", "error"),
    [
        # One at work shows by its sequence numbers.
        ([[transaction(sequence=number)] for number in (1, 2)], InUseError),
        # Without the right to see its partitions nobody knows whether it is.
        ([[replace(transaction(), reason="no right")]], UnavailableError),
    ],
)
def test_a_producer_that_may_be_at_work_is_not_fenced(
    readings: list[Sequence[OpenTransaction]], error: type[EoListenerError]
) -> None:
    """--live is how one ends it all the same."""
    kafka = Kafka(list(readings))
    with pytest.raises(error):
        abort(kafka, *QUICK)
    assert not kafka.ended
    kafka = Kafka(list(readings))
    assert abort(kafka, *QUICK, "--live").exit_code == 0
    assert kafka.ended == [ID]


def test_the_next_transaction_of_the_same_id_is_left_alone() -> None:
    """The one that was named has ended by itself."""
    later = transaction(described=replace(ONGOING, started=NOW + 1))
    kafka = Kafka([[transaction()], [later]])
    assert abort(kafka, *QUICK, "--live").exit_code == 0
    assert not kafka.ended


@pytest.mark.parametrize(
    ("described", "error"),
    [
        (replace(ONGOING, state="PrepareAbort"), UnavailableError),
        (replace(ONGOING, state="Unknown"), UnavailableError),  # of newer brokers
        (replace(ONGOING, timeout=TWO_PHASE), SettingsError),
    ],
)
def test_what_is_not_aborted(described: DescribedTransaction, error: type[EoListenerError]) -> None:
    """Whatever its coordinator ends, may have to commit, or has in a state that is not known."""
    kafka = Kafka([[transaction()]], described=described)
    with pytest.raises(error):
        abort(kafka, *QUICK, "--live")
    assert not kafka.ended
