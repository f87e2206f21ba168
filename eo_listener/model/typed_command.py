"""How a command is written that somebody is to type. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

CLIENT: Final = "-X"
STORAGE: Final = "--storage"
SPARK: Final = "--spark-conf"


def typed_command(
    words: Iterable[str], *repeated_options: str, arguments: Iterable[str] = ()
) -> str:
    """Quote a command for a shell; `arguments` come last, and may begin with a dash.

    `repeated_options` are options that were given to this command and that the other one needs
    too. Their values may be secret, so they are named in words.
    """
    last = list(arguments)
    dashes = ["--"] if any(argument.startswith("-") for argument in last) else []
    command = shlex.join(["eo-listener", *words, *dashes, *last])
    if not repeated_options:
        return command
    return f"{command} (with the same {' and '.join(repeated_options)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCommands:
    """Commands that ask one cluster.

    `servers` is None if no cluster was named. `client`: properties of a client were given;
    `storage`: options of a checkpoint's storage.
    """

    servers: str | None = None
    client: bool = False
    storage: bool = False

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str] | None, storage: Mapping[str, object] | None = None
    ) -> ClusterCommands:
        """For the cluster that a client of these properties asks."""
        client_properties = properties or {}
        return cls(
            servers=client_properties.get("bootstrap.servers"),
            client=bool(client_properties.keys() - {"bootstrap.servers"}),
            storage=bool(storage),
        )

    @property
    def address(self) -> str:
        """The servers, or what stands for them."""
        return self.servers or "HOST:PORT"

    def typed(
        self,
        words: Iterable[str],
        more: Iterable[str] = (),
        *,
        reads_checkpoint: bool = False,
        arguments: Iterable[str] = (),
    ) -> str:
        """A command: its name in `words`, `more` behind the servers, and `arguments` last."""
        every = (*words, "-b", self.address, *more)
        same = [CLIENT] if self.client else []
        same += [STORAGE] if self.storage and reads_checkpoint else []
        return typed_command(every, *same, arguments=arguments)

    def show_transactions(self, *more: str) -> str:
        """See whose transactions are open, and how each is ended."""
        return self.typed(["txn", "list"], more)

    def check_group(self, group: str) -> str:
        """See what the client may do with a group, and what else is wrong with it."""
        return self.typed(["preflight"], ["-g", group])
