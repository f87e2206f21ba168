"""A broker that outlives the command that started it."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs
import psutil
from filelock import FileLock, Timeout

from tests.artifacts import CACHE_VARIABLE, cache_folder
from tests.broker.broker import STOP_TIMEOUT, Broker
from tests.broker.errors import BrokerError
from tests.broker.record import NodeRecord, Record, not_ours
from tests.broker.releases import DEFAULT
from tests.broker.storage import make_folder

NAME: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedBroker:
    """The broker that now runs, and whether it did so before."""

    record: Record
    already: bool


def default_data() -> Path:
    """Return where a broker keeps its data: beside the cache where that was named."""
    if os.environ.get(CACHE_VARIABLE):
        return cache_folder() / "broker" / NAME
    return platformdirs.user_data_path("eo-listener") / "broker" / NAME


def start(
    data: Path,
    *,
    version: str | None = None,
    nodes: int | None = None,
    port: int | None = None,
    properties: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> StartedBroker:
    """Start a broker on `data`, unless one runs there, and let it live on.

    What is None is of no matter to a broker that runs, and is the default of one that is started.
    Raises what `Broker.start` raises, and BrokerError when another one than this runs there.
    """
    broker = Broker(
        version=DEFAULT if version is None else version,
        nodes=1 if nodes is None else nodes,
        port=port,
        properties=properties,
        data=data,
        on_progress=on_progress,
    )
    make_folder(data)
    with _alone(data):
        earlier = Record.read(data)
        if earlier is not None and earlier.running():
            difference = earlier.difference(
                version=version, nodes=nodes, port=port, properties=properties or {}
            )
            if difference is not None:
                raise BrokerError(
                    f"The broker on {data} runs already, {difference}",
                    fix=f"Stop it first: {stop_command(data)}",
                )
            return StartedBroker(record=earlier, already=True)
        broker.start()
        record = broker.record()
        record.write()
        broker.detach()
        return StartedBroker(record=record, already=False)


def stop(data: Path) -> tuple[NodeRecord, ...]:
    """End the broker that runs on `data`; return the nodes that ran, none when nothing did.

    Raises BrokerError when a process does not end, or a broker is just being started there.
    """
    if not data.is_dir():
        return ()
    with _alone(data):
        record = Record.read(data)
        return () if record is None else _end(record)


def _end(record: Record) -> tuple[NodeRecord, ...]:
    ended = record.running()
    processes = [process for node in ended if (process := node.process()) is not None]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself meanwhile
            process.terminate()
            process.resume()  # one that is held could not hear
    _, left = psutil.wait_procs(processes, timeout=STOP_TIMEOUT)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _, left = psutil.wait_procs(left, timeout=5)
    if left:
        raise BrokerError(
            f"Process {left[0].pid} did not end",
            cause="the system did not end it even by force",
            fix=f"Inspect it with: ps -o stat,cmd {left[0].pid}",
        )
    record.remove()
    return ended


def stop_command(data: Path) -> str:
    """Return what to type to end the broker on `data`."""
    own = data == default_data().absolute()
    return "eo-listener broker stop" + ("" if own else f" --data {shlex.quote(str(data))}")


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[None]:
    try:
        held = FileLock(data / ".lock").acquire(blocking=False)
    except PermissionError as error:
        raise not_ours(data) from error
    except Timeout:
        raise BrokerError(
            f"A broker is just being started or stopped on {data}",
            fix="Try again in a moment, or name another folder with --data",
        ) from None
    with held:
        yield
