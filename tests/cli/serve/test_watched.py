"""What is watched: what goes to the log, and what a fault of one part does to the others."""

from __future__ import annotations

import logging

import pytest

from eo_listener.cli.serve.audit_reading import AuditReading
from eo_listener.cli.serve.readings import Reading, Unknown
from eo_listener.cli.serve.watched import Watched
from eo_listener.model.errors import KafkaError, MissingExtraError
from tests.cli.serve.made_up import CLUSTER, Clock, FakeReader, group, watched


def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it begins, when it becomes another, and when it has passed; as text that is safe."""
    made, reader, _ = watched([group("g")])
    caplog.set_level(logging.INFO, logger="eo_listener")
    for error in ("away\x1b[31m", "away\x1b[31m", "refused"):
        reader.found = KafkaError(error, code="_TRANSPORT")
        for _ in range(3):
            made.try_groups(reader)
    reader.found = [group("g")]
    for _ in range(2):
        made.read_groups(reader)
    said = [record.getMessage().partition(". Fix")[0] for record in caplog.records]
    assert said == [
        "the groups cannot be read: away\\x1b[31m",
        "the groups cannot be read: refused",
        "the groups can be read again",
    ]


def test_an_error_names_the_options_to_check() -> None:
    """As `status` does; also where it is raised, at the start."""
    made = Watched(CLUSTER, every=10.0, audit_every=None)
    reader = FakeReader()
    reader.found = KafkaError("refused", code="SASL_AUTHENTICATION_FAILED")
    with pytest.raises(KafkaError, match="-b/--bootstrap-server, -X"):
        made.read_groups(reader)
    made.try_groups(reader)
    known = made.view().groups
    assert isinstance(known, Unknown)
    assert "-b/--bootstrap-server, -X" in known.error


def test_an_audit_that_fails_hides_no_groups() -> None:
    """And groups that cannot be read hide no audit: each is known for itself."""
    clock = Clock()
    made = Watched(CLUSTER, every=10.0, audit_every=60.0, now=clock)
    made.read_groups(FakeReader([group("g")]))

    class Reader:
        def read(self) -> AuditReading:
            raise MissingExtraError("reading", package="psycopg", extra="postgres")

    made.read_audit(Reader())
    view = made.view()
    assert isinstance(view.groups, Reading)
    assert isinstance(view.audit, Unknown)
    assert [one.about for one in view.errors] == ["audit"]


def test_a_group_that_could_not_be_read_is_not_gone() -> None:
    """Only one that was read, and holds nothing any more."""
    made, reader, _ = watched([group("g")])
    reader.found = [group("g", (), error="its coordinator does not answer")]
    made.read_groups(reader)
    assert made.view().gone == {}
    reader.found = [group("g", ())]
    made.read_groups(reader)
    assert list(made.view().gone) == ["g"]


def test_a_reading_that_was_interrupted_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C says nothing of what it has broken off."""
    made, reader, _ = watched([group("g")])
    made.close()
    reader.found = KafkaError("reading groups failed", code="_DESTROY")
    made.try_groups(reader)
    assert not caplog.records


def test_nobody_who_asks_reads() -> None:
    """A hundred views are of one reading."""
    made, reader, _ = watched([group("g")])
    for _ in range(100):
        made.view()
    assert reader.readings == 1
