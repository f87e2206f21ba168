"""How the commands of `eo-listener ledger` reach a cluster."""

from __future__ import annotations

import pytest

from eo_listener.cli.ledger_repair import client_properties
from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_address import LedgerAddress

LOGIN = ["sasl.username=al"]


@pytest.mark.parametrize(
    ("address", "servers", "found"),
    [
        ("kafka:l", "k:9092", {"bootstrap.servers": "k:9092", "sasl.username": "al"}),
        ("kafka://h:9092/l", None, {"bootstrap.servers": "h:9092", "sasl.username": "al"}),
        ("kafka://h:9092/l", "k:9092", {"bootstrap.servers": "h:9092", "sasl.username": "al"}),
    ],
)
def test_a_login_is_used_however_the_cluster_is_named(
    address: str, servers: str | None, found: dict[str, str]
) -> None:
    """By -b, or by the address of the ledger, which counts where both are given."""
    named = LedgerAddress.parse(address)
    properties = client_properties(named, servers, LOGIN)
    if named.servers is not None:
        properties = named.of_cluster(properties)
    assert properties == found


def test_a_login_without_a_cluster_is_refused() -> None:
    """Nobody would use it; without one there is no client."""
    named = LedgerAddress.parse("sqlite:a.db")
    assert client_properties(named, None, None) is None
    with pytest.raises(SettingsError):
        client_properties(named, None, LOGIN)
