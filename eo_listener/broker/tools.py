"""Run Kafka's own command-line programs, whose word counts more than ours."""

from __future__ import annotations

import subprocess
from typing import Final

from eo_listener import java
from eo_listener.broker.commands import Commands
from eo_listener.broker.versions import DEFAULT, Release
from eo_listener.errors import BrokerError

PATIENCE: Final = 60.0  # seconds; the program itself gives up on a silent broker after 5


def commands(version: str = DEFAULT) -> Commands:
    """Return how to run the programs of a release. Raises JavaError and DownloadError."""
    release = Release(version=version)
    return Commands(java=java.find(), release=release, jars=release.jars())


def consumer_groups(program: Commands, bootstrap_servers: str, group: str, *arguments: str) -> str:
    """Return what `kafka-consumer-groups --describe` prints for a group (about 1.5 s).

    `arguments` are further ones, such as `--state` or `--command-config FILE`.
    Raises BrokerError when it fails; a group that does not exist is such a failure.
    """
    command = program.consumer_groups(bootstrap_servers, "--describe", "--group", group, *arguments)
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(
            f"kafka-consumer-groups did not end within {PATIENCE:.0f} s",
            cause=f"{bootstrap_servers} may not answer",
            fix="Check that the broker runs",
        ) from error
    said = f"{answer.stdout}\n{answer.stderr}"
    failures = [line.strip() for line in said.splitlines() if line.startswith("Error: ")]
    if answer.returncode != 0 or failures:
        lines = failures or [line.strip() for line in said.splitlines() if line.strip()]
        raise BrokerError(
            f"kafka-consumer-groups could not describe the group {group!r}",
            cause=(lines or ["it printed nothing"])[0],
            fix=f"Check the group's name and that {bootstrap_servers} answers",
        )
    return answer.stdout.strip("\n") + "\n"
