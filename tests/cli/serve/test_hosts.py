"""DNS rebinding: for which names a request is answered."""

from __future__ import annotations

import pytest

from eo_listener.cli.serve.hosts import AllowedHosts
from eo_listener.model.errors import SettingsError


@pytest.mark.parametrize(
    ("address", "header", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:9405", True),
        ("127.0.0.1", "localhost:8080", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "[::1]:9405", True),
        ("127.0.0.1", "lag.example.com", True),
        ("127.0.0.1", "evil.example.com:9405", False),
        ("127.0.0.1", "127.0.0.1.evil.example.com", False),
        ("127.0.0.1", "localhost.evil.example.com", False),
        ("127.0.0.1", "10.0.0.7:9405", False),
        ("127.0.0.1", "evil@localhost", False),
        ("127.0.0.1", "localhost:9405:1", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[::1", False),
        ("10.0.0.7", "10.0.0.7:9405", True),
        ("0.0.0.0", "10.0.0.7:9405", True),  # noqa: S104  # what somebody may type
        ("0.0.0.0", "evil.example.com", False),  # noqa: S104  # what somebody may type
        ("::", "[fe80::1]:9405", True),
        ("::", "evil.example.com", False),
    ],
)
def test_only_our_own_names_are_served(address: str, header: str, allowed: bool) -> None:
    """A page of somebody else's can make its own name point here, but no other and no address."""
    assert AllowedHosts(address, ["lag.example.com"]).allows(header) is allowed


@pytest.mark.parametrize(
    "name", ["http://lag.example.com", "lag.example.com:80", "", "a b", "*.com"]
)
def test_a_name_that_is_none_is_wrong_use(name: str) -> None:
    """Also one with a port, which would never be compared."""
    with pytest.raises(SettingsError, match="--allow-host must be a host name"):
        AllowedHosts("127.0.0.1", [name])
