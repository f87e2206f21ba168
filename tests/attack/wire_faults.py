"""What can happen to one request on its way to Kafka and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from tests.attack.messages import Fields, Messages, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came from the client; `frame` is all of it but its length."""

    api: int
    version: int
    correlation: int
    client_id: str | None
    frame: bytes = field(repr=False)
    body: bytes = field(repr=False)
    connection: int

    @classmethod
    def parse(cls, frame: bytes, messages: Messages, connection: int) -> Request:
        """Read the header, as far as its version is known."""
        source = Source(frame)
        api, version = source.number("int16"), source.number("int16")
        correlation, length = source.number("int32"), source.number("int16")
        client_id = source.take(length).decode() if length >= 0 else None
        if messages.request(api).flexible(version):
            for _ in range(source.unsigned()):
                source.unsigned()
                source.take(source.unsigned())
        return cls(
            api=api,
            version=version,
            correlation=correlation,
            client_id=client_id,
            frame=frame,
            body=frame[source.at :],
            connection=connection,
        )

    def fields(self, messages: Messages) -> Fields:
        """What it asks, by the names in Kafka's definition."""
        return messages.request(self.api).decode(self.version, self.body)


class Way(Enum):
    REQUEST = "request"
    REPLY = "reply"


class Moment(Enum):
    BEFORE = "before the broker gets it"
    AFTER = "after the broker has answered, before the client gets it"
    WITHIN = "in the middle of the reply"


@dataclass(frozen=True, slots=True)
class Drop:
    """The request, or its reply, is lost; the connection stays."""

    way: Way


@dataclass(frozen=True, slots=True)
class Hold:
    """The request or its reply, and all behind it, is late by some seconds or until a release."""

    way: Way
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The broker gets the request twice; the client gets the first reply."""


@dataclass(frozen=True, slots=True)
class Cut:
    moment: Moment


@dataclass(frozen=True, slots=True)
class Refuse:
    """The client gets an error code; the broker gets only requests that read."""

    code: int


Action = Drop | Hold | Duplicate | Cut | Refuse
Choice = Callable[[Request], bool]


class Armed:
    """A fault that waits for the `nth` request of its api, and meets `times` (None: all)."""

    def __init__(
        self, api: int, action: Action, *, nth: int, times: int | None, choice: Choice | None
    ) -> None:
        self.action = action
        self.struck: list[Request] = []
        self._api = api
        self._first = nth
        self._last = None if times is None else nth + times - 1
        self._choice = choice
        self._seen = 0
        self._struck = threading.Event()
        self._released = threading.Event()

    def meets(self, request: Request) -> bool:
        """Count this request, and say whether the fault strikes it."""
        if request.api != self._api or (self._choice is not None and not self._choice(request)):
            return False
        self._seen += 1
        if self._seen < self._first or (self._last is not None and self._seen > self._last):
            return False
        self.struck.append(request)
        self._struck.set()
        return True

    @property
    def fired(self) -> int:
        return len(self.struck)

    def wait(self, timeout: float) -> bool:
        """Wait until it has struck; say whether it has."""
        return self._struck.wait(timeout)

    def release(self) -> None:
        """Let go of what it holds, now and later."""
        self._released.set()

    async def released(self, seconds: float | None) -> None:
        """Return when what it holds may go on."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while not self._released.is_set() and (until is None or loop.time() < until):
            await asyncio.sleep(0.01)
