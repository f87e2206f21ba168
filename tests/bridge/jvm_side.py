"""The shim's side of the pipe, played by a test: a real bridge process, told what the test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, final

ROOT = Path(__file__).parents[2]
NOTHING: Mapping[str, str] = MappingProxyType({})
QUERY, RUN = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"


def hello(conf: Mapping[str, str] = NOTHING, v: int = 1) -> dict[str, Any]:
    """What the shim says first."""
    return {"v": v, "shim": "0.1.0", "debug": False, "conf": dict(conf)}


def progress(topic: str, end: int, batch: int = 0, start: int = 0) -> dict[str, Any]:
    """A progress event of one Kafka source with one partition."""
    source = {
        "description": f"KafkaV2[Subscribe[{topic}]]",
        "startOffset": {topic: {"0": start}},
        "endOffset": {topic: {"0": end}},
    }
    event = {
        "id": QUERY,
        "runId": RUN,
        "name": "flights",
        "batchId": batch,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "sources": [source],
    }
    return {"progress": json.dumps(event)}


def started() -> dict[str, Any]:
    """The start of that query's run."""
    return {"started": {"query": QUERY, "run": RUN, "name": "flights"}}


@final
class JvmSide:
    """A bridge and the two ends of its pipe; for a `with` block. `answers` are by question."""

    def __init__(
        self,
        conf: Mapping[str, str] = NOTHING,
        *,
        answers: Mapping[str, object] = MappingProxyType({}),
        first: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] = NOTHING,
    ) -> None:
        self.lines: list[dict[str, Any]] = []
        self.errors = ""
        self._answers = {"ended": "false", **answers}
        self._heard = threading.Condition()
        self._write_lock = threading.Lock()
        self._deaf = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eo_listener.bridge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        self._threads = [threading.Thread(target=one) for one in (self._read, self._complain)]
        for thread in self._threads:
            thread.start()
        self.send(hello(conf) if first is None else dict(first))

    def __enter__(self) -> JvmSide:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait(10)
        for thread in self._threads:
            thread.join(10)
        self.hang_up()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a line."""
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        """Send any bytes."""
        assert self.process.stdin is not None
        with self._write_lock:
            self.process.stdin.write(raw)
            self.process.stdin.flush()

    def deafen(self) -> None:
        """Close the other pipe, as a driver does that dies."""
        self._deaf.set()
        self.send({"ping": 0})  # for the thread that reads to see it
        self._threads[0].join(10)

    def hang_up(self) -> None:
        """Close the pipe, as a driver does that dies."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def await_line(self, key: str, seconds: float = 20) -> dict[str, Any]:
        """Wait for a line that has this key."""
        deadline = time.monotonic() + seconds
        with self._heard:
            while not (found := [line for line in self.lines if key in line]):
                left = deadline - time.monotonic()
                assert left > 0, f"no {key}: {self.lines} {self.errors}"
                self._heard.wait(left)
        return found[-1]

    def ended(self, seconds: float = 20) -> int:
        """Wait for its end; return its exit code."""
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(10)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if "ask" in message and message["what"] in self._answers:
                    answer = self._answers[message["what"]]
                    text = answer if isinstance(answer, str) else json.dumps(answer)
                    self.send({"answer": message["ask"], "text": text})
                with self._heard:
                    self.lines.append(message)
                    self._heard.notify_all()
                if self._deaf.is_set():
                    return

    def _complain(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.errors += line.decode(errors="replace")
