"""The shim in a Java of its own, for commands that have no Spark: Kafka's Java client behind it.

Calls and answers are lines, as the shim's class ShimProcess has them. They hold secrets, so they
go over the pipes alone; what Java prints beside them is not shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from eo_listener.model.errors import JvmError
from eo_listener.spark.java import Java

_MAIN: Final = "io.github.eolistener.requests.ShimProcess"
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
_LONGEST: Final = 120.0  # seconds; each call has a limit of its own, which is less
_END: Final = 3.0


class ShimProcess:
    """A `ShimClient`; `close` ends the process, which ends with its parent too.

    `jars` are those of the shim and of Kafka's client. Raises JvmError where Java does not start.
    """

    def __init__(self, java: Java, jars: Sequence[Path]) -> None:
        self._lock = threading.Lock()
        command = [str(java.executable), *_QUICK, "-cp", os.pathsep.join(map(str, jars)), _MAIN]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is the command's, which then closes this
            )
        except OSError as error:
            raise JvmError(
                f"{java.executable} did not start", cause=error.strerror or str(error)
            ) from error
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="eo-listener-shim", daemon=True)
        self._reader.start()

    def call(self, what: str, argument: str) -> str:
        """Do `what` with `argument`, as JSON texts. Raises JvmError."""
        with self._lock:
            answer = self._asked(json.dumps({"call": what, "argument": argument}))
        if "failed" in answer:
            raise JvmError(f"the shim's call {what!r} failed", cause=answer["failed"])
        return answer["answer"]

    def close(self) -> None:
        """End the process, within a few seconds."""
        process = self._process
        try:
            if process.stdin is not None:
                process.stdin.close()
        except OSError:
            pass  # it has gone
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(_END)
        if process.stdout is not None:
            process.stdout.close()

    def _asked(self, line: str) -> dict[str, str]:
        pipe = self._process.stdin
        try:
            if pipe is None:
                raise BrokenPipeError
            pipe.write(line.encode() + b"\n")
            pipe.flush()
            text = self._answers.get(timeout=_LONGEST)
        except (OSError, ValueError) as error:
            raise _ended() from error
        except Empty as error:
            raise JvmError(
                f"Kafka's Java client did not answer within {_LONGEST:.0f} s",
                cause="the machine is busy, or Java hangs",
            ) from error
        if not text:
            raise _ended()
        answer: dict[str, str] = json.loads(text)
        return answer

    def _read(self) -> None:
        pipe = self._process.stdout
        while pipe is not None and (line := pipe.readline()):
            self._answers.put(line)
        self._answers.put(b"")  # for good: it has ended


def _ended() -> JvmError:
    return JvmError(
        "the Java process that asks Kafka for transactions has ended",
        cause="it lacks memory, or its jars do not fit together",
        fix="Name another folder with kafka-clients: --kafka-clients",
    )
