"""The meaning of Kafka's errors for a commit: cause, fix, and whether Kafka may have stored it.

Names are those of `org.apache.kafka.common.protocol.Errors`; a leading underscore marks
librdkafka's own errors, for requests that never left this machine or were never answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

COORDINATOR_MOVES: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "_WAIT_COORD"}
)
"""Errors of a group whose coordinator is being elected, is loading, or has moved."""

LEADER_MOVES: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_LEADER_EPOCH",
    }
)
"""Errors of a partition whose leader is being elected, or has moved."""

NO_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"})
"""A broker's errors for a topic that does not exist, or that the broker does not know yet."""

PASSING: Final = (
    COORDINATOR_MOVES
    | LEADER_MOVES
    | {
        "BROKER_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "LISTENER_NOT_FOUND",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
    }
)
"""Errors of a cluster while its brokers start, stop and change their roles."""


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """The meaning of one of Kafka's error names.

    A `lasting` error stays until somebody changes something. After an error with `outcome_unknown`
    the commit may have been stored nevertheless. A `fatal` error is final: another committer has
    taken over, and continuing would move the group backwards. `persistent` is the meaning of the
    same error once it has lasted for a while.
    """

    cause: str
    fix: str
    lasting: bool = False
    outcome_unknown: bool = False
    fatal: bool = False
    persistent: ErrorMeaning | None = None


STOOD_STILL = "_STOOD_STILL"
# A coordinator's answers to a request that does not fit into one record batch. Kafka before 4.0
# answers TOO_LARGE; later versions answer PERHAPS_TOO_LARGE (librdkafka's name, or Java's), which
# may also mean anything else.
TOO_LARGE = frozenset({"INVALID_COMMIT_OFFSET_SIZE"})
PERHAPS_TOO_LARGE = frozenset({"UNKNOWN", "UNKNOWN_SERVER_ERROR"})
# Errors before a client exists: something that the source's settings need is not available (yet).
NO_JAVA = "_NO_JAVA"
ONLY_SIMPLE = "_ONLY_SIMPLE"
NO_STORE = "_NO_STORE"

_UNREACHABLE = ErrorMeaning(
    "the broker is down, slow, or not at this address",
    "nothing to do if the broker comes back: the commit is kept and repeated; otherwise check "
    "kafka.bootstrap.servers",
    outcome_unknown=True,
)
_NO_COORDINATOR = (
    "Kafka cannot create __consumer_offsets (offsets.topic.replication.factor is above the "
    "number of brokers), too few replicas of the group's partition of that topic are online, or "
    "its coordinator cannot write"
)
_CHECK_COORDINATOR = (
    "run kafka-topics.sh --describe --topic __consumer_offsets. (1) If the topic does not exist, "
    "set offsets.topic.replication.factor to at most the number of brokers; (2) if a partition "
    "has no leader, or fewer in-sync replicas (Isr) than min.insync.replicas, start the brokers "
    "that hold its replicas; (3) otherwise read the coordinator's log"
)
# librdkafka does not report that there is no coordinator: reading the group times out instead.
_UNANSWERED = replace(
    _UNREACHABLE,
    persistent=ErrorMeaning(
        "there was no answer for a minute or more. Either the broker is down or hangs, or the "
        f"group has no coordinator: {_NO_COORDINATOR}",
        f"check that the broker runs and kafka.bootstrap.servers is right; if so, "
        f"{_CHECK_COORDINATOR}",
        outcome_unknown=True,
    ),
)
_COORDINATOR = ErrorMeaning(
    "the group's coordinator is being elected or is loading",
    "nothing to do: this is temporary",
    persistent=ErrorMeaning(
        f"the group has had no coordinator for a minute or more: {_NO_COORDINATOR}",
        _CHECK_COORDINATOR,
    ),
)
_LOADING = ErrorMeaning(
    _COORDINATOR.cause,
    _COORDINATOR.fix,
    persistent=ErrorMeaning(
        "the group's coordinator has been loading its partition of __consumer_offsets for a "
        "minute or more: the partition is large, usually because it is not being compacted; or, "
        "in transactional mode, it cannot reach the transaction coordinator",
        "read the coordinator's log, and check that its log cleaner runs (log.cleaner.enable) and "
        "that the brokers can reach each other",
    ),
)
_MEMBERS = ErrorMeaning(
    "the group has live members (a consumer uses the same group id), so Kafka refuses "
    "commits from outside",
    "give the query a group of its own, or stop that consumer",
    lasting=True,
)
_FENCED = ErrorMeaning(
    "another driver or listener has taken over this group with the same identity, or this driver "
    "itself, through a source with other servers or credentials for the same cluster",
    "let only one of them commit to the group, or give this query a group of its own, and all "
    "sources of a cluster the same settings; the next start of a query in this driver, or of "
    "`follow`, takes the group back",
    lasting=True,
    fatal=True,
)
_LEADER = ErrorMeaning(
    "a partition's leader is being elected or has moved", "nothing to do: this is temporary"
)
_ENDED = ErrorMeaning(
    "Kafka does not know this committer's transaction, or no longer does",
    "nothing to do: the group is read, and a new producer repeats the commit",
    outcome_unknown=True,
)
_LOGIN_FAILED = ErrorMeaning(
    "the broker refused the client's credentials",
    "check the source's kafka.sasl.* and kafka.ssl.* options, or the client settings given to the "
    "listener (kafka={...}; follow: -X)",
    lasting=True,
)
_LOCAL = ErrorMeaning(
    "Kafka's client gave up on the request (see the error name)",
    "nothing to do if it is temporary: the commit is kept and repeated",
    outcome_unknown=True,
)
_UNLISTED = ErrorMeaning(
    "see the Kafka error name",
    "check the broker's log for this request",
    lasting=True,
    outcome_unknown=True,
)
_FAULT = ErrorMeaning(
    "the broker failed to handle the request and gives no reason; from version 4.0 on, Kafka also "
    "reports this if the offsets of one request are larger than max.message.bytes of "
    "__consumer_offsets",
    "nothing to do if it is temporary: if it recurs, the committer sends fewer partitions in a "
    "request; if that does not help, check the broker's log",
    outcome_unknown=True,
)
_NO_PARTITION = ErrorMeaning(
    "the topic was deleted or recreated with fewer partitions",
    "nothing can be committed for this partition; if it stays away, restart the driver",
    lasting=True,
)

