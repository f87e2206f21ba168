"""One connection through the proxy: a client, a broker, and what happens between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.attack.messages import Messages
from tests.attack.replies import READS, Refusals
from tests.attack.wire_faults import Armed, Cut, Drop, Duplicate, Hold, Moment, Refuse, Request, Way

_LINGER = 10.0  # seconds that a broker gets to answer a client that has gone
_PREFIX = 4  # the length before each frame

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SeveredError(Exception):
    """A fault closes the connection."""


@dataclass(slots=True, eq=False)
class _Expected:
    """A reply that the client waits for, in its turn; `frame` is there once it is known."""

    request: Request
    armed: Armed | None
    frame: bytes | None = None
    swallow: bool = False
    at_broker: bool = True


class Pipe:
    """Passes frames on both ways; `meet` says which fault strikes a request."""

    def __init__(
        self,
        number: int,
        client: Streams,
        broker: Streams,
        messages: Messages,
        meet: Callable[[Request], Armed | None],
    ) -> None:
        self._number = number
        self._client_in, self._client_out = client
        self._broker_in, self._broker_out = broker
        self._messages = messages
        self._refusals = Refusals(messages)
        self._meet = meet
        self._expected: deque[_Expected] = deque()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Return when the connection has ended, on whatever side."""
        ways = (self._requests(), self._replies(), self._deliver())
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            expected = (SeveredError, OSError, asyncio.CancelledError)
            if isinstance(result, BaseException) and not isinstance(result, expected):
                raise result

    async def _requests(self) -> None:
        while (frame := await _read(self._client_in)) is not None:
            request = Request.parse(frame, self._messages, self._number)
            armed = self._meet(request)
            await self._forward(request, armed)
        # The client has gone. What was already on its way still arrives, and has its effect.
        deadline = asyncio.get_running_loop().time() + _LINGER
        while any(one.at_broker and one.frame is None for one in self._expected):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)

    async def _forward(self, request: Request, armed: Armed | None) -> None:
        expected = _Expected(request=request, armed=armed)
        match armed.action if armed else None:
            case Drop(way=Way.REQUEST):
                return
            case Cut(moment=Moment.BEFORE):
                raise SeveredError
            case Refuse(code=code) if self._messages.api_name(request.api) not in READS:
                expected.frame = self._refusals.reply(
                    request.api, request.version, request.correlation, request.body, code
                )
                expected.at_broker = False
            case Hold(way=Way.REQUEST, seconds=seconds):
                assert armed is not None
                await armed.released(seconds)
        self._expected.append(expected)
        self._changed.set()
        if not expected.at_broker:
            return
        await _write(self._broker_out, request.frame)
        if armed is not None and isinstance(armed.action, Duplicate):
            self._expected.append(_Expected(request=request, armed=None, swallow=True))
            await _write(self._broker_out, request.frame)

    async def _replies(self) -> None:
        while (frame := await _read(self._broker_in)) is not None:
            correlation = int.from_bytes(frame[:4], "big", signed=True)
            waiting = [one for one in self._expected if one.at_broker and one.frame is None]
            for one in waiting:
                if one.request.correlation == correlation:
                    one.frame = frame
                    break
                one.swallow, one.frame = True, b""  # a Produce with acks=0 is never answered
            self._changed.set()

    async def _deliver(self) -> None:
        while True:
            while self._expected and (frame := self._expected[0].frame) is not None:
                one = self._expected[0]
                if not one.swallow:
                    await self._answer(one, frame)
                self._expected.popleft()
            self._changed.clear()
            await self._changed.wait()

    async def _answer(self, one: _Expected, frame: bytes) -> None:
        match one.armed.action if one.armed else None:
            case Drop(way=Way.REPLY):
                return
            case Cut(moment=Moment.AFTER):
                raise SeveredError
            case Cut(moment=Moment.WITHIN):
                whole = len(frame).to_bytes(_PREFIX, "big") + frame
                self._client_out.write(whole[: _PREFIX + len(frame) // 2])
                await self._client_out.drain()
                raise SeveredError
            case Hold(way=Way.REPLY, seconds=seconds):
                assert one.armed is not None
                await one.armed.released(seconds)
            case Refuse(code=code) if one.at_broker:
                frame = self._refusals.spoil(one.request.api, one.request.version, frame, code)
        with contextlib.suppress(OSError):  # a client that has gone wants no reply
            await _write(self._client_out, frame)


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame without its length; None at the end."""
    try:
        length = int.from_bytes(await reader.readexactly(_PREFIX), "big")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return None


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(len(frame).to_bytes(_PREFIX, "big") + frame)
    await writer.drain()
