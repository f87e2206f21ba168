"""Keys in every form, and a broker that they open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.secured import Keys, Secured, secured_broker
from tests.spark_session import spark

__all__ = ["spark"]  # a fixture, here for the tests of this folder


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Certificates and stores of this run."""
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def secured(keys: Keys) -> Iterator[Secured]:
    """One broker with every kind of lock, for all tests: users and rights stand, but bob's."""
    with secured_broker(keys) as broker:
        secured = Secured(broker, keys)
        secured.prepare()
        yield secured
