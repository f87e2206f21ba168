"""The messages between the JVM and the bridge, format 1: each is a JSON object on one line.

The lines are in UTF-8, and may contain the user's secrets.

The Java class `Message` implements the JVM's side of the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eo_listener.commit.tracking.event_buffer import Ended, Idle, Started
from eo_listener.errors import FormatError, SettingsError

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The JVM's first message. `conf` are the settings `spark.eo.*` of Spark's configuration."""

    shim: str
    conf: Mapping[str, str] = field(repr=False)
    debug: bool = False

    @classmethod
    def parse(cls, line: bytes) -> Hello:
        """Read the JVM's first line.

        Raises SettingsError if the shim has a different format, FormatError if the line has any
        other fault.
        """
        message = _object(line)
        if message.get("v") != FORMAT:
            raise SettingsError(
                f"the shim writes format {message.get('v')}, this package reads format {FORMAT}",
                cause="the jar given to Spark is a different version from this package",
                fix="Give Spark the jar that `eo-listener jar` names",
            )
        try:
            return cls(
                shim=str(message["shim"]),
                conf=dict(message["conf"]),
                debug=bool(message.get("debug")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable() from error


@dataclass(frozen=True, slots=True)
class Progressed:
    """The JVM reports that a batch has ended; `text` is the JSON of its StreamingQueryProgress."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ping:
    """The JVM asks whether the bridge is alive."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The JVM's answer to a question of the bridge: `text`, or `failed` with the reason."""

    number: int
    text: str | None = field(repr=False)
    failed: str | None


@dataclass(frozen=True, slots=True)
class End:
    """The JVM reports the end of the application, and waits `seconds` for the bridge."""

    seconds: float


FromJvm = Started | Progressed | Idle | Ended | Ping | Answer | End


def parse(line: bytes) -> FromJvm | None:
    """Read a line after the JVM's first line; return None for an unknown kind of message.

    Raises FormatError.
    """
    message = _object(line)
    try:
        match message:
            case {"progress": text}:
                return Progressed(str(text))
            case {"started": {"query": query_id, "run": run_id, "name": name}}:
                return Started(query_id, run_id, name)
            case {"idle": run_id}:
                return Idle(str(run_id))
            case {"ended": run_id}:
                return Ended(str(run_id))
            case {"ping": number}:
                return Ping(int(number))
            case {"answer": number}:
                return Answer(
                    number=int(number), text=message.get("text"), failed=message.get("failed")
                )
            case {"end": seconds}:
                return End(float(seconds))
    except (TypeError, ValueError) as error:
        raise _unreadable() from error
    return None


def greeting(*, package: str, flush: float, timeout: float) -> bytes:
    """Return the bridge's first line; `flush` and `timeout` are settings, in seconds."""
    return _line(v=FORMAT, package=package, flush=flush, timeout=timeout)


def pong(number: int) -> bytes:
    """Return the answer to the ping `number`."""
    return _line(pong=number)


def ask(number: int, question: str, *, run_id: str, call: str, argument: str) -> bytes:
    """Return a line that asks the JVM about a run.

    If `question` is "call", the line calls the function `call` of the shim's `ShimCalls`.
    """
    return _line(ask=number, what=question, run=run_id, call=call, argument=argument)


def forget(run_id: str) -> bytes:
    """Return the message that a run is settled: the bridge will not ask about the run again.

    The JVM may also drop the run's events.
    """
    return _line(forget=run_id)


def _line(**message: object) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise _unreadable() from error
    if not isinstance(message, dict):
        raise _unreadable()
    return message


def _unreadable() -> FormatError:
    """Return the error for an unreadable line, without the line, which may hold secrets."""
    return FormatError(
        "a line from Spark's JVM cannot be read",
        cause="the jar given to Spark is a different version from this package",
        fix="Give Spark the jar that `eo-listener jar` names",
    )
