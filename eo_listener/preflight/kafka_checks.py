"""Checks whether a client can commit to the groups of a cluster. Reads and writes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Generator, Mapping
from dataclasses import replace

from eo_listener.client_config.identities import INSTANCE_ID, transactional_id
from eo_listener.client_config.validation import is_printable_ascii
from eo_listener.errors import counted, few
from eo_listener.model.check_finding import CheckFinding, Findings, fine, note, problem, warning
from eo_listener.model.commit_metadata import MAX_BYTES, CommitMetadata
from eo_listener.model.kafka_errors import NO_TOPIC
from eo_listener.offsets import Position, TopicPartition
from eo_listener.preflight.facts import IN_BATCHES, ClusterFacts, GroupFacts, Request, TopicFacts

# Operations that imply another operation, in Kafka's AclAuthorizer.
_IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}}


def missing(needed: Collection[str], granted: Collection[str]) -> tuple[str, ...]:
    """Return the operations in `needed` that `granted` does not allow, by Kafka's names."""
    return tuple(
        operation
        for operation in needed
        if operation not in granted
        and "ALL" not in granted
        and not _IMPLIED.get(operation, set()).intersection(granted)
    )


def refused(
    about: str, plan: Request, operations: Collection[str], resource: Collection[str]
) -> CheckFinding:
    """Return the finding that rights on `resource` are missing.

    `resource` is a pair: an option of kafka-acls, and a name.
    """
    words = [operation.title().replace("_", "") for operation in operations]
    return problem(
        about,
        f"{plan.principal or 'this client'} may not {' and '.join(words)}",
        f"as an administrator: {plan.grant(operations, resource)}",
    )


UNKNOWN = NO_TOPIC | {"_UNKNOWN_TOPIC"}
"""Kafka's errors for a topic that does not exist."""
_NO_RIGHT = "GROUP_AUTHORIZATION_FAILED"
NO_RIGHTS = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", _NO_RIGHT})
"""Kafka's errors for a missing right to a topic or a group."""
# Commits need Read. Reading the start and end of the logs, with which each commit is compared,
# needs Describe.
_NEEDED = ("READ", "DESCRIBE")


def judge_rights(
    about: str, facts: TopicFacts | GroupFacts, needed: Collection[str], plan: Request
) -> Generator[CheckFinding, None, bool | None]:
    """Yield a finding unless the client is known to have the rights `needed` on a topic or group.

    Returns True if the client has the rights; False if it lacks a right, or if Kafka did not
    describe the topic or group; and None if Kafka does not report the rights.
    """
    resource = ["--topic" if isinstance(facts, TopicFacts) else "--group", facts.name]
    lacking = missing(needed, facts.operations or ())
    if facts.error in NO_RIGHTS:
        yield refused(about, plan, needed, resource)
    elif facts.error is not None:
        yield note(about, f"it could not be described ({facts.error})")
    elif facts.operations is None:
        yield note(about, "Kafka does not report what the client may do with it")
        return None
    elif lacking:
        yield refused(about, plan, lacking, resource)
    return facts.error is None and not lacking


def judge_topic(topic: TopicFacts, plan: Request) -> Findings:
    """Yield the findings about a topic."""
    about = f"topic {topic.name}"
    if topic.error in UNKNOWN:
        yield problem(
            about,
            "it does not exist, or the client lacks the right to Describe it",
            "check its name; or, as an administrator: "
            + plan.grant(_NEEDED, ["--topic", topic.name]),
        )
        return
    if (yield from judge_rights(about, topic, _NEEDED, plan)):
        partitions = counted(len(topic.ends), "partition")
        yield fine(about, f"{partitions}; the client may commit for it (Read)")
    if topic.error is None and not topic.has_id:
        yield note(
            about,
            "it has no topic id (Kafka before 2.8), so a recreated topic is recognised by its "
            "offsets only",
        )


_OWN_GROUP = "give the query a group of its own"


