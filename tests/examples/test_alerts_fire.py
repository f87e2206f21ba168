"""The alerts fire and clear: by promtool, and in a real Prometheus whose minutes are seconds."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from eo_listener.cli.group_status import GroupStatus
from eo_listener.cli.serve.command import Poller
from eo_listener.cli.serve.page_server import AllowedHosts, PageServer, respond
from eo_listener.cli.serve.watched import Watched
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.observers.metrics import counters
from tests.cli.serve.made_up import group
from tests.examples.driver import CLUSTER, TIMES, Driver, running
from tests.examples.monitoring import FOLDER, OR_NONE, alerts, commands, faster, queries
from tests.examples.scenarios import DAYS_TIMES, HOURS_AND_DAYS, HOURS_TIMES, MINUTES, Scenario
from tests.processes import finished
from tests.prometheus_server import PrometheusServer, programs, prometheus
from tests.waiting import until

_LONGEST = 150.0  # seconds for all to fire and to clear, on a busy machine
_HEALTHY = 8.0  # seconds; longer than most alerts take that a healthy driver might raise
_CLEAR = 2.0  # seconds in which nothing fires any more


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("test", "rules", "alerts_days_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    """The files are what Prometheus takes, and each alert fires and clears when it should."""
    answer = finished([programs() / "promtool", *arguments], cwd=FOLDER)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "SUCCESS" in answer.stdout


def test_every_alert_has_its_scenario() -> None:
    """And no scenario has one that is not there; each has a name of its own."""
    scenarios = (*MINUTES, *HOURS_AND_DAYS)
    brought_about = frozenset().union(*(one.alerts for one in scenarios))
    assert brought_about == {alert.name for alert in alerts()}
    assert len({one.name for one in scenarios}) == len(scenarios)


class Serve:
    """`eo-listener serve` over the groups of drivers; a reading a second."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = drivers
        watched = Watched(ClusterCommands(servers=CLUSTER), every=1.0, audit_every=None)
        self._poller = Poller(
            "groups", lambda: watched.try_groups(self), watched.groups_failed, every=1.0
        )
        self._server = PageServer(
            "127.0.0.1",
            0,
            lambda target: respond(watched.view(), [], target),
            AllowedHosts("127.0.0.1"),
        )

    def __enter__(self) -> int:
        self._server.start()
        self._poller.start()
        return self._server.port

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        assert self._poller.stop(10, lambda: None)

    def read(self) -> tuple[GroupStatus, ...]:
        """As a `StatusReader` would."""
        return tuple(
            group(one.name, [one.held], end=one.log_end, topic="t") for one in self._drivers
        )


@contextmanager
def scraped(
    folder: Path, drivers: Sequence[Driver], rules: Mapping[str, str]
) -> Iterator[PrometheusServer]:
    """A server with these rules that scrapes the drivers, and what `serve` says of their groups."""
    for name, text in rules.items():
        (folder / name).write_text(text)
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "250ms"}
    config["rule_files"] = list(rules)
    (job,) = config["scrape_configs"]
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{one.port}"], "labels": {"instance": one.name}} for one in drivers
    ]
    with Serve(drivers) as port:
        of_serve = [{"targets": [f"127.0.0.1:{port}"]}]
        config["scrape_configs"].append({"job_name": "serve", "static_configs": of_serve})
        with prometheus(folder, yaml.safe_dump(config), lookback="5s") as server:
            yield server


