"""Whether offsets of a topic can be committed, and its logs be looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eo_listener.client_config import acls
from eo_listener.preflight import rights
from eo_listener.preflight.facts import CheckPlan, TopicFacts
from eo_listener.preflight.findings import CheckFinding, fine, note, problem

_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION"})
# Commits need Read; where the logs start and end, which each commit is held against, Describe.
_NEEDED = ("READ", "DESCRIBE")


def judge_topic(topic: TopicFacts, servers: str, plan: CheckPlan) -> Iterator[CheckFinding]:
    """Say what is right and wrong with it."""
    about = f"topic {topic.name}"
    resource = ["--topic", topic.name]
    if topic.error == "TOPIC_AUTHORIZATION_FAILED":
        yield rights.refused(about, servers, plan.principal, _NEEDED, resource)
        return
    if topic.error in _UNKNOWN:
        yield problem(
            about,
            "it does not exist, or the client may not see it",
            "check its name; or, as an administrator: "
            + acls.command(servers, plan.principal, _NEEDED, resource),
        )
        return
    if topic.error is not None:
        yield note(about, f"it could not be described ({topic.error})")
        return
    if topic.operations is None:
        yield note(about, "Kafka does not tell what the client may do with it")
    else:
        lacking = rights.missing(_NEEDED, topic.operations)
        if lacking:
            yield rights.refused(about, servers, plan.principal, lacking, resource)
        else:
            yield fine(about, f"{len(topic.ends)} partitions; the client may commit for it (Read)")
    if not topic.has_id:
        yield note(
            about,
            "it has no topic id (Kafka before 2.8), so one that is recreated is known by its "
            "offsets alone",
        )