_MEANINGS = {
    **dict.fromkeys(COORDINATOR_MOVES, _COORDINATOR),
    "COORDINATOR_LOAD_IN_PROGRESS": _LOADING,
    **dict.fromkeys(LEADER_MOVES, _LEADER),
    **dict.fromkeys(NO_TOPIC, _NO_PARTITION),
    **dict.fromkeys(
        ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "NETWORK_EXCEPTION"), _UNREACHABLE
    ),
    **dict.fromkeys(
        ("_TIMED_OUT", "_TIMED_OUT_QUEUE", "_WAIT_COORD", "REQUEST_TIMED_OUT"), _UNANSWERED
    ),
    "_MISSING_ANSWER": ErrorMeaning(
        "the broker's answer left this partition out",
        "nothing to do: the request is repeated",
        outcome_unknown=True,
    ),
    "INVALID_COMMIT_OFFSET_SIZE": ErrorMeaning(
        "the offsets of one request are larger than max.message.bytes of __consumer_offsets",
        "nothing to do if it is temporary: the committer sends fewer partitions in a request; "
        "otherwise raise that setting",
    ),
    "UNKNOWN": _FAULT,
    "UNKNOWN_SERVER_ERROR": _FAULT,
    "UNSTABLE_OFFSET_COMMIT": ErrorMeaning(
        "a transaction on the group's offsets is still open, most likely from an earlier driver",
        "nothing to do: it ends on its own, after its transaction.timeout.ms at the latest",
    ),
    "CONCURRENT_TRANSACTIONS": ErrorMeaning(
        "the last transaction is still being completed", "nothing to do: this is temporary"
    ),
    "REBALANCE_IN_PROGRESS": ErrorMeaning(
        "the group is rebalancing, or has not admitted the committer yet",
        "nothing to do: this is temporary",
        persistent=ErrorMeaning(
            "the group has not admitted the committer for a minute or more: it waits for its "
            "other members, the broker does not support the requested group.protocol, or the "
            f"group has no coordinator, because {_NO_COORDINATOR}",
            "run kafka-consumer-groups.sh --describe --members for the group and stop its other "
            f"members; if there are none, {_CHECK_COORDINATOR}",
        ),
    ),
    **dict.fromkeys(
        (
            "INVALID_TXN_STATE",
            "INVALID_PRODUCER_ID_MAPPING",
            "UNKNOWN_PRODUCER_ID",
            "_STATE",
            "_CONFLICT",
        ),
        _ENDED,
    ),
    "_FENCED": _FENCED,
    "PRODUCER_FENCED": _FENCED,
    "INVALID_PRODUCER_EPOCH": _FENCED,
    "FENCED_INSTANCE_ID": _FENCED,
    "UNRELEASED_INSTANCE_ID": ErrorMeaning(
        "another driver or listener is this group's static member (group.instance.id); a killed "
        "driver counts as a member until its session ends (45 s)",
        "nothing to do if that driver was killed: this one takes its place; otherwise stop it, or "
        "give this query a group of its own",
        lasting=True,
    ),
    "FENCED_MEMBER_EPOCH": ErrorMeaning(
        "the group has continued without this member, which was disconnected or suspended",
        "nothing to do: it rejoins",
    ),
    "INCONSISTENT_GROUP_PROTOCOL": ErrorMeaning(
        "the group's other members use another protocol or partition.assignment.strategy",
        "give the query a group of its own",
        lasting=True,
    ),
    "GROUP_MAX_SIZE_REACHED": ErrorMeaning(
        "the group has as many members as the broker's group.max.size allows",
        "give the query a group of its own",
        lasting=True,
    ),
    "UNSUPPORTED_VERSION": ErrorMeaning(
        "the broker is too old for what the client requested (group.protocol=consumer needs "
        "Kafka 4.0)",
        "remove that setting",
        lasting=True,
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": ErrorMeaning(
        "the client may not use this transactional id",
        "add an ACL: operations Write and Describe on the transactional id eo-listener-<group>, "
        "or use mode='simple'",
        lasting=True,
    ),
    "INVALID_TRANSACTION_TIMEOUT": ErrorMeaning(
        "the broker's transaction.max.timeout.ms is below this client's transaction.timeout.ms",
        "lower 'transaction.timeout.ms' in the client settings (kafka={...}; follow: -X)",
        lasting=True,
    ),
    "_UNSUPPORTED_FEATURE": ErrorMeaning(
        "the broker does not support transactions",
        "use mode='simple' or mode='member'",
        lasting=True,
    ),
    "UNKNOWN_MEMBER_ID": _MEMBERS,
    "ILLEGAL_GENERATION": _MEMBERS,
    "STALE_MEMBER_EPOCH": _MEMBERS,
    "GROUP_ID_NOT_FOUND": ErrorMeaning(
        "the group was deleted, or is not of the type that the client expects",
        "nothing to do if it was deleted: the next commit recreates it",
    ),
    "GROUP_AUTHORIZATION_FAILED": ErrorMeaning(
        "the client may not use this group", "add an ACL: operation Read on the group", lasting=True
    ),
    "TOPIC_AUTHORIZATION_FAILED": ErrorMeaning(
        "the client may not commit for this topic",
        "add an ACL: operation Read on the topic",
        lasting=True,
    ),
    "CLUSTER_AUTHORIZATION_FAILED": ErrorMeaning(
        "the client is not authorized to use this cluster",
        "ask the cluster's administrator for access",
        lasting=True,
    ),
    "_AUTHENTICATION": _LOGIN_FAILED,
    "SASL_AUTHENTICATION_FAILED": _LOGIN_FAILED,
    "UNSUPPORTED_SASL_MECHANISM": _LOGIN_FAILED,
    "_SSL": ErrorMeaning(
        "the TLS handshake failed: the client does not trust the broker's certificate, or the "
        "broker does not trust the client's",
        "check the source's kafka.ssl.* options; if they name no truststore, the machine's own "
        "certificate authorities apply here, not those of the JVM",
        lasting=True,
    ),
    "_JVM": ErrorMeaning(
        "Spark's JVM, through which this cluster is reached, did not carry out the request",
        "nothing to do if it is temporary: the commit is kept and repeated",
        outcome_unknown=True,
    ),
    NO_STORE: ErrorMeaning(
        "a key store of the source could not be turned into PEM for librdkafka",
        "check kafka.ssl.keystore.* and kafka.ssl.truststore.*; otherwise give PEM files, or the "
        "client settings in librdkafka's names (kafka={...}; follow: -X)",
        lasting=True,
    ),
    NO_JAVA: ErrorMeaning(
        "the source's security settings need Spark's own Kafka client, and no JVM is available "
        "here",
        "give the client settings in librdkafka's names (kafka={...}; follow: -X)",
        lasting=True,
    ),
    ONLY_SIMPLE: ErrorMeaning(
        "the source's security settings need Spark's own Kafka client, which can commit in "
        "simple mode only",
        "use mode='simple', or give the client settings in librdkafka's names (kafka={...})",
        lasting=True,
    ),
    "INVALID_GROUP_ID": ErrorMeaning(
        "Kafka does not accept this group id", "rename the group", lasting=True
    ),
    "UNKNOWN_TOPIC_ID": _NO_PARTITION,
    "OFFSET_METADATA_TOO_LARGE": ErrorMeaning(
        "the broker's offset.metadata.max.bytes is below the 120 bytes a commit carries",
        "raise offset.metadata.max.bytes",
        lasting=True,
    ),
    STOOD_STILL: ErrorMeaning(
        "this process or its machine was suspended just before the request",
        "nothing to do: the committer reads the group again first",
    ),
    "_MALFUNCTION": ErrorMeaning(
        "a fault in eo_listener or in its Kafka client; the log has the traceback",
        "report it; the commit is kept and repeated",
        outcome_unknown=True,
    ),
    "_INVALID_ARG": ErrorMeaning(
        "the Kafka client does not accept its settings: those of the source, or those given to "
        "the listener",
        "check the source's kafka.ssl.* and kafka.sasl.* options, and the client settings "
        "(kafka={...}; follow: -X)",
        lasting=True,
    ),
}


def explain(code: str) -> ErrorMeaning:
    """Return the meaning of an error name.

    A name that is not listed counts as lasting if a broker sent it, and as temporary if it is
    librdkafka's own.
    """
    unlisted = _LOCAL if code.startswith("_") else _UNLISTED
    return _MEANINGS.get(code, unlisted)