def of_drivers(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    sorted_out: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for one in found:
        labels = one.get("labels") or one["metric"]
        about = {labels[name] for name in ("consumergroup", "query", "instance") if name in labels}
        (driver,) = about or {"no driver"}  # where there is no target at all
        sorted_out[driver][labels["alertname"]] = one
    return sorted_out


def check_words(scenario: Scenario, firing: Mapping[str, Any]) -> None:
    """What its alerts say is whole, names the driver, and has commands."""
    whole = ""
    for name in scenario.alerts:
        said = firing[name]["annotations"]
        assert scenario.name in said["summary"]
        assert commands(said["description"])
        whole += f"{said['summary']}\n{said['description']}"
    for wrong in ("error expanding", "<no value>", "{{", "}}"):
        assert wrong not in whole
    assert scenario.says in whole, whole


def wait_for_all(
    scenarios: Sequence[Scenario], drivers: Mapping[str, Driver], server: PrometheusServer
) -> None:
    """End each scenario when its alerts fire; wait until none fires any more."""
    waiting = {one.name: one for one in scenarios if one.alerts}
    last_fired = time.monotonic()

    def is_clear() -> bool:
        nonlocal last_fired
        firing = of_drivers(server.firing())
        for name, one in list(waiting.items()):
            if one.alerts <= firing[name].keys():
                check_words(one, firing[name])
                one.end(drivers[name])
                del waiting[name]
        if any(firing.values()):
            last_fired = time.monotonic()
        return not waiting and time.monotonic() - last_fired > _CLEAR

    until(is_clear, _LONGEST, lambda: (list(waiting), of_drivers(server.firing())))


def bring_about(
    scenarios: Sequence[Scenario], drivers: Mapping[str, Driver], server: PrometheusServer
) -> None:
    """Begin all; each alert fires for the drivers that it is named for, and for no other."""
    until(lambda: len(server.query('up{job="eo_listener"} == 1')) == len(drivers))
    time.sleep(_HEALTHY)
    assert of_drivers(server.firing()) == {}
    with ThreadPoolExecutor(len(scenarios)) as pool:
        list(pool.map(lambda one: one.begin(drivers[one.name]), scenarios))
    wait_for_all(scenarios, drivers, server)
    fired = of_drivers(
        server.query('last_over_time(ALERTS{alertstate="firing",alertname=~"EoListener.*"}[10m])')
    )
    for one in scenarios:
        assert one.alerts <= fired[one.name].keys() <= one.alerts | one.beside, one.name
    assert fired.keys() <= drivers.keys()


@pytest.mark.slow
def test_within_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alert but two, in a driver that has its cause, and the dashboard shows it; no other."""
    monkeypatch.setattr(counters, "_OUTLIVED", counters._OUTLIVED / TIMES)
    drivers = {one.name: one.driver(one.name) for one in MINUTES}
    made = list(drivers.values())
    with running(made), scraped(tmp_path, made, {"alerts.yml": faster(TIMES)}) as server:
        bring_about(MINUTES, drivers, server)
        for query in queries():
            answers = server.query(f"max_over_time(({query})[10m:1s])")
            assert answers, query
            found = any(float(answer["value"][1]) > 0 for answer in answers)
            assert found or OR_NONE not in query, query
        check_scaling(server)


def check_scaling(server: PrometheusServer) -> None:
    """KEDA's query gives the lag of the one group that it asks for, as one number."""
    (trigger,) = yaml.safe_load((FOLDER / "keda.yml").read_text())["spec"]["triggers"]
    asked = trigger["metadata"]["query"]
    threshold = float(trigger["metadata"]["threshold"])
    for name, beyond in (("backlog", True), ("steady", False)):
        query = asked.replace("flights-to-pg", name)
        (answer,) = server.query(f"max_over_time(({query})[10m:1s])")
        assert (float(answer["value"][1]) > threshold) is beyond
    assert server.query(asked) == []  # a group that nobody commits is an error, not 0


@pytest.mark.slow
def test_within_hours_and_days(tmp_path: Path) -> None:
    """The other two; a query that is committed again every hour, idle or withheld, raises none."""
    drivers = {one.name: one.driver(one.name) for one in HOURS_AND_DAYS}
    made = list(drivers.values())
    rules = {
        "hours.yml": faster(HOURS_TIMES, "EoListenerCommitsStandStill"),
        "days.yml": faster(DAYS_TIMES, "EoListenerGroupExpires"),
    }
    with running(made), scraped(tmp_path, made, rules) as server:
        bring_about(HOURS_AND_DAYS, drivers, server)
        assert server.query('eo_listener_query_withheld_sources{query="withheld"} == 1')


@pytest.mark.slow
def test_the_page_of_an_alert_that_needs_no_driver(tmp_path: Path) -> None:
    """Without any target it says so, in words that make sense without one."""
    (tmp_path / "alerts.yml").write_text(faster(TIMES))
    config = {
        "global": {"evaluation_interval": "250ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [],
    }
    with prometheus(tmp_path, yaml.safe_dump(config), lookback="5s") as running_alone:
        until(running_alone.firing)
        (fired,) = running_alone.firing()
    assert fired["labels"]["alertname"] == "EoListenerTargetDown"
    assert fired["annotations"]["summary"] == "No metrics from any driver"
