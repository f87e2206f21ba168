"""Ports are chosen free, and one that is taken is said with its holder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from eo_listener.model.errors import SettingsError
from tests.broker import ports
from tests.broker.errors import BrokerError


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_free_ports_are_all_different() -> None:
    """Three nodes with two listeners each get six ports below the range of outgoing ones."""
    chosen = ports.assign(3, {"A": None, "B": None}, {})
    numbers = [port for own in chosen.values() for port in own.values()]
    assert len(set(numbers)) == 6
    assert all(ports.LOWEST <= port < ports.HIGHEST for port in numbers)


def test_the_port_of_an_earlier_start_is_taken_again_only_when_free(taken: int) -> None:
    """Clients may remember a port, but one that is taken is not waited for."""
    free = ports.assign(1, {"A": None}, {})[1]["A"]
    assert ports.assign(1, {"A": None}, {1: {"A": free}})[1]["A"] == free
    assert ports.assign(1, {"A": None}, {1: {"A": taken}})[1]["A"] != taken


def test_a_named_port_in_use_is_said_with_its_holder(taken: int) -> None:
    """The error names the port, the process that holds it, and the option."""
    with pytest.raises(BrokerError, match="--port") as caught:
        ports.assign(1, {"PLAINTEXT": taken}, {})
    assert f"Port {taken} is in use" in caught.value.problem
    assert str(os.getpid()) in str(caught.value.cause)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port: int) -> None:
    """Numbers outside 1 to 65535 raise SettingsError."""
    with pytest.raises(SettingsError, match="must be from 1 to 65535"):
        ports.assign(1, {"A": port}, {})
