"""Which releases there are and what they are made of."""

from __future__ import annotations

import pytest

from eo_listener.model.errors import SettingsError
from tests.broker.releases import DEFAULT, Release, known


def test_the_known_releases_hold_a_broker_its_tools_and_a_log_binding() -> None:
    """Without a binding for slf4j Kafka would log nothing."""
    assert known() == ("4.1.2", "3.9.2")
    assert DEFAULT in known()
    for version, binding in (("4.1.2", "log4j-slf4j-impl"), ("3.9.2", "slf4j-reload4j")):
        release = Release(version=version)
        names = " ".join(release.checksums or ())
        for part in (f"kafka_2.13-{version}", f"kafka-tools-{version}", f"{binding}-"):
            assert part in names
        assert {artifact.filename for artifact in release.artifacts} <= set(names.split())


def test_a_release_that_is_not_known_has_no_checksums() -> None:
    """It is fetched on Ivy's word and our own manifest."""
    assert Release(version="4.0.1").checksums is None


@pytest.mark.parametrize("version", ["", "4", "4.1", "latest", "4.1.2-rc1", "../4.1.2", "3.8.1"])
def test_what_cannot_be_started_is_refused(version: str) -> None:
    """The error lists the tested releases."""
    with pytest.raises(SettingsError, match=r"4\.1\.2, 3\.9\.2"):
        Release(version=version)
