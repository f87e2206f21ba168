"""Ports: choose free ones, and say who holds one that was asked for."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Mapping
from typing import Final

import psutil

from eo_listener.model.errors import SettingsError
from tests.broker.errors import BrokerError
from tests.broker.listeners import HOST

# Below the range from which Linux and macOS take the ports of outgoing connections. Inside it
# a client that retries while its broker is down can be given the broker's own port, and then
# connects to itself.
LOWEST: Final = 20_000
HIGHEST: Final = 30_000


def assign(
    nodes: int, named: Mapping[str, int | None], previous: Mapping[int, Mapping[str, int]]
) -> dict[int, dict[str, int]]:
    """Give each node (from 1) a port for every listener in `named`.

    A named port is that of node 1, the next nodes take the next ports; it must be free.
    Without a name the `previous` one is taken again when it is free, else any free one.
    """
    chosen: dict[int, dict[str, int]] = {}
    used: set[int] = set()
    for name, port in named.items():
        if port is not None:
            used |= {require_free(port + step, name) for step in range(nodes)}
    for node in range(1, nodes + 1):
        chosen[node] = {}
        for name, port in named.items():
            if port is not None:
                number = port + node - 1
            else:
                number = _free(previous.get(node, {}).get(name), used)
            used.add(number)
            chosen[node][name] = number
    return chosen


def require_free(port: int, listener: str) -> int:
    """Return `port` when it can be listened on.

    Raises SettingsError if it is out of range, BrokerError naming the process that holds it.
    """
    if not 1 <= port <= 65535:
        raise SettingsError(
            f"the port must be from 1 to 65535, got {port}", fix="Give --port another one"
        )
    error = _bind(port)
    if error is not None:
        if error.errno == errno.EADDRINUSE:
            problem, cause = f"Port {port} is in use", _holder(port)
        else:
            problem, cause = f"Port {port} cannot be used", str(error.strerror)
        raise BrokerError(
            f"{problem} (listener {listener})",
            cause=cause,
            fix="Choose another with --port, or leave it out to take a free one",
        ) from error
    return port


def _free(previous: int | None, used: set[int]) -> int:
    tries = [previous] if previous is not None else []
    tries += random.sample(range(LOWEST, HIGHEST), 200)
    for port in tries:
        if port not in used and _bind(port) is None:
            return port
    raise BrokerError(
        f"No free port between {LOWEST} and {HIGHEST} was found",
        fix="End processes that listen there, or name a port with --port",
    )


def _bind(port: int) -> OSError | None:
    """Return why `port` cannot be listened on, None when it can."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError as error:
        return error
    return None


def _holder(port: int) -> str:
    try:
        connections = psutil.net_connections(kind="tcp")
        for connection in connections:
            here = connection.laddr and connection.laddr.port == port
            if here and connection.status == psutil.CONN_LISTEN and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f"process {connection.pid} ({name}) listens on it"
    except psutil.Error:
        pass  # macOS lets only root see this; the message stands without it
    return "another process listens on it"
