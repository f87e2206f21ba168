"""A REST catalog whose server is of Iceberg 1.10 or before, while others write too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from eo_listener.errors import RetriableSinkError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.testing.made_up_entries import plan_of, rows_of
from tests.sinks.iceberg.batches import entry
from tests.sinks.iceberg.java_tables import Catalog, JavaSink
from tests.sinks.iceberg.rest_server import RestCatalog, rest_catalog
from tests.sinks.iceberg.test_publication import FOREIGN, check, each_way, write

pytestmark = pytest.mark.spark  # needs a JVM and its jars


@pytest.fixture
def rest(java: Catalog) -> Iterator[RestCatalog]:
    """The catalog over HTTP."""
    with rest_catalog(java) as catalog:
        yield catalog


@pytest.mark.slow
@each_way
def test_a_commit_that_is_called_malformed_is_a_conflict(
    java: Catalog, rest: RestCatalog, appends: bool
) -> None:
    """Another program appends before each of a batch's requests in turn: it is written once."""
    for overtaken in count(1):
        table = java.create()
        write(java, table, 0)
        rest.changes = 0

        def other(number: int, table: str = table, overtaken: int = overtaken) -> None:
            if number == overtaken:
                java.append(table, [FOREIGN])

        rest.before = other
        writer = SinkWriter(RetryLimits(timeout=5, first=0.01), time.sleep, time.monotonic)
        one = entry(1)
        writer.write(JavaSink(rest, table, appends=appends), rows_of(one), one, plan_of(one))
        if rest.changes < overtaken:
            break
        check(java, table, 0, 1, foreign=1)
        assert java.branches(table) == 1
    assert overtaken > 3
    assert rest.malformed >= (1 if appends else 2)


def test_it_is_judged_again_wherever_it_is_said(java: Catalog, rest: RestCatalog) -> None:
    """Of the rows of a batch, which is written once more; and of files that are added again."""
    table = java.create()
    write(java, table, 0)
    branches: dict[int, str] = {}

    def other(number: int) -> None:
        if number in branches:
            java.append(table, [FOREIGN], branch=branches[number])

    rest.before = other
    sink, one = JavaSink(rest, table), entry(1)
    rest.changes, branches = 0, {2: "main"}
    with pytest.raises(RetriableSinkError, match=r"another commit came first.*BadRequest"):
        sink.apply(rows_of(one), one, plan_of(one))
    assert rest.malformed == 1
    rest.changes, branches = 0, {3: "main", 4: "audit"}
    sink.apply(rows_of(one), one, plan_of(one))
    assert sink.written is not None
    assert sink.written.tries == 1, "nothing is computed again"
    assert rest.malformed == 2
    check(java, table, 0, 1, foreign=2)
