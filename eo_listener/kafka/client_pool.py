"""What the three stores have in common: a client for each group, kept open up to a number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from eo_listener.kafka.logs import Logs

LIMIT = 128  # clients kept open on one cluster; each has two connections and four threads


class PooledClient(Protocol):
    """A client of one group."""

    @property
    def busy(self) -> bool:
        """Whether a request is out, so that it must not be closed."""
        ...

    def poll(self) -> None:
        """Serve its callbacks, and return at once."""
        ...

    def close(self) -> None:
        """Let go of its connections."""
        ...


_K = TypeVar("_K", bound=PooledClient)


class ClientPool(Generic[_K]):
    """One client a group, opened at its first use; beyond the limit groups take turns."""

    def __init__(self, open_client: Callable[[str], _K]) -> None:
        self._open = open_client
        self._clients: OrderedDict[str, _K] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def of(self, group: str) -> _K:
        """The client of this group."""
        client = self._clients.get(group)
        if client is None:
            client = self._clients[group] = self._open(group)
            self._close_idle()
        self._clients.move_to_end(group)
        return client

    def _close_idle(self) -> None:
        """Close the clients used longest ago, beyond those to keep, but none with a request out."""
        surplus = len(self._clients) - LIMIT
        idle = [group for group, client in self._clients.items() if not client.busy]
        for group in idle[: max(0, surplus)]:
            self._clients.pop(group).close()

    def poll(self) -> None:
        """Serve the clients' callbacks, which pile up otherwise."""
        for client in self._clients.values():
            client.poll()

    def close(self) -> None:
        """Close them all."""
        while self._clients:
            self._clients.popitem()[1].close()


class PooledGroupStore(Generic[_K]):
    """Base of the stores: the logs of a cluster, and a client for each of its groups."""

    def __init__(self, properties: Mapping[str, str], open_client: Callable[[str], _K]) -> None:
        self._logs = Logs(properties)
        self._clients = ClientPool(open_client)

    def poll(self) -> None:
        """Serve the clients' callbacks: they pile up otherwise, and a member is taken for hung."""
        self._clients.poll()
        self._logs.poll()

    def close(self) -> None:
        """Close all connections; waits some seconds for a commit that is still out.

        A member's place is kept for it until its session has ended.
        """
        self._clients.close()
        self._logs.close()