def judge_group(group: GroupFacts, topics: Mapping[str, TopicFacts], plan: Request) -> Findings:
    """Yield the findings about a group. `topics` has the facts about the topics of its offsets."""
    about = f"group {group.name}"
    facts = replace(group, error=_NO_RIGHT) if group.held_error == _NO_RIGHT else group
    # Kafka describes no group of another type.
    described = group.protocol is None or facts.error in (None, _NO_RIGHT)
    if described and (yield from judge_rights(about, facts, ["READ"], plan)):
        yield fine(about, "the client may commit to it (Read)")
    if group.protocol is not None:
        yield problem(about, f"it is a {group.protocol} group, not a consumer group", _OWN_GROUP)
        return
    if group.error is None:
        yield from _members(about, group, plan)
    if group.held is not None:
        yield from _held(about, group.held, topics)
    elif group.held_error != _NO_RIGHT:
        yield note(about, f"its offsets could not be read ({group.held_error})")
    if group.unstable and not plan.running:
        words = ["eo-listener", "txn", "list", "-b", plan.servers, "--group", group.name]
        yield warning(
            about,
            "a transaction on its offsets is open: another driver is working, or a driver was "
            "killed",
            "let only one driver commit; the transaction of a killed driver ends after its "
            f"transaction.timeout.ms; to see its producer: {shlex.join(words)}",
        )
    if plan.mode == "transactional" and not is_printable_ascii(group.name):
        yield problem(
            about,
            "mode='transactional' takes group names of printable ASCII only, as librdkafka does",
            "give the group an ASCII name, or use mode='simple' or mode='member'",
        )
    elif plan.mode == "transactional":
        yield _transactional_id(about, group.name, plan)


def _transactional_id(about: str, name: str, plan: Request) -> CheckFinding:
    """Return a note that the permission for the transactional id was not tried.

    A client can try the permission only by taking over the id, which would stop the driver that
    uses the id.
    """
    own = transactional_id(name)
    command = plan.grant(["WRITE", "DESCRIBE"], ["--transactional-id", own])
    return note(
        about,
        f"permission for the transactional id {own} was not tried: a trial would fence its current "
        "owner",
        f"if the cluster has ACLs: {command}",
    )


def _members(about: str, group: GroupFacts, plan: Request) -> Findings:
    recommits = plan.mode not in ("member", IN_BATCHES)
    other_members = tuple(member for member in group.members if member.instance != INSTANCE_ID)
    if group.members and plan.running and plan.mode == "member" and not other_members:
        yield fine(about, "its only member is the committer")
    elif group.members:
        yield _with_members(about, group, plan)
    elif group.state in ("Dead", None):
        yield fine(about, "it does not exist yet: the first commit creates it")
    elif group.simple is False and group.kind != "Consumer" and recommits:
        yield warning(
            about,
            "it is empty, but had members: all its offsets, even new ones, expire together when "
            "it has been empty for offsets.retention.minutes",
            f"{_OWN_GROUP}; or use mode='member'. Otherwise they are missing until the next "
            "recommit",
        )
    else:
        yield fine(about, f"it has no members ({group.state})")


def _with_members(about: str, group: GroupFacts, plan: Request) -> CheckFinding:
    committers = [member for member in group.members if member.instance == INSTANCE_ID]
    names = few(group.members)
    members = f"{counted(len(group.members), 'member')} ({names})"
    if committers and plan.mode == "member":
        return warning(
            about,
            f"a committer is already its static member ({names}), or was killed a moment ago",
            "stop the other driver; the place of a killed driver is free after its session timeout",
        )
    if plan.mode == "simple":
        return problem(
            about,
            f"it has {members}: Kafka refuses commits until it has no members",
            f"stop them; or {_OWN_GROUP}; or use mode='transactional', which may commit while "
            "they run",
        )
    return warning(
        about, f"it has {members}, which may commit too: the last commit wins", _OWN_GROUP
    )


def _held(
    about: str, positions: Mapping[TopicPartition, Position], topics: Mapping[str, TopicFacts]
) -> Findings:
    written = {tp: CommitMetadata.parse(position.metadata) for tp, position in positions.items()}
    strange = sorted(tp for tp, writer in written.items() if writer is None)
    marked = sorted(tp for tp, writer in written.items() if writer and writer.withheld)
    writers = sorted({writer.author for writer in written.values() if writer})
    beyond, lost, gone = _against_logs(positions, topics)
    if strange:
        yield warning(
            about,
            f"another program committed to it: {few(strange)}",
            f"check that no other program uses this group; or {_OWN_GROUP}",
        )
    if len(writers) > 1:
        yield warning(
            about,
            f"several queries commit to it: {few(writers)}",
            "give each query a group of its own",
        )
    if marked:
        yield warning(
            about,
            f"the guard of an earlier run withheld newer offsets of {few(marked)}",
            "look for its GuardViolation in the earlier log; to accept it, start the listener "
            "with guard='warn'",
        )
    if beyond:
        yield problem(
            about,
            f"it lies beyond the end of the log in {few(beyond)}: the topic was deleted and "
            "recreated, or lost records",
            "start the query with a new checkpoint; commits continue beyond these offsets, or "
            "with on_rewind='allow'",
        )
    if lost:
        yield warning(
            about,
            f"Kafka has deleted records that the group has not reached in {few(lost)}",
            "raise the topic's retention, or make the query faster",
        )
    if gone:
        yield warning(
            about,
            "it holds offsets of topics that do not exist, or that the client may not describe: "
            f"{few(gone)}",
            "if the topics were deleted: nothing to do, their offsets expire",
        )
    if positions and not (strange or marked or beyond or lost or gone):
        by = f", by {few(writers)}" if writers else ""
        yield fine(
            about, f"it holds {counted(len(positions), 'offset')}{by}, all within their logs"
        )


