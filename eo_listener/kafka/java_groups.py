"""Commits to consumer groups through Spark's own kafka-clients, for logins that librdkafka lacks.

Only the Java client supports delegation tokens, MSK IAM, and custom login or callback handlers. The
shim holds one Admin client for each `JavaGroups`. The shim's classes GroupCommit and GroupSnapshot
define the formats of requests and answers.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from queue import SimpleQueue
from typing import Any, Final

from eo_listener.errors import JvmError, KafkaError, SettingsError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.protocols import GroupSnapshot, ShimClient
from eo_listener.model.shim_answers import read_answer
from eo_listener.offsets import Position, TopicPartition

UNANSWERED: Final = "REQUEST_TIMED_OUT"  # outcome unknown: the commit may still arrive
NO_JVM: Final = "_JVM"  # failed in the JVM, or no answer; outcome unknown too

_GRACE = 0.5  # seconds by which an answer may exceed the JVM's own time limit
_FAREWELL = 1.5  # seconds for closing; the Admin takes one of them


class JavaGroups:
    """The consumer groups of one cluster, through Java's client: a `GroupStore` of the simple mode.

    `properties` have Java's names, as in the options of the Spark source. For any number of groups,
    the JVM has one client, with one thread and a connection to each broker; Python has one thread.
    The brokers must have Kafka 3.0 or newer.
    """

    def __init__(self, shim_client: ShimClient, properties: Mapping[str, str]) -> None:
        self._calls = _Calls(shim_client)
        self._servers = properties.get("bootstrap.servers", "")
        self._client = uuid.uuid4().hex[:12]
        # Every call sends it: the JVM may have dropped the client, and the properties are few.
        self._opening = {"client": self._client, "properties": dict(properties)}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and return None or Kafka's error name for each partition. Raises KafkaError.

        None means that the broker confirmed the request. There was only one request, since the
        JVM's client does not repeat an unanswered request. After REQUEST_TIMED_OUT and `_JVM` the
        outcome is unknown. The client does not send the request again, but the broker may have read
        it, and a suspended JVM may still send it. So this object sends no other request until the
        JVM has answered the call.
        """
        request = {"group": group, **_packed(positions)}
        answer = self._ask("groups.commit", f"committing to group {group}", request, timeout)
        topics = answer["topics"]
        return {
            tp: codes[partition]
            for tp in positions
            if (partition := str(tp.partition)) in (codes := topics.get(tp.topic, {}))
        }

    def snapshot(
        self, group: str, partitions: Collection[TopicPartition], *, timeout: float
    ) -> GroupSnapshot:
        """Read the group's offsets and the logs of `partitions`. Raises KafkaError."""
        request = {"group": group, "topics": by_topic(partitions)}
        answer = self._ask("groups.snapshot", f"reading group {group}", request, timeout)
        edges = [
            (TopicPartition(topic, partition), start, end)
            for topic, log in answer["logs"].items()
            for partition, start, end in log["partitions"]
        ]
        ids = {topic: log["id"] for topic, log in answer["logs"].items()}
        return GroupSnapshot(
            positions=_unpacked(answer),
            starts={tp: start for tp, start, _ in edges},
            ends={tp: end for tp, _, end in edges},
            topic_ids={topic: topic_id for topic, topic_id in ids.items() if topic_id is not None},
            errors=answer["errors"],
        )

    def take_over(self, group: str) -> None:
        """Do nothing: nobody can take over a group in the simple mode."""

    def poll(self) -> None:
        """Do nothing: the JVM's client has a thread of its own."""

    def close(self) -> None:
        """Close the connections; wait 2 s at most for an unanswered request."""
        farewell = json.dumps({"client": self._client})
        try:
            self._calls.make("groups.close", farewell, time.monotonic() + _FAREWELL)
        except (JvmError, Late):
            pass  # the JVM has gone or hangs, and its connections end with it
        finally:
            self._calls.close()

    def _ask(self, call: str, action: str, request: Mapping[str, Any], timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        try:
            self._calls.settle(deadline)
            limit = max(1, int(1000 * (deadline - time.monotonic())))
            argument = json.dumps(
                {**self._opening, "timeoutMs": limit, **request}, separators=(",", ":")
            )
            answer = read_answer(self._calls.make(call, argument, deadline + _GRACE))
        except Late:
            raise self._failure(
                action, UNANSWERED, "Spark's JVM has not answered in time"
            ) from None
        except JvmError as error:
            raise self._failure(action, NO_JVM, str(error)) from error
        if "error" in answer:
            raise self._refused(action, **answer["error"])
        return answer

    def _refused(self, action: str, code: str, cause: str) -> KafkaError | SettingsError:
        if code == "_INVALID_ARG":
            return SettingsError(
                f"{action} is not possible: {cause}",
                cause="the names are Java's; the Spark source has them with the prefix `kafka.`",
                fix="Correct the option of the source",
            )
        return self._failure(action, code, cause)

    def _failure(self, action: str, code: str, cause: str) -> KafkaError:
        return KafkaError(f"{action} at {self._servers} failed: {code}", code=code, cause=cause)


class _Calls:
    """Makes calls into the JVM one after another on its own thread, and limits each wait.

    py4j waits for an answer without limit, and a JVM may be suspended. When a suspended JVM
    continues, it executes the call for which Python no longer waits. So the next call waits until
    that call has ended: otherwise the older of two commits could arrive last and move the group
    back.
    """

    def __init__(self, shim_client: ShimClient) -> None:
        self._shim_client = shim_client
        self._last: Future[str] | None = None
        self._orders: SimpleQueue[tuple[str, str, Future[str]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name="eo-listener-java-kafka", daemon=True
        )
        self._thread.start()

    def settle(self, deadline: float) -> None:
        """Wait until the previous call has ended. Raises Late if `deadline` passes first."""
        if self._last is not None:
            self._last.exception(max(0.0, deadline - time.monotonic()))
            self._last = None

    def make(self, name: str, argument: str, deadline: float) -> str:
        """Call the shim's function `name` with `argument`, and return the answer.

        Raises JvmError, or Late if `deadline` passes first.
        """
        self.settle(deadline)
        answer = self._last = Future()
        self._orders.put((name, argument, answer))
        if name == "groups.commit":
            fault_point("commit.after-request")
        return answer.result(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End the thread after its current call."""
        self._orders.put(None)
        self._thread.join(_GRACE)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            name, argument, answer = order
            try:
                answer.set_result(self._shim_client.call(name, argument))
            except Exception as error:  # noqa: BLE001  # raised in the caller that waits, if one does
                answer.set_exception(error)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers by topic, as the shim's class PositionsJson reads them."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _packed(positions: Mapping[TopicPartition, Position]) -> dict[str, Any]:
    """Return positions in the form that the shim reads, with each metadata text only once.

    A NUL follows each text, as if confluent-kafka had written the text: without the NUL,
    confluent-kafka would read on into other memory.
    """
    texts: dict[str, int] = {}
    topics: dict[str, list[tuple[int, int, int]]] = {}
    for (topic, partition), position in positions.items():
        text = texts.setdefault(position.metadata, len(texts))
        topics.setdefault(topic, []).append((partition, position.offset, text))
    return {"metadata": [text and f"{text}\0" for text in texts], "topics": topics}


def _unpacked(answer: Mapping[str, Any]) -> dict[TopicPartition, Position]:
    """Return the group's positions in `answer`, without the NUL after each metadata text."""
    texts = [text.rstrip("\0") for text in answer["metadata"]]
    return {
        TopicPartition(topic, partition): Position(offset=offset, metadata=texts[index])
        for topic, parts in answer["committed"].items()
        for partition, offset, index in parts
    }
