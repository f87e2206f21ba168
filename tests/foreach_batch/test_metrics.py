"""The example of docs/reference/metrics.md: one server for a query's group and for its sink."""

from __future__ import annotations

import re
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs
from tests.threads import none_left
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def lines(port: int, group: str) -> dict[str, float]:
    """What a scrape shows of the group and of the query's sink."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    told = re.findall(r"^eo_listener_(\w+){(.*)} (\S+)$", page, re.MULTILINE)
    return {name: float(number) for name, labels, number in told if group in labels}


def test_the_example_shows_group_and_sink(jobs: Jobs, topics: Topics, tmp_path: Path) -> None:
    """As it is written there, with its places put elsewhere: what SQLite got, beside the group."""
    topic, group = topics.create("metrics", partitions=1), unique("flights")
    topics.fill(topic, 5)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    listener = f"OffsetCommitListener(metrics_port={port}, preflight=False)"
    example = found[1].replace("OffsetCommitListener(metrics_port=9404)", listener)
    example = example.replace('"flights"', f'"{group}"')
    for place in ("flights.db", "checkpoint"):
        example = example.replace(f'"{place}"', repr(str(tmp_path / place)))
    flights = jobs.read(topic, **{"kafka.consumer.commit.groupid": group})
    names: dict[str, Any] = {"spark": jobs.spark, "flights": flights}
    with none_left():
        exec(compile(example, DOCUMENT.name, "exec"), names)  # noqa: S102  # the document's own
        told: dict[str, float] = {}
        deadline = time.monotonic() + 60
        while "consumergroup_current_offset" not in told and time.monotonic() < deadline:
            time.sleep(0.2)
            told = lines(port, group)
        names["query"].stop()
        jobs.spark.streams.removeListener(names["listener"])
        names["listener"].close()
        names["sink"].close()
    assert told["consumergroup_current_offset"] == 5
    assert told["sink_applied_offset"] == 5
    assert told["sink_rows_total"] == 5
    assert told["query_batch_id"] == 0
