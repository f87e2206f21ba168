"""When a transaction that no coordinator names is proved to hang; Java's client is a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from eo_listener.kafka import coordinator_proof
from eo_listener.kafka.coordinator_proof import NO_ID_RIGHT, NOT_FOUND, CoordinatorProof
from eo_listener.kafka.java_transactions import Coordinators, DescribedTransactions
from eo_listener.kafka.state_partitions import state_partition
from eo_listener.model.errors import KafkaError

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FREE = Coordinators(epochs=(4, 4, 7), authorizers=(), patterns=())
ACLS = replace(FREE, authorizers=(STANDARD,))


def error(code: str) -> KafkaError:
    return KafkaError(f"asking failed: {code}", code=code)


def never(_: str) -> str | None:
    return None


@dataclass
class Java:
    """Coordinators of three partitions; each answer of a list, the last again.

    `refused` says by which error describing an id fails, where it is not one that nobody has.
    """

    states: list[Coordinators | KafkaError] = field(default_factory=lambda: [FREE])
    lists: list[Mapping[int, str]] = field(default_factory=lambda: [{}])
    refused: Callable[[str], str | None] = never
    asked: list[str] = field(default_factory=list)

    def coordinators(self, timeout: float) -> Coordinators:
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self.asked.append("coordinators")
        if isinstance(found, KafkaError):
            raise found
        return found

    def describe_all(self, names: Collection[str], timeout: float) -> DescribedTransactions:
        self.asked.append("describe")
        assert {state_partition(name, 3) for name in names} == {0, 1, 2}
        return DescribedTransactions(
            errors={name: error(self.refused(name) or NOT_FOUND) for name in names}
        )

    def transactional_ids(self, producers: Collection[int], timeout: float) -> Mapping[int, str]:
        self.asked.append("list")
        found = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        return {number: name for number, name in found.items() if number in producers}


Ask = Callable[[Java], tuple[Mapping[int, str], str | None]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask for producers 1 and 2, without a pause."""

    def made(java: Java) -> tuple[Mapping[int, str], str | None]:
        monkeypatch.setattr(coordinator_proof, "_PAUSE", 0.0)
        monkeypatch.setattr(coordinator_proof, "_SETTLED", 0.2)
        properties = {"bootstrap.servers": "k:9092"}
        found = CoordinatorProof(properties, java, 1.0).named([1, 2])  # type: ignore[arg-type]  # stands in
        return found.ids, found.incomplete

    return made


def test_a_proof(ask: Ask) -> None:
    """Each partition's coordinator has answered before each of two lists, and none has moved."""
    java = Java(lists=[{1: "a"}])
    assert ask(java) == ({1: "a"}, None)
    assert java.asked == ["coordinators", *2 * ["describe", "list"], "coordinators"]
    java = Java(lists=[{1: "a", 2: "b"}])
    assert ask(java) == ({1: "a", 2: "b"}, None)
    assert java.asked == ["coordinators", "describe", "list"], "all are named"


def test_before_the_first_transaction(ask: Ask) -> None:
    """Nobody coordinates any, and asking for one would have Kafka make the topic."""
    java = Java([replace(FREE, epochs=())])
    assert ask(java) == ({}, None)
    assert java.asked == ["coordinators"]


def test_an_id_that_a_right_of_others_hides(ask: Ask) -> None:
    """As with allow.everyone.if.no.acl.found: what is made up may be described, and that not."""
    state = replace(ACLS, patterns=("LITERAL:payments", "PREFIXED:bank"))
    for hidden in ("payments", "bank"):
        refused = lambda name, hidden=hidden: (  # noqa: E731
            NO_ID_RIGHT if name.startswith(hidden) else None
        )
        ids, why = ask(Java([state], refused=refused))
        assert not ids
        assert f"{hidden}): ask as one of the cluster's super.users" in (why or "")
    assert ask(Java([state])) == ({}, None), "who is refused neither may describe all"


