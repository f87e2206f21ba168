"""What Kafka's error names mean for a commit: will it pass, did it land, what to do.

Names are those of `org.apache.kafka.common.protocol.Errors`; a leading underscore marks
librdkafka's own, which never left this machine or were never answered.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """The meaning of one error name.

    `refused` is an answer that lasts until somebody changes something. `unknown` is a request
    whose effect cannot be known from here: it may have landed. `final` is the end: another
    committer has taken this one's place, and to go on would take it back.
    """

    cause: str
    fix: str
    refused: bool = False
    unknown: bool = False
    final: bool = False


_UNREACHABLE = Reason(
    "the broker is down, slow, or not at this address",
    "nothing to do if it comes back: the commit is kept and repeated; "
    "else check kafka.bootstrap.servers",
    unknown=True,
)
_COORDINATOR = Reason(
    "the group's coordinator is being elected or is loading", "nothing to do: it passes"
)
_MEMBERS = Reason(
    "the group has live members (a consumer uses the same group id), so Kafka refuses "
    "commits from outside",
    "give the query a group of its own, or stop that consumer",
    refused=True,
)
_UNLISTED = Reason(
    "see the Kafka error name", "check the broker's log for this request", refused=True
)
_NO_PARTITION = Reason(
    "the topic was deleted or recreated with fewer partitions",
    "nothing can be committed for it; when it is gone for good, restart the driver",
    refused=True,
)

_REASONS = {
    "_TRANSPORT": _UNREACHABLE,
    "_TIMED_OUT": _UNREACHABLE,
    "_TIMED_OUT_QUEUE": _UNREACHABLE,
    "_ALL_BROKERS_DOWN": _UNREACHABLE,
    "_WAIT_COORD": _UNREACHABLE,
    "_RESOLVE": _UNREACHABLE,
    "REQUEST_TIMED_OUT": _UNREACHABLE,
    "NETWORK_EXCEPTION": _UNREACHABLE,
    "_MISSING_ANSWER": Reason(
        "the broker's answer left this partition out",
        "nothing to do: it is asked again",
        unknown=True,
    ),
    "COORDINATOR_LOAD_IN_PROGRESS": _COORDINATOR,
    "COORDINATOR_NOT_AVAILABLE": _COORDINATOR,
    "NOT_COORDINATOR": _COORDINATOR,
    "UNSTABLE_OFFSET_COMMIT": _COORDINATOR,
    "REBALANCE_IN_PROGRESS": Reason("the group is rebalancing", "nothing to do: it passes"),
    "UNKNOWN_MEMBER_ID": _MEMBERS,
    "ILLEGAL_GENERATION": _MEMBERS,
    "STALE_MEMBER_EPOCH": _MEMBERS,
    "GROUP_ID_NOT_FOUND": _MEMBERS,
    "GROUP_AUTHORIZATION_FAILED": Reason(
        "the client may not use this group",
        "add an ACL: operation Read on the group",
        refused=True,
    ),
    "TOPIC_AUTHORIZATION_FAILED": Reason(
        "the client may not commit for this topic",
        "add an ACL: operation Read on the topic",
        refused=True,
    ),
    "CLUSTER_AUTHORIZATION_FAILED": Reason(
        "the client may not use this cluster", "ask for the right to connect", refused=True
    ),
    "_AUTHENTICATION": Reason(
        "the broker refused the client's credentials",
        "check the security settings given to the listener",
        refused=True,
    ),
    "_SSL": Reason(
        "the TLS handshake failed",
        "check the security settings given to the listener",
        refused=True,
    ),
    "INVALID_GROUP_ID": Reason("Kafka does not accept this group id", "rename it", refused=True),
    "UNKNOWN_TOPIC_OR_PART": _NO_PARTITION,
    "UNKNOWN_TOPIC_OR_PARTITION": _NO_PARTITION,
    "UNKNOWN_TOPIC_ID": _NO_PARTITION,
    "OFFSET_METADATA_TOO_LARGE": Reason(
        "the broker's offset.metadata.max.bytes is below the 120 bytes a commit carries",
        "raise offset.metadata.max.bytes",
        refused=True,
    ),
    "_MALFUNCTION": Reason(
        "a fault in eo_listener or in its Kafka client; the log has the traceback",
        "report it; the commit is kept and repeated",
        unknown=True,
    ),
    "_INVALID_ARG": Reason(
        "the client settings given to the listener are not accepted by librdkafka",
        "check OffsetCommitListener(kafka={...})",
        refused=True,
    ),
}


def explain(code: str) -> Reason:
    """Return the meaning of an error name; one that is not listed counts as refused."""
    return _REASONS.get(code, _UNLISTED)
