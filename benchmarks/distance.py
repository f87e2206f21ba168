"""A server that is further away: a proxy on loopback that delays each byte."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_READ: Final = 1 << 16


@contextmanager
def away(host: str, port: int, seconds: float) -> Iterator[int]:
    """A port on 127.0.0.1 that leads to `host`:`port`, `seconds` away in each direction."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="distance", daemon=True)
    thread.start()
    made = _served(host, port, seconds)
    server = asyncio.run_coroutine_threadsafe(made, loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(_end, loop, server)
        thread.join(10)


def _end(loop: asyncio.AbstractEventLoop, server: asyncio.Server) -> None:
    server.close()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_later(0.1, loop.stop)  # when they have heard of it


async def _served(host: str, port: int, seconds: float) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_carry(reader, back, seconds), _carry(there, writer, seconds))

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Pass on what comes, in its order, each part so much later."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while data := await reader.read(_READ):
            loop.call_later(seconds, writer.write, data)
    loop.call_later(seconds, writer.close)