def _against_logs(
    positions: Mapping[TopicPartition, Position], topics: Mapping[str, TopicFacts]
) -> tuple[list[TopicPartition], list[TopicPartition], list[str]]:
    beyond, lost, gone = [], [], set()
    for tp, position in sorted(positions.items()):
        topic = topics.get(tp.topic)
        if topic is None or topic.error is not None or tp.partition not in topic.ends:
            gone.add(tp.topic)
        elif position.offset > topic.ends[tp.partition]:
            beyond.append(tp)
        elif position.offset < topic.starts.get(tp.partition, 0):
            lost.append(tp)
    return beyond, lost, sorted(gone)


_RETENTION = "offsets.retention.minutes"
_CHECK = "offsets.retention.check.interval.ms"
_METADATA = "offset.metadata.max.bytes"
_TRANSACTION = "transaction.max.timeout.ms"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_TRANSACTION_TIMEOUT = 60_000  # the committer's timeout, which is librdkafka's default too


def judge_cluster(facts: ClusterFacts, plan: Request) -> Findings:
    """Yield the findings about a cluster."""
    about = f"cluster {facts.servers}"
    yield fine(about, f"reached, {counted(facts.brokers, 'broker')}")
    if facts.settings is None:
        command = plan.grant(["DESCRIBE_CONFIGS"], ["--cluster"])
        yield note(
            about,
            f"its settings could not be read ({facts.refused}), so retention is not compared",
            f"keep recommit_interval well below {_RETENTION}; or allow reading them: {command}",
        )
        return
    yield from _retention(about, facts, plan)
    yield from _limits(about, facts, plan)


def _retention(about: str, facts: ClusterFacts, plan: Request) -> Findings:
    minutes = facts.number(_RETENTION)
    if minutes is None:
        yield note(about, f"this broker does not report {_RETENTION}")
        return
    seconds = minutes * 60.0
    every = _length(plan.recommit_interval)
    settings = f"{_RETENTION} is {minutes} ({_length(seconds)}), recommit_interval is {every}"
    if plan.mode == "member":
        yield fine(about, f"{settings}; a group with a live member does not expire")
    elif plan.recommit_interval >= seconds:
        yield problem(
            about,
            f"{settings}: offsets of an idle query expire before they are committed again",
            f"set recommit_interval to {_length(seconds / 4)} or less, or raise {_RETENTION}",
        )
    elif plan.recommit_interval > seconds / 2:
        yield warning(
            about,
            f"{settings}: if one commit fails, offsets of an idle query may expire",
            f"set recommit_interval to {_length(seconds / 4)} or less",
        )
    else:
        check = facts.number(_CHECK)
        checked = f", checked every {_length(check / 1000.0)}" if check is not None else ""
        yield fine(about, settings + checked)


def _limits(about: str, facts: ClusterFacts, plan: Request) -> Findings:
    longest = facts.number(_METADATA)
    if longest is not None and longest < MAX_BYTES:
        yield problem(
            about,
            f"{_METADATA} is {longest}, but a commit carries up to {MAX_BYTES} bytes",
            f"raise {_METADATA} to {MAX_BYTES} or more (Kafka's default is 4096)",
        )
    timeout = facts.number(_TRANSACTION)
    if plan.mode == "transactional" and timeout is not None and timeout < _TRANSACTION_TIMEOUT:
        yield problem(
            about,
            f"{_TRANSACTION} is {timeout}, below the client's transaction.timeout.ms of "
            f"{_TRANSACTION_TIMEOUT}",
            f"set -X transaction.timeout.ms={timeout} (in a program: kafka={{...}})",
        )
    protocols = (facts.settings or {}).get(_PROTOCOLS)
    new = plan.mode == "member" and plan.properties.get("group.protocol") == "consumer"
    if new and (protocols is None or "consumer" not in protocols):
        yield problem(
            about,
            "group.protocol=consumer was requested, but this broker has not enabled the new "
            "protocol",
            "remove group.protocol (it needs Kafka 4.0, or 3.7 with the feature enabled)",
        )


def _length(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
