"""Kafka's definitions are read rightly: what is written is read back, in every version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.attack.messages import Messages, Source, Versions, unsigned
from tests.attack.replies import Refusals
from tests.broker import DEFAULT, KNOWN

# An older release is another download.
RELEASES = [
    DEFAULT,
    *(pytest.param(one, marks=pytest.mark.slow) for one in KNOWN if one != DEFAULT),
]
COMMIT: dict[str, Any] = {
    "GroupId": "g",
    "MemberId": "",
    "GroupInstanceId": None,
    "Topics": [
        {
            "Name": "t",
            "Partitions": [{"PartitionIndex": 3, "CommittedOffset": 7, "CommittedMetadata": "m"}],
        }
    ],
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_is_read_back(release: str, version: int) -> None:
    """An OffsetCommit request with strings, nulls and nested arrays survives the round trip."""
    message = Messages(release)["OffsetCommitRequest"]
    data = message.encode(version, COMMIT)
    read = message.decode(version, data)
    assert read["GroupId"] == "g"
    assert read.get("GroupInstanceId") is None
    (part,) = read["Topics"][0]["Partitions"]
    assert (part["PartitionIndex"], part["CommittedOffset"]) == (3, 7)
    assert message.encode(version, read) == data


def test_tagged_fields_are_read_and_unknown_ones_skipped() -> None:
    """The topic id of a 4.1 commit is found behind a tag that nobody knows."""
    message, topic = Messages("4.1.2")["OffsetCommitValue"], uuid.uuid4()
    plain = message.encode(4, {"offset": 5, "metadata": "m", "commitTimestamp": 1})
    assert plain[-1:] == b"\0"
    tags = unsigned(2) + b"\0" + unsigned(16) + topic.bytes + b"\x63" + unsigned(3) + b"abc"
    assert message.decode(4, plain[:-1] + tags)["topicId"] == topic


def test_numbers_of_variable_length() -> None:
    """Varints of one, two and five bytes are encoded as Kafka does, signed ones too."""
    for value in (0, 1, 127, 128, 300, 16_383, 16_384, 2**32 - 1):
        assert Source(unsigned(value)).unsigned() == value
    assert [Source(bytes([byte])).signed() for byte in range(4)] == [0, -1, 1, -2]


def test_a_message_that_is_cut_short_is_refused() -> None:
    """Half a message is an error, never a guess."""
    message = Messages()["OffsetCommitRequest"]
    with pytest.raises(EOFError):
        message.decode(8, message.encode(8, COMMIT)[:-3])


def test_ranges_of_versions() -> None:
    """Every way in which Kafka's message definitions write version ranges is read."""
    assert 4 in Versions.parse("4+")
    assert 3 not in Versions.parse("4+")
    assert 7 in Versions.parse("7")
    assert 8 not in Versions.parse("7")
    assert 0 not in Versions.parse("none")
    assert 5 in Versions.parse("2-5")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("api", "versions", "request_fields"),
    [
        ("OffsetCommit", range(2, 10), COMMIT),
        ("TxnOffsetCommit", range(5), {**COMMIT, "TransactionalId": "x"}),
        ("FindCoordinator", range(7), {"Key": "g", "CoordinatorKeys": ["g"]}),
        ("InitProducerId", range(6), {"TransactionalId": "x", "TransactionTimeoutMs": 1}),
        ("EndTxn", range(5), {"TransactionalId": "x"}),
        ("AddOffsetsToTxn", range(5), {"TransactionalId": "x", "GroupId": "g"}),
        ("AddPartitionsToTxn", range(4), {"V3AndBelowTopics": [{"Name": "t", "Partitions": [0]}]}),
        (
            "Produce",
            range(3, 12),
            {"TopicData": [{"Name": "t", "PartitionData": [{"Index": 0, "Records": b""}]}]},
        ),
        ("Fetch", range(4, 16), {"Topics": [{"Topic": "t", "Partitions": [{"Partition": 0}]}]}),
    ],
)
def test_refusals_carry_the_code_in_every_version(
    release: str, api: str, versions: range, request_fields: dict[str, Any]
) -> None:
    """The reply that is built reads back with its correlation id and the error where it belongs."""
    messages = Messages(release)
    number = messages.api(api)
    for version in versions:
        body = messages.request(number).encode(version, request_fields)
        frame = Refusals(messages).reply(number, version, 77, body, 15)
        assert int.from_bytes(frame[:4], "big") == 77
        flexible = messages.request(number).flexible(version)
        reply = messages.reply(number).decode(version, frame[5 if flexible else 4 :])
        assert "15" in str(reply.get("Topics", reply))
