"""What each of Kafka's errors means for a commit: one table."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError as Answer

from eo_listener.model.kafka_errors import (
    _MEANINGS,
    PERHAPS_TOO_LARGE,
    TOO_LARGE,
    ErrorMeaning,
    explain,
)

# Lasts until somebody changes something; nothing has landed.
LASTING = """
    CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED
    ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_TRANSACTION_TIMEOUT
    OFFSET_METADATA_TOO_LARGE SASL_AUTHENTICATION_FAILED STALE_MEMBER_EPOCH
    TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID
    UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_OR_PARTITION UNRELEASED_INSTANCE_ID
    UNSUPPORTED_SASL_MECHANISM UNSUPPORTED_VERSION _AUTHENTICATION _INVALID_ARG _NO_JAVA _NO_STORE
    _ONLY_SIMPLE _SSL _UNSUPPORTED_FEATURE
"""
# Passes by itself; nothing has landed.
PASSING = """
    CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
    FENCED_LEADER_EPOCH FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND INVALID_COMMIT_OFFSET_SIZE
    LEADER_NOT_AVAILABLE NOT_COORDINATOR NOT_LEADER_FOR_PARTITION NOT_LEADER_OR_FOLLOWER
    REBALANCE_IN_PROGRESS UNKNOWN_LEADER_EPOCH UNSTABLE_OFFSET_COMMIT _STOOD_STILL
"""
# May pass, and may have landed, or land yet.
OUTCOME_UNKNOWN = """
    INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE NETWORK_EXCEPTION REQUEST_TIMED_OUT UNKNOWN
    UNKNOWN_PRODUCER_ID UNKNOWN_SERVER_ERROR _ALL_BROKERS_DOWN _CONFLICT _JVM _MALFUNCTION
    _MISSING_ANSWER _RESOLVE _STATE _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT _WAIT_COORD
"""
# Another committer has taken the place of this one.
FATAL = "FENCED_INSTANCE_ID INVALID_PRODUCER_EPOCH PRODUCER_FENCED _FENCED"


# Names that librdkafka does not have: of Java, of the store by Java, of the committer itself.
NOT_LIBRDKAFKAS = """
    NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_SERVER_ERROR _JVM _MALFUNCTION
    _MISSING_ANSWER _NO_JAVA _NO_STORE _ONLY_SIMPLE _STOOD_STILL
"""


def flags(meaning: ErrorMeaning) -> tuple[bool, bool, bool]:
    return meaning.lasting, meaning.outcome_unknown, meaning.fatal


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        (LASTING, (True, False, False)),
        (PASSING, (False, False, False)),
        (OUTCOME_UNKNOWN, (False, True, False)),
        (FATAL, (True, False, True)),
        ("_NOT_LISTED", (False, True, False)),
        ("NOT_LISTED", (True, True, False)),
    ],
)
def test_what_each_error_means(codes: str, wanted: tuple[bool, bool, bool]) -> None:
    """Whether it lasts, whether the commit may have landed, and whether it is the end."""
    for code in codes.split():
        assert flags(explain(code)) == wanted, code


def test_the_table_is_whole() -> None:
    """Every name that is listed stands in it once, and is one that Kafka's clients use."""
    listed = f"{LASTING} {PASSING} {OUTCOME_UNKNOWN} {FATAL}".split()
    assert sorted(listed) == sorted(_MEANINGS)
    known = {Answer(code).name() for code in (*range(-200, 0), *range(130))}
    assert set(_MEANINGS) - known == set(NOT_LIBRDKAFKAS.split())


def test_none_that_is_too_large_is_lasting() -> None:
    """What may only not have fitted is tried again."""
    assert not any(explain(code).lasting for code in TOO_LARGE | PERHAPS_TOO_LARGE)