def test_the_nearest_acl_of_a_prefix_is_asked_for(ask: Ask) -> None:
    """An id that one prefix allows and a longer one denies is neither's proof."""
    state = replace(ACLS, patterns=("PREFIXED:bank", "PREFIXED:bank-eu"))

    def refused(name: str) -> str | None:
        return NO_ID_RIGHT if name.startswith("bank-eu") else None

    assert "PREFIXED:bank-eu)" in (ask(Java([state], refused=refused))[1] or "")


def test_what_is_made_up_has_no_acl_of_a_prefix(ask: Ask) -> None:
    """Else one that allows a prefix would look as if it allowed all."""
    letters = [f"PREFIXED:{letter}" for letter in "0123456789abcdef"]
    state = replace(ACLS, patterns=tuple(letters))

    def refused(name: str) -> str | None:
        return None if name[0] in "0123456789abcdef" else NO_ID_RIGHT

    why = ask(Java([state], refused=refused))[1] or ""
    assert "may not describe every transactional id" in why
    assert "--operation Describe --transactional-id '*'" in why


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", "--operation Describe --operation DescribeConfigs --clu"),
        ("TOPIC_AUTHORIZATION_FAILED", "--operation Describe --topic __transaction_state"),
    ],
)
def test_a_right_that_is_missing(code: str, said: str, ask: Ask) -> None:
    """Nothing is proved, and the command that gives it is said."""
    java = Java([error(code)])
    assert said in (ask(java)[1] or "")
    assert java.asked == ["coordinators"], "it does not pass"


@pytest.mark.parametrize("others", [("?",), ("com.example.Ranger", STANDARD)])
def test_rights_that_are_no_acls_of_kafka(others: tuple[str, ...], ask: Ask) -> None:
    """What they keep from this client cannot be read."""
    assert f"those of {others[0]}" in (ask(Java([replace(ACLS, authorizers=others)]))[1] or "")


@pytest.mark.parametrize("code", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_coordinator_that_has_not_read_its_partition(code: str, ask: Ask) -> None:
    """It is waited for; where that lasts, nothing is proved."""
    calls = iter([code, *3 * [None]])

    def refused(name: str) -> str | None:
        return next(calls, None) if state_partition(name, 3) == 1 else None

    assert ask(Java(refused=refused)) == ({}, None)
    ids, why = ask(Java(refused=lambda name: code if state_partition(name, 3) == 1 else None))
    assert (ids, why) == ({}, f"asking failed: {code}")


def test_a_coordinator_that_moves_between(ask: Ask) -> None:
    """The leader epoch says so: all is asked once more, and then it is named."""
    moved = replace(FREE, epochs=(4, 5, 7))
    java = Java([FREE, moved], lists=[{}, {}, {1: "a", 2: "b"}])
    assert ask(java) == ({1: "a", 2: "b"}, None)
    java = Java([FREE, moved] * 100_000)
    assert "have moved" in (ask(java)[1] or "")


def test_a_list_that_missed_it(ask: Ask) -> None:
    """One made while the old coordinator had forgotten and the new one had not read yet."""
    assert ask(Java(lists=[{}, {1: "a", 2: "b"}])) == ({1: "a", 2: "b"}, None)


def test_a_partition_without_a_leader(ask: Ask) -> None:
    """Nobody knows what it has; it is waited for a little."""
    lost = replace(FREE, epochs=(4, None, 7))
    assert "1 partitions of __transaction_state have no leader" in (ask(Java([lost]))[1] or "")
    assert ask(Java([lost, FREE])) == ({}, None)


def test_acls_that_change_meanwhile(ask: Ask) -> None:
    """What hid an id may be gone by the time it is asked for."""
    java = Java([FREE, ACLS] * 100_000)
    assert "ACLs have changed" in (ask(java)[1] or "")


def test_kafka_is_away(ask: Ask) -> None:
    """Its error is why."""
    assert ask(Java([error("_AUTHENTICATION")])) == ({}, "asking failed: _AUTHENTICATION")


@pytest.mark.parametrize("partitions", [1, 50, 1000])
def test_one_made_up_id_a_partition(partitions: int) -> None:
    """As Kafka hashes them."""
    names = list(coordinator_proof._one_a_partition("0abc", partitions))
    assert sorted(state_partition(name, partitions) for name in names) == list(range(partitions))
