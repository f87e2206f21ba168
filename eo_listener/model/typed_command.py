"""Commands of eo-listener, as a user runs them in a shell. No I/O."""

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
    """Return a command, quoted for a shell; `arguments` come last, and may begin with a dash.

    `repeated_options` are options of the running command that the returned command needs too. Their
    values may be secret, so the text only names the options.
    """
    last = list(arguments)
    dashes = ["--"] if any(argument.startswith("-") for argument in last) else []
    command = shlex.join(["eo-listener", *words, *dashes, *last])
    if not repeated_options:
        return command
    return f"{command} (with the same {' and '.join(repeated_options)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCommands:
    """The commands of eo-listener for one cluster.

    `servers` is None if no cluster was named. `client` is True if the user gave client properties,
    `storage` is True if the user gave options of a checkpoint's storage.
    """

    servers: str | None = None
    client: bool = False
    storage: bool = False

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str] | None, storage: Mapping[str, object] | None = None
    ) -> ClusterCommands:
        """Return the commands for the cluster that a client with these properties connects to."""
        client_properties = properties or {}
        return cls(
            servers=client_properties.get("bootstrap.servers"),
            client=bool(client_properties.keys() - {"bootstrap.servers"}),
            storage=bool(storage),
        )

    @property
    def address(self) -> str:
        """The servers, or a placeholder for them."""
        return self.servers or "HOST:PORT"

    def typed(
        self,
        words: Iterable[str],
        more: Iterable[str] = (),
        *,
        reads_checkpoint: bool = False,
        arguments: Iterable[str] = (),
    ) -> str:
        """Return a command: its name `words`, the servers, the options `more`, then `arguments`."""
        every = (*words, "-b", self.address, *more)
        same = [CLIENT] if self.client else []
        same += [STORAGE] if self.storage and reads_checkpoint else []
        return typed_command(every, *same, arguments=arguments)

    def show_transactions(self, *more: str) -> str:
        """Return the command that lists open transactions, their owners, and ways to end them."""
        return self.typed(["txn", "list"], more)

    def check_group(self, group: str) -> str:
        """Return the command that checks the client's rights on a group, and the group itself."""
        return self.typed(["preflight"], ["-g", group])
