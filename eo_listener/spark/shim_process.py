"""Runs the shim and Kafka's Java client in a separate Java process, for commands without Spark.

Calls and answers are lines, in the format of the shim's class ShimProcess. They hold secrets, so
they go only through pipes. Other output of Java is not shown.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

from eo_listener.errors import JvmError, SettingsError, UnavailableError
from eo_listener.spark.java import Java
from eo_listener.spark.session.installation import spark_homes

_MAIN: Final = "io.github.eolistener.requests.ShimProcess"
_QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_MEMORY: Final = ("-Xmx512m", "-XX:+ExitOnOutOfMemoryError")
_SILENT: Final = ("-Xlog:disable", "-XX:+DisplayVMOutputToStderr")  # else warnings count as answers
_LONGEST: Final = 120.0  # seconds; each call has a lower limit of its own
_END: Final = 3.0


class ShimProcess:
    """A `ShimClient` whose first call starts a Java process.

    The process ends when `close` is called, or when its parent process ends.

    `jars` are the jars of the shim and of Kafka's client.
    """

    def __init__(self, java: Java, jars: Sequence[Path]) -> None:
        self._command = [str(java.executable), *_QUICK, *_MEMORY, *_SILENT]
        self._command += ["-cp", os.pathsep.join(map(str, jars)), _MAIN]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._failure: JvmError | None = None

    def call(self, name: str, argument: str) -> str:
        """Call the shim's function `name` with `argument`, and return its answer.

        `argument` and the answer are JSON texts. Raises JvmError.
        """
        with self._lock:
            answer = self._ask(json.dumps({"call": name, "argument": argument}))
        if "failed" in answer:
            raise JvmError(f"the shim's call {name!r} failed", cause=answer["failed"])
        return answer["answer"]

    def close(self) -> None:
        """End the process, within a few seconds."""
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        with suppress(OSError):  # the process has ended
            _pipe(process.stdin).close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(_END)
        _pipe(process.stdout).close()

    def _ask(self, line: str) -> dict[str, str]:
        deadline = time.monotonic() + _LONGEST
        try:
            _write(_pipe(self._start().stdin), line.encode() + b"\n", deadline)
            text = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except (Empty, TimeoutError) as error:  # TimeoutError is an OSError too
            raise self._give_up(
                f"Kafka's Java client did not answer within {_LONGEST:.0f} s",
                cause="the machine is busy, or Java hangs",
            ) from error
        except (OSError, ValueError) as error:
            raise self._ended() from error
        if not text:
            self._answers.put(b"")  # for the next call: its write to the pipe may still succeed
            raise self._ended()
        try:
            answer: dict[str, str] = json.loads(text)
        except ValueError as error:
            raise self._give_up(
                "Kafka's Java client did not answer in JSON",
                cause="Java, or something that JAVA_TOOL_OPTIONS adds to it, writes to its output",
            ) from error
        return answer

    def _give_up(self, problem: str, *, cause: str) -> JvmError:
        """End the process, and return the error.

        A late answer of this process would otherwise count as the answer to the next call.
        """
        process = self._start()
        process.kill()
        process.wait()
        self._failure = JvmError(problem, cause=cause)
        return self._failure

    def _ended(self) -> JvmError:
        problem = "the Java process that reads Kafka's transactions has ended"
        if self._failure is not None:
            return JvmError(
                problem,
                cause=f"eo_listener ended it, because at an earlier call {self._failure.problem}",
                fix="Run the command again",
            )
        return JvmError(
            problem,
            cause="it lacks memory, or its jars do not fit together",
            fix="Name another folder with kafka-clients: --kafka-clients",
        )

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C goes only to the command, which then closes this
            )
            os.set_blocking(_pipe(self._process.stdin).fileno(), False)
            self._reader = threading.Thread(
                target=self._read, args=(_pipe(self._process.stdout),), daemon=True
            )
            self._reader.start()
        return self._process

    def _read(self, pipe: IO[bytes]) -> None:
        while line := pipe.readline():
            self._answers.put(line)
        self._answers.put(b"")  # the process has ended


def _write(pipe: IO[bytes], line: bytes, deadline: float) -> None:
    """Write `line` to a non-blocking pipe. Raises TimeoutError if Java does not read it in time."""
    room = select.poll()
    room.register(pipe, select.POLLOUT)
    remaining = memoryview(line)
    while remaining:
        if not room.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            raise TimeoutError
        remaining = remaining[os.write(pipe.fileno(), remaining) :]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101  # each is a PIPE
    return pipe


# Dependencies of the client; Spark's own jars and those of Kafka have them too.
_NEEDED: Final = ("jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api")
# Ivy's caches, in Spark 4 and 3.5, with the jars that spark-submit has resolved for --packages.
_IVY: Final = ("~/.ivy2.5.2", "~/.ivy2")


def kafka_clients(named: Path | None = None) -> tuple[Path, ...]:
    """Return the jars of kafka-clients and its dependencies, the newest version of each.

    If `named` is given, the function searches only that folder and, for dependencies, Spark's own
    jars. Otherwise it searches the folders of Spark and Kafka. Raises SettingsError if `named` has
    no kafka-clients, and UnavailableError if a jar is not found.
    """
    if named is not None and _newest(named, "kafka-clients") is None:
        raise SettingsError(
            f"{named} has no kafka-clients-*.jar",
            fix="Name the folder that has it, such as Kafka's libs folder",
        )
    folders = list(_places()) if named is None else [named]
    for folder in folders:
        client = _newest(folder, "kafka-clients")
        if client is not None:
            dependencies = [_find_jar(name, folder) for name in _NEEDED]
            if None not in dependencies:
                return (client, *(jar for jar in dependencies if jar is not None))
    raise UnavailableError(
        "cannot find Kafka's Java client and its dependencies on this machine",
        cause=(
            "librdkafka cannot list transactions, and none of these folders has "
            f"kafka-clients-*.jar: {', '.join(map(str, folders))}"
        ),
        fix="Name a folder that has it: --kafka-clients /opt/kafka/libs; or run the command "
        "on a machine on which Spark's Kafka connector is installed or was used",
    )


def _places() -> Iterator[Path]:
    """Yield the folders to search, Spark's first: Spark's client is known to reach the cluster."""
    for home in spark_homes():
        yield home / "jars"
    if os.environ.get("KAFKA_HOME"):
        yield Path(os.environ["KAFKA_HOME"], "libs")
    for ivy in _IVY:
        yield Path(ivy).expanduser() / "jars"
        yield Path(ivy).expanduser() / "cache/org.apache.kafka/kafka-clients/jars"


def _find_jar(name: str, folder: Path) -> Path | None:
    jars = (_newest(place, name) for place in (folder, *(home / "jars" for home in spark_homes())))
    return next((jar for jar in jars if jar is not None), None)


def _newest(folder: Path, name: str) -> Path | None:
    no_others = "(?!.*(?:test|sources|javadoc))"  # jars of the same version that are not the client
    named = re.compile(rf"(?:[\w.]+_)?{name}-(\d+(?:\.\d+)*){no_others}[\w.+-]*\.jar")
    jars = [
        (tuple(map(int, match[1].split("."))), path)
        for path in folder.glob(f"*{name}-*.jar")
        if (match := named.fullmatch(path.name))
    ]
    return max(jars)[1] if jars else None
