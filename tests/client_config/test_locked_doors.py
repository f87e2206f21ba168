"""Against a broker with TLS and ACLs: wrong keys and missing rights are reported, and fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import pytest

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff
from eo_listener.commit.tracking.group_names import GroupNames
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.events import CommitFailed, Committed, Event, Observers
from eo_listener.kafka.group_stores import open_cluster
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.observers.log import EventLogger
from eo_listener.offsets import Offsets, TopicPartition
from tests.groups import positions
from tests.secured import PASSWORDS, PLANTED, Secured, log_lines
from tests.token_server import token_server
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = pytest.mark.kafka

_E = TypeVar("_E", bound=Event)

QUICK = Backoff(first=0.1, longest=0.2, refused_first=0.1, refused_longest=0.2)


def new_topic(secured: Secured) -> str:
    """A topic with records."""
    topics = Topics(secured.broker.bootstrap_servers)
    name = topics.create(partitions=1)
    topics.fill(name, 5)
    return name


def commit_of(
    options: Mapping[str, str], topic: str, group: str, own: Mapping[str, str]
) -> GroupOffsets:
    """What a source with these options has to commit, by the way that Spark's events go."""
    source = SourceProgress(index=0, description="", start=None, end=Offsets.of({topic: {0: 5}}))
    progress = Progress(
        query_id="1", run_id="2", name="q", batch_id=7, timestamp="", sources=(source,)
    )
    routing = GroupRouting(names=GroupNames(groups={"q": group}), kafka=own)
    route = routing.route(progress, {0: options})
    assert not route.ignored
    (commit,) = route.commits
    return commit


class CommitAttempt:
    """One commit, tried until the end."""

    def __init__(
        self,
        options: Mapping[str, str],
        topic: str,
        mode: str = "simple",
        own: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.topic, self.group = topic, unique("g")
        self.events: list[Event] = []
        self.committer = Committer(
            lambda cluster: open_cluster(cluster, mode, None),
            observers=Observers(EventLogger(), self.events.append),
            retry=QUICK,
        )
        self.committer.offer(commit_of(options, topic, self.group, own))

    def failed(self, code: str) -> CommitFailed:
        """Wait for a failure of this kind."""
        return self._await(
            lambda event: event if isinstance(event, CommitFailed) and event.code == code else None
        )

    def committed(self) -> Committed:
        """Wait for success."""
        return self._await(lambda event: event if isinstance(event, Committed) else None)

    def _await(self, found: Callable[[Event], _E | None]) -> _E:
        return until(
            lambda: next(filter(None, map(found, tuple(self.events))), None), 30, self.events
        )


MODES = ("simple", "member", "transactional")


def without(options: Mapping[str, str], *parts: str) -> dict[str, str]:
    return {k: v for k, v in options.items() if not any(part in k for part in parts)}


def garbled(options: Mapping[str, str], what: str) -> dict[str, str]:
    return {k: v.replace(what, f"{what}not-") for k, v in options.items()}


@pytest.fixture(scope="module")
def tries(secured: Secured) -> Iterator[Mapping[str, CommitAttempt]]:
    """Bob without any right, in each mode, and wrong keys of every kind; all at the same time."""
    ways = secured.ways()
    wrong = {
        "plain": garbled(secured.plain("alice"), PLANTED),
        "scram": garbled(ways["scram-512"], PLANTED),
        "untrusted": without(ways["tls-pem-file"], "truststore"),
        "unnamed": without(ways["tls-unnamed"], "endpoint"),
        "no certificate": without(ways["mutual-pem-file"], "keystore", "ssl.key"),
        "key": garbled(ways["mutual-pem-file"], PLANTED),
        "named": ways["tls-unnamed"],
    }
    topic = new_topic(secured)
    # The token's server is known by an authority that only librdkafka can be told of.
    own = {"https.ca.location": secured.keys.authority_file}
    secret = PLANTED + "client"
    with log_lines() as lines, token_server(secured.keys.server, "me", secret, "erin") as url:
        tries = {name: CommitAttempt(options, topic) for name, options in wrong.items()}
        # A password that needs every kind of quoting; a topic of its own for each mode's rights.
        tries |= {
            mode: CommitAttempt(secured.plain("bob"), new_topic(secured), mode) for mode in MODES
        }
        tries["token"] = CommitAttempt(secured.token(url, "me", secret), topic, own=own)
        tries["no token"] = CommitAttempt(secured.token(url, "me", f"{secret}-not"), topic, own=own)
        yield tries
        for one in tries.values():
            one.committer.close(0.5)
    told = [event for one in tries.values() for event in one.events]
    assert len(told) > len(tries)
    assert any("commit failed (_AUTHENTICATION" in line for line in lines)
    assert PLANTED not in repr(told) + "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_missing_rights(secured: Secured, tries: Mapping[str, CommitAttempt], mode: str) -> None:
    """Each right that is missing is named with the command that gives it; then it is committed."""
    trying = tries[mode]
    group, topic = trying.group, trying.topic
    read_group = ("GROUP_AUTHORIZATION_FAILED", [("GROUP", group, "READ")])
    read_topic = ("TOPIC_AUTHORIZATION_FAILED", [("TOPIC", topic, "READ")])
    wanted = [
        (*read_group, f"--operation Read --group {group}"),
        (*read_topic, f"--operation Read --topic {topic}"),
    ]
    if mode == "transactional":
        own = f"eo-listener-{group}"
        rights = [("TRANSACTIONAL_ID", own, "WRITE"), ("TRANSACTIONAL_ID", own, "DESCRIBE")]
        what = f"--operation Write --operation Describe --transactional-id {own}"
        wanted.insert(0, ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", rights, what))
    for code, rights, command in wanted:
        failed = trying.failed(code)
        assert failed.refused
        assert failed.fix.endswith(
            f"kafka-acls --bootstrap-server {secured.broker.addresses('PLAIN')} --add "
            f"--allow-principal User:bob {command}"
        )
        for kind, name, operation in rights:
            secured.allow("bob", kind, name, operation)
    assert trying.committed().offsets == {TopicPartition(topic, 0): 5}
    (position,) = positions(secured.broker.bootstrap_servers, group).values()
    assert PASSWORDS["bob"] not in position.metadata


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "fact"),
    [
        ("plain", "_AUTHENTICATION", "kafka.sasl.*"),  # wrong passwords
        ("scram", "_AUTHENTICATION", "kafka.sasl.*"),
        ("no token", "_AUTHENTICATION", ""),  # a secret that the token's server refuses
        ("untrusted", "_SSL", "kafka.ssl.*"),  # it needs an authority of the source's,
        ("unnamed", "_SSL", "kafka.ssl.*"),  # and the broker's name in it
        ("no certificate", "_SSL", "certificate"),  # which this broker requires: its own error
        ("key", "_INVALID_ARG", ""),  # a key that the password does not open
    ],
)
def test_a_wrong_key(tries: Mapping[str, CommitAttempt], how: str, code: str, fact: str) -> None:
    """It is refused by its code, with the options to check."""
    failed = tries[how].failed(code)
    assert failed.refused
    assert fact in f"{failed.fix} {failed.detail}"


@pytest.mark.parametrize("how", ["token", "named"])
def test_a_key_that_fits(tries: Mapping[str, CommitAttempt], how: str) -> None:
    """A token fetched over https, and a broker whose name the source does not check."""
    tries[how].committed()
