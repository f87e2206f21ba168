"""Checks if permissions and brokers' settings allow a KafkaSink to write.

Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping

from eo_listener.client_config.admin_commands import (
    alter_topic,
    create_ledger,
    create_topic,
)
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import counted, few
from eo_listener.preflight.facts import (
    LONGEST_MS,
    CheckPlan,
    ClusterFacts,
    GroupFacts,
    SinkPlan,
    TopicFacts,
    Tried,
)
from eo_listener.preflight.findings import CheckFinding, Findings, fine, note, problem, warning
from eo_listener.preflight.kafka_checks import UNKNOWN, judge_group_rights, missing, refused

Settings = Mapping[str, str] | None

TRANSACTIONS = "__transaction_state"
_MOST = "transaction.max.timeout.ms"
_REPLICAS = "transaction.state.log.replication.factor"
_IN_SYNC = "transaction.state.log.min.isr"
_POLICY = "cleanup.policy"
_RECORD = "max.message.bytes"
_LARGEST = 1_000_000  # bytes of a record that librdkafka sends, if kafka.max.request.size is unset
_SAFE = 3
_NO_RIGHT = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
_NO_ID = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def judge_target(
    topic: TopicFacts, settings: Settings, sink: SinkPlan, plan: CheckPlan
) -> Findings:
    """Yield the findings about a topic to which a sink writes rows or dead letters."""
    about = f"topic {topic.name}"
    needed = ("WRITE",) if sink.transactions else ("READ", "WRITE", "DESCRIBE_CONFIGS")
    if topic.error in UNKNOWN:
        yield problem(
            about,
            "it does not exist, and a sink does not create its target topics",
            create_topic(plan.servers, topic.name),
        )
        return
    lacking = yield from _described(about, topic, needed, plan)
    if lacking:
        return
    may = "write to it (Write)" if sink.transactions else "read and write it (Read, Write)"
    yield fine(about, f"{counted(len(topic.ends), 'partition')}; the client may {may}")
    is_letters = topic.name == sink.dead_letters
    if sink.write_method == "executors" and len(topic.ends) == 1 and not is_letters:
        yield note(
            about,
            "it has 1 partition, so one task writes all rows, no faster than the driver would",
            "give it more partitions" + ('; or write_method="driver"' if sink.transactions else ""),
        )
    if "compact" in (settings or {}).get(_POLICY, "") and is_letters:
        yield problem(
            about,
            f"its {_POLICY} includes compact, but dead letters have no key: brokers refuse them",
            alter_topic(plan.servers, topic.name, f"{_POLICY}=delete"),
        )
    elif "compact" in (settings or {}).get(_POLICY, "") and not sink.transactions:
        yield problem(
            about,
            f"its {_POLICY} includes compact, which transactions=False does not allow: a row "
            "that compaction has removed would be written again after a crash",
            "use transactions, or " + alter_topic(plan.servers, topic.name, f"{_POLICY}=delete"),
        )
    elif "compact" in (settings or {}).get(_POLICY, ""):
        yield note(about, "it is compacted: brokers refuse a batch that has a row without a key")
    largest = _number(settings, _RECORD)
    if largest is not None and largest < _LARGEST:
        yield warning(
            about,
            f"its {_RECORD} is {largest}: a larger row fails its whole batch, and is not refused "
            "alone",
            f'set {{"kafka.max.request.size": "{largest}"}} in the sink\'s options; or '
            f"{alter_topic(plan.servers, topic.name, f'{_RECORD}={_LARGEST}')}",
        )


def judge_ledger(
    topic: TopicFacts,
    settings: Settings,
    creation: Tried | None,
    cluster: ClusterFacts,
    sink: SinkPlan,
    plan: CheckPlan,
) -> Findings:
    """Yield the findings about the ledger's topic.

    `creation` is the outcome of a trial creation, or None if the topic exists, or if the sink does
    not create it.
    """
    about = f"ledger {topic.name}"
    if topic.error in UNKNOWN:
        yield _absent(about, topic.name, creation, plan)
        return
    needed = ["READ", "WRITE", "DESCRIBE_CONFIGS"]
    if topic.error in _NO_RIGHT and sink.create:  # Kafka does not reveal whether the topic exists
        needed.append("CREATE")
    lacking = yield from _described(about, topic, needed, plan)
    if lacking:
        return
    policy = (settings or {}).get(_POLICY)
    if policy is None:
        yield note(about, f"its {_POLICY} could not be read")
    elif policy != "compact":
        yield problem(
            about,
            f"its {_POLICY} is {policy}: Kafka would delete old heads",
            alter_topic(plan.servers, topic.name, f"{_POLICY}=compact")
            + "; or name another topic, ledger_topic=",
        )
    else:
        yield fine(about, "it is compacted; the client may read and write it")
    if topic.replicas < min(_SAFE, cluster.brokers):
        yield warning(
            about,
            f"it has {topic.replicas} replicas on {cluster.brokers} brokers: losing a broker "
            "loses the proof of what was written",
            "add replicas with kafka-reassign-partitions",
        )


def judge_transactions(cluster: ClusterFacts, log: TopicFacts, sink: SinkPlan) -> Findings:
    """Yield findings about the brokers' settings for transactions, and about the topic `log`."""
    about = f"cluster {cluster.servers}"
    longest = cluster.number(_MOST)
    timeout_ms = round(sink.transaction_timeout * 1000)
    if longest is not None and timeout_ms > longest:
        yield problem(
            about,
            f"{_MOST} is {longest}, below transaction_timeout={sink.transaction_timeout:g} s",
            f"set transaction_timeout={longest // 1000}, or raise {_MOST} on every broker",
        )
    elif longest is not None:
        yield fine(about, f"{_MOST} is {longest}: transaction_timeout fits")
    configured, in_sync = cluster.number(_REPLICAS), cluster.number(_IN_SYNC)
    replicas = None if log.error is not None else log.replicas
    if replicas is None and configured is not None and configured > cluster.brokers:
        yield warning(
            about,
            f"{_REPLICAS} is {configured}, but the cluster has {cluster.brokers} brokers: unless "
            f"{TRANSACTIONS} already exists, no transaction can begin",
            f"start more brokers, or set {_REPLICAS}={cluster.brokers} on every broker",
        )
        return
    copies = configured if replicas is None else replicas
    if copies is not None and in_sync is not None and in_sync > copies:
        yield problem(
            about,
            f"{_IN_SYNC} is {in_sync}, but {TRANSACTIONS} has {copies} replicas: no transaction "
            "can be written",
            f"set {_IN_SYNC}={copies} or less on every broker, or add replicas to {TRANSACTIONS}",
        )
    elif copies is not None and copies < min(_SAFE, cluster.brokers):
        yield warning(
            about,
            f"{TRANSACTIONS} has {copies} replicas on {cluster.brokers} brokers: while one "
            "of these brokers is down, queries whose transactions are on it wait",
            f"set {_REPLICAS}={_SAFE} on every broker before the first transaction; later, use "
            "kafka-reassign-partitions",
        )


