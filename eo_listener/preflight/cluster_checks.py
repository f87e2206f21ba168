"""Checks a cluster's own settings for commits. Pure."""

from __future__ import annotations

from eo_listener.client_config.admin_commands import grant_command
from eo_listener.errors import counted
from eo_listener.model.commit_metadata import MAX_BYTES
from eo_listener.preflight.facts import CheckPlan, ClusterFacts
from eo_listener.preflight.findings import Findings, fine, note, problem, warning

_RETENTION = "offsets.retention.minutes"
_CHECK = "offsets.retention.check.interval.ms"
_METADATA = "offset.metadata.max.bytes"
_TRANSACTION = "transaction.max.timeout.ms"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_TRANSACTION_TIMEOUT = 60_000  # what the committer asks for, as librdkafka does by itself


def judge_cluster(facts: ClusterFacts, plan: CheckPlan) -> Findings:
    """Say what is right and wrong with it."""
    about = f"cluster {facts.servers}"
    yield fine(about, f"reached, {counted(facts.brokers, 'broker')}")
    if facts.settings is None:
        command = grant_command(facts.servers, plan.principal, ["DESCRIBE_CONFIGS"], ["--cluster"])
        yield note(
            about,
            f"its settings could not be read ({facts.refused}), so retention is not compared",
            f"keep recommit_interval well below {_RETENTION}; or, to have them compared: {command}",
        )
        return
    yield from _retention(about, facts, plan)
    yield from _limits(about, facts, plan)


def _retention(about: str, facts: ClusterFacts, plan: CheckPlan) -> Findings:
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


def _limits(about: str, facts: ClusterFacts, plan: CheckPlan) -> Findings:
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
    new = plan.mode == "member" and plan.protocol == "consumer"
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
