"""A leader that is away for some seconds delays a batch, and does not end the query."""

from __future__ import annotations

import threading
import time

import pytest

from eo_listener.errors import KafkaError
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.offsets import TopicPartition
from tests.attack.conftest import Attacked
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import Refuse

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"])
def test_a_leader_that_is_away(
    attacked: Attacked, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing leader is asked for again until the timeout, longer than one request waits."""
    monkeypatch.setattr("eo_listener.kafka.logs._METADATA_TIMEOUT", 0.3)
    tp = TopicPartition(attacked.topics.create(partitions=1), 0)
    attacked.topics.fill(tp.topic, 3)
    options = {"kafka.bootstrap.servers": attacked.servers}
    logs = SourceLogs(timeout=20.0)
    fault = attacked.proxy.arm("ListOffsets", Refuse(ERRORS[code]), times=None)
    back = threading.Timer(1.0, attacked.proxy.disarm)
    back.start()
    started = time.monotonic()
    assert logs.snapshot(options, [tp]).ends == {tp: 3}
    assert fault.fired > 1
    assert time.monotonic() - started > 0.8
    back.join()
    logs.close()
    logs = SourceLogs(timeout=3.0)  # for the description of the topic too
    attacked.proxy.arm("ListOffsets", Refuse(ERRORS[code]), times=None)
    with pytest.raises(KafkaError, match="at which logs start"):
        logs.snapshot(options, [tp])
    logs.close()


def test_a_refusal_is_raised_at_once(attacked: Attacked) -> None:
    """An error that does not pass by waiting is raised at once."""
    tp = TopicPartition(attacked.topics.create(partitions=1), 0)
    logs = SourceLogs(timeout=30.0)
    attacked.proxy.arm("ListOffsets", Refuse(ERRORS["GROUP_AUTHORIZATION_FAILED"]), times=None)
    started = time.monotonic()
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        logs.snapshot({"kafka.bootstrap.servers": attacked.servers}, [tp])
    assert time.monotonic() - started < 10
    logs.close()
