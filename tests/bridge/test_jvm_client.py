"""Questions over the pipe: each gets its answer, an error, or nothing in time."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from eo_listener.bridge.messages import Answer
from eo_listener.bridge.service import BridgeQueries, BridgeShimClient, JvmClient
from eo_listener.errors import JvmError
from eo_listener.model.protocols import QueryMode
from eo_listener.offsets import Offsets, TopicPartition


class Answering(io.BytesIO):
    """Where the pipe writes to: each question is answered from another thread."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer | None]) -> None:
        super().__init__()
        self.jvm: JvmClient | None = None
        self.asked: list[dict[str, Any]] = []
        self._answer = answer

    def write(self, line: Any) -> int:
        message = json.loads(line)
        self.asked.append(message)
        answer = self._answer(message)
        if answer is not None and self.jvm is not None:
            threading.Timer(0.05, self.jvm.answered, [answer]).start()
        return len(line)


def connected(answer: Callable[[dict[str, Any]], Answer | None]) -> tuple[JvmClient, Answering]:
    output = Answering(answer)
    output.jvm = JvmClient(output)
    return output.jvm, output


def ok(text: str) -> Callable[[dict[str, Any]], Answer | None]:
    return lambda message: Answer(number=message["ask"], text=text, failed=None)


def test_a_call_of_the_shim() -> None:
    """A call of the shim is sent with its argument, and the answer comes back unchanged."""
    jvm, output = connected(ok('{"v":1}'))
    assert BridgeShimClient(jvm).call("stores.pem", '{"password":"x"}') == '{"v":1}'
    assert output.asked[0]["what"] == "call"
    assert output.asked[0]["call"] == "stores.pem"
    assert output.asked[0]["argument"] == '{"password":"x"}'


def test_a_failure_is_an_error() -> None:
    """Why the JVM could not answer is the cause of the error."""
    jvm, _ = connected(
        lambda message: Answer(number=message["ask"], text=None, failed="no such query")
    )
    with pytest.raises(JvmError, match="no such query"):
        BridgeQueries(jvm, lambda run: None).position("q", "r")


def test_no_answer_in_time() -> None:
    """A question without an answer fails at its timeout; a later answer is dropped."""
    jvm, output = connected(lambda message: None)
    with pytest.raises(JvmError, match=r"longer than 0\.1 s"):
        jvm.ask("position", timeout=0.1)
    jvm.answered(Answer(number=output.asked[0]["ask"], text="late", failed=None))
    jvm.answered(Answer(number=99, text="never asked", failed=None))


def test_a_pipe_that_is_closed() -> None:
    """A call that waits when the JVM ends fails at once, and so does a call after that."""
    jvm, _ = connected(lambda message: None)
    threading.Timer(0.1, jvm.close).start()
    with pytest.raises(JvmError, match="closed the pipe"):
        jvm.ask("position", timeout=20)
    with pytest.raises(JvmError, match="closed the pipe"):
        jvm.ask("position", timeout=20)


def test_nobody_reads() -> None:
    """Writing to a pipe that nobody reads raises JvmError, not an OSError."""
    incoming, outgoing = os.pipe()
    os.close(incoming)
    output = os.fdopen(outgoing, "wb", buffering=0)
    with output, pytest.raises(JvmError, match="closed the pipe"):
        JvmClient(output).ask("mode", timeout=5)


def test_what_the_shim_says_is_read() -> None:
    """Options of Kafka sources alone, modes by name; a name that is not known is an error."""
    forgotten: list[str] = []
    answers = {
        "sources": json.dumps(
            {
                "v": 1,
                "sources": [
                    {"index": 0, "kafka": False, "options": None},
                    {"index": 1, "kafka": True, "options": {"subscribe": "t"}},
                ],
            }
        ),
        "mode": "REAL_TIME",
        "position": '{"v":1,"restored":false,"batch":-1,"sources":[]}',
        "beginnings": json.dumps(
            {"v": 1, "sources": [{"index": 1, "content": '\0v1\n{"t":{"0":5}}'}]}
        ),
        "ended": "false",
    }

    def answer(message: dict[str, Any]) -> Answer:
        return Answer(number=message["ask"], text=answers[message["what"]], failed=None)

    jvm, _ = connected(answer)
    queries = BridgeQueries(jvm, forgotten.append)
    assert queries.options("q", "r") == {1: {"subscribe": "t"}}
    assert queries.mode("q", "r") is QueryMode.REAL_TIME
    assert queries.position("q", "r") is None
    assert queries.beginnings("q", "r") == {1: Offsets({TopicPartition("t", 0): 5})}
    assert not queries.has_ended("q", "r")
    answers["ended"] = "true"
    assert queries.has_ended("q", "r")
    queries.forget("r")
    assert forgotten == ["r"]
    answers["mode"] = "NEW_MODE"
    with pytest.raises(JvmError, match="NEW_MODE"):
        queries.mode("q", "r")
    answers["sources"] = '{"v":2}'
    with pytest.raises(JvmError, match="format 2, not 1"):
        queries.options("q", "r")
