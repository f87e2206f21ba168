"""Prepare the storage of a node, once in its life, by Kafka's own StorageTool."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

from eo_listener.broker.storage import NodeFolder
from eo_listener.errors import BrokerError

PATIENCE: Final = 60.0  # seconds; it takes about one


def format_storage(command: Sequence[str], folder: NodeFolder) -> None:
    """Run the StorageTool's `command` for a node.

    Raises BrokerError with what the tool said; it also checks every property.
    """
    try:
        answer = subprocess.run(
            command,
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(
            f"Formatting {folder.records} took longer than {PATIENCE:.0f} s",
            fix="Try again when the machine has less to do",
        ) from error
    if answer.returncode == 0:
        return
    folder.output.write_text(answer.stdout)
    said = [line for line in answer.stdout.splitlines() if line.strip()]
    thrown = [line for line in said if "Exception" in line and not line.startswith("\t")]
    raise BrokerError(
        f"Kafka refused to format the storage of node {folder.node}",
        cause=(thrown or said or ["it printed nothing"])[-1],
        fix=f"Check the properties. Full output: {folder.output}",
    )
