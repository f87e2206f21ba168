"""Every query of the dashboard has data in the demo, which a real Prometheus scrapes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.broker import free_port
from tests.examples.demo.program import PATIENCE, Demo
from tests.examples.monitoring import FOLDER, OR_NONE, queries
from tests.prometheus_server import PrometheusServer, prometheus
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]

_LONGEST = 150.0  # seconds until the demo's query has run some batches


def config(port: int) -> str:
    """prometheus.yml for that port, scraped twice a second."""
    given = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    given["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    given["rule_files"] = [str(FOLDER / "alerts.yml")]
    given["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    return str(yaml.safe_dump(given))


def without_data(server: PrometheusServer) -> list[str]:
    """The queries that have no answer; not of those that are 0 where there is no trouble."""
    return [query for query in queries() if OR_NONE not in query and not server.query(query)]


def test_every_query_has_data_in_the_demo(tmp_path: Path) -> None:
    """Groups, queries and the sink; what counts trouble is 0, no alert fires, KEDA has its lag."""
    port = free_port()
    arguments = ("--sink", "sqlite", "--rows", "60000", "--rate", "3000")
    with (
        prometheus(tmp_path, config(port)) as server,
        Demo(*arguments, "--json", "--metrics-port", str(port)) as running,
    ):

        def has_data() -> bool:
            left = without_data(server)
            assert not left or running.code() is None, (left, running.errors)
            return not left

        until(has_data, _LONGEST, lambda: without_data(server))
        for query in queries():
            if OR_NONE in query:
                (none,) = server.query(query)
                assert none["value"][1] == "0", query
        scaled = yaml.safe_load((FOLDER / "keda.yml").read_text())["spec"]["triggers"][0]
        asked = scaled["metadata"]["query"].replace("flights-to-pg", "flights-demo")
        assert len(server.query(asked)) == 1
        assert server.firing() == []
        assert running.ending(seconds=PATIENCE)[0] == 0, running.errors
        assert running.left() == []