def judge_transactional_id(sink: SinkPlan, tried: Tried | None, plan: CheckPlan) -> CheckFinding:
    """Return the finding about the right to use the sink's transactional id.

    `tried` is None if a trial might have fenced the producer of the id.
    """
    if sink.query is None:
        some = sink_transactional_id(sink.key, "")
        resource = ["--resource-pattern-type", "prefixed", "--transactional-id", some]
        return note(
            f"transactional id {some}...",
            "permission for it was not tried: the id ends with the query's name, which is missing",
            "name the query; if the cluster has ACLs: "
            f"{plan.grant(['WRITE', 'DESCRIBE'], resource)}",
        )
    own = sink_transactional_id(sink.key, sink.query)
    about, resource = f"transactional id {own}", ["--transactional-id", own]
    if tried is None:
        return note(
            about,
            f"permission for it was not tried: if {_MOST} is unknown, that may fence its owner",
            f"if the cluster has ACLs: {plan.grant(['WRITE', 'DESCRIBE'], resource)}",
        )
    if tried.error is None:
        return fine(about, "the client may write with it (Write)")
    if tried.error == _NO_ID:
        return refused(about, plan, ["WRITE", "DESCRIBE"], resource)
    return note(about, f"permission for it could not be tried ({tried.error})")


def judge_sink_group(group: GroupFacts, plan: CheckPlan) -> Findings:
    """Yield the findings about the group to which a sink commits in its batches."""
    about = f"group {group.name}"
    yield from judge_group_rights(about, group, plan)
    if group.protocol is not None:
        yield problem(
            about,
            f"it is a {group.protocol} group, not a consumer group",
            "name another group, group=",
        )
    elif group.members:
        members = f"{counted(len(group.members), 'member')} ({few(group.members)})"
        yield warning(
            about,
            f"it has {members}, which may commit too: the last commit wins",
            "give the sink a group of its own, group=",
        )


def may_try(cluster: ClusterFacts) -> bool:
    """Return True if librdkafka can request a transaction timeout that the cluster refuses."""
    longest = cluster.number(_MOST)
    return longest is not None and longest < LONGEST_MS


def _absent(
    about: str,
    name: str,
    creation: Tried | None,
    plan: CheckPlan,
) -> CheckFinding:
    create = create_ledger(plan.servers, name)
    if creation is None:
        return problem(about, "it does not exist, and create=False", create)
    if creation.error is None:
        return fine(about, "it does not exist yet: the first batch creates it")
    if creation.error in _NO_RIGHT:
        return refused(about, plan, ["CREATE"], ["--topic", name])
    return problem(
        about, f"it does not exist, and Kafka refuses to create it ({creation.error})", create
    )


def _described(
    about: str, topic: TopicFacts, needed: Collection[str], plan: CheckPlan
) -> Generator[CheckFinding, None, bool]:
    """Yield the findings about the client's rights on a topic.

    Returns True if a right is missing, or if Kafka did not describe the topic.
    """
    resource = ["--topic", topic.name]
    lacking = missing(needed, topic.operations or ())
    if topic.error in _NO_RIGHT:
        yield refused(about, plan, needed, resource)
    elif topic.error is not None:
        yield note(about, f"it could not be described ({topic.error})")
    elif topic.operations is None:
        yield note(about, "Kafka does not report what the client may do with it")
        return False
    elif lacking:
        yield refused(about, plan, lacking, resource)
    else:
        return False
    return True


def _number(settings: Settings, name: str) -> int | None:
    text = (settings or {}).get(name, "")
    return int(text) if text.isdigit() else None
