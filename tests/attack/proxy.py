"""A proxy in front of a real broker that knows Kafka's protocol, and does what networks do."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from tests.attack.messages import Messages
from tests.attack.pipe import Pipe
from tests.attack.wire_faults import Action, Armed, Choice, Request
from tests.broker import Broker, Listener

LISTENER = "ATTACKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many requests of one api came, and how many of them a fault met."""

    seen: int
    faulted: int


@final
class Proxy:
    """One proxy for one node; `name` is that of the broker's listener, its own for each proxy."""

    def __init__(self, name: str = LISTENER) -> None:
        self._name = name
        self.messages = Messages()
        self._armed: list[Armed] = []
        self._seen: Counter[int] = Counter()
        self._faulted: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="attack-proxy")
        self._pipes: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._target: tuple[str, int] | None = None
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *raised: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        assert not self._failures, f"the proxy itself failed: {self._failures}"

    @property
    def address(self) -> str:
        """Where clients find it: "host:port"."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def listener(self) -> Listener:
        """What the broker must have: a listener whose clients are sent here."""
        return Listener(name=self._name, advertised=self.address)

    def forward(self, broker: Broker) -> None:
        host, _, port = broker.addresses(self._name).partition(":")
        self.messages = Messages(broker.release.version)
        self._target = (host, int(port))

    def arm(
        self,
        api: str,
        action: Action,
        *,
        nth: int = 1,
        times: int | None = 1,
        choice: Choice | None = None,
    ) -> Armed:
        """Prepare a fault for the `nth` request of an api from now on; `times` None: forever."""
        armed = Armed(self.messages.api(api), action, nth=nth, times=times, choice=choice)
        with self._lock:
            self._armed.append(armed)
        return armed

    def disarm(self) -> None:
        """Forget all faults, and let go of what they hold."""
        with self._lock:
            gone, self._armed = self._armed, []
        for armed in gone:
            armed.release()

    def forget_counts(self) -> None:
        with self._lock:
            self._seen.clear()
            self._faulted.clear()

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close_pipes(), self._loop).result(10)

    def counts(self) -> Mapping[str, Count]:
        """By api, what came through and what was met by a fault."""
        with self._lock:
            return {
                self.messages.api_name(api): Count(seen=seen, faulted=self._faulted[api])
                for api, seen in self._seen.items()
            }

    def meet(self, request: Request) -> Armed | None:
        """Count a request; return the fault that strikes it. For the pipes."""
        with self._lock:
            self._seen[request.api] += 1
            struck = [armed for armed in self._armed if armed.meets(request)]
            if struck:
                self._faulted[request.api] += 1
        return struck[0] if struck else None

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        opened = [writer]
        try:
            assert self._target is not None, "forward() was not called"
            upstream = await asyncio.open_connection(*self._target)
            opened.append(upstream[1])
            pipe = Pipe(next(self._numbers), (reader, writer), upstream, self.messages, self.meet)
            self._pipes.add(task)
            await pipe.run()
        except (OSError, asyncio.CancelledError):
            pass  # no broker there: as if nobody listened here; or this task is ended by us
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told at the end
            self._failures.append(error)
        finally:
            self._pipes.discard(task)
            for one in opened:
                one.close()

    async def _close_pipes(self) -> None:
        tasks = list(self._pipes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._close_pipes()
        if self._server is not None:
            await self._server.wait_closed()
        # One who connected at the last moment is no pipe yet.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close themselves in the turns after this
