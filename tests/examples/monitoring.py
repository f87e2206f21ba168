"""The files of examples/monitoring: rules, dashboard, and which metrics an expression names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, InfoMetricFamily

from eo_listener.observers.metrics.counters import Numbers
from eo_listener.observers.metrics.families import Families, StatusNumbers, status_families
from tests.examples.program import EXAMPLES

FOLDER = EXAMPLES / "monitoring"
OR_NONE = " or vector(0)"  # of a query whose answer is 0 where there is no trouble
TARGET = frozenset({"job", "instance"})  # the labels that Prometheus gives each series of a target
_OF_OTHERS: Mapping[str, frozenset[str]] = {
    "up": TARGET,
    "ALERTS": TARGET | {"alertname", "alertstate"},
    "kafka_consumergroup_lag": TARGET | {"consumergroup", "topic", "partition"},
}
_WORDS = frozenset(
    {
        *("sum", "max", "count", "by", "on", "ignoring", "group_left", "and", "or", "unless"),
        *("offset", "time", "vector", "absent", "increase", "rate", "delta", "clamp_min"),
        *("avg_over_time", "last_over_time", "changes"),
    }
)


@dataclass(frozen=True)
class Rule:
    """A rule of alerts.yml; `name` is that of the alert or of the recorded series."""

    name: str
    expr: str
    is_alert: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def rules() -> list[Rule]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [
        Rule(
            name=one.get("alert") or one["record"],
            expr=one["expr"],
            is_alert="alert" in one,
            labels=one.get("labels", {}),
            annotations=one.get("annotations", {}),
        )
        for one in group["rules"]
    ]


def alerts() -> list[Rule]:
    return [rule for rule in rules() if rule.is_alert]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return found


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def commands(text: str) -> list[str]:
    """The lines that somebody types."""
    return re.findall(r"^ *\$? *(eo-listener .*?)(?: +# .*)?$", text, re.MULTILINE)


def metrics() -> dict[str, frozenset[str]]:
    """The labels of each series that can be asked for, ours and those of others that rules use."""
    known = dict(_OF_OTHERS)
    of_serve = status_families(StatusNumbers(cluster=""), 0)
    for family in (*Families(0).draw(Numbers()), *of_serve):
        labels = TARGET | frozenset(getattr(family, "_labelnames", ()))
        known |= dict.fromkeys(_series(family), labels)
    for rule in rules():
        if not rule.is_alert:
            named = [known[name] for name, _ in selectors(rule.expr)]
            known[rule.name] = frozenset().union(*named)
    return known


def _series(family: Metric) -> Iterator[str]:
    if isinstance(family, CounterMetricFamily):
        yield f"{family.name}_total"
    elif isinstance(family, InfoMetricFamily):
        yield f"{family.name}_info"
    elif family.type == "histogram":
        yield from (f"{family.name}_{part}" for part in ("bucket", "sum", "count"))
    else:
        yield family.name


def selectors(expr: str) -> list[tuple[str, frozenset[str]]]:
    """Each series that an expression asks for, with the labels that it is chosen by."""
    bare = re.sub(r"\b(?:by|on|ignoring|group_left) *\([^)]*\)", "", expr)
    bare = re.sub(r"\[\w+\]|\b\d\w*", "", bare)  # durations and numbers
    found = re.findall(r"([A-Za-z_:][\w:]*)(?:\{([^}]*)\})?", bare)
    return [
        (name, frozenset(re.findall(r"(\w+) *(?:=~|!~|!=|=)", chosen)))
        for name, chosen in found
        if name not in _WORDS
    ]


def grouped(expr: str) -> frozenset[str]:
    """The labels by which an expression sums or matches."""
    lists = re.findall(r"\b(?:by|on|ignoring) *\(([^)]*)\)", expr)
    return frozenset(label.strip() for one in lists for label in one.split(",") if label.strip())


_TIMES = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"\b(\d+)(s|m|h|d)\b")
_IN_TEXT = re.compile(r"(?<=\[)(\d+)(s|m|h|d)(?=\])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_AGES = frozenset({"300", "900", "1800", "3600", "86400"})  # compared with ages, or divided by
_SHARES_AND_COUNTS = frozenset({"0", "0.01", "0.5", "2", "3", "5", "10"})


def faster(times: int, *names: str) -> str:
    """alerts.yml, or these of its alerts, for a world whose minute is a minute through `times`."""

    def shorter(found: re.Match[str]) -> str:
        return f"{int(found[1]) * _TIMES[found[2]] // times}ms"

    def sooner(found: re.Match[str]) -> str:
        assert found[0] in _AGES | _SHARES_AND_COUNTS, found
        return f"{int(found[0]) / times:g}" if found[0] in _AGES else found[0]

    whole = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    (group,) = whole["groups"]
    group["rules"] = [one for one in group["rules"] if not names or one.get("alert") in names]
    for rule in group["rules"]:
        rule["expr"] = _DURATION.sub(shorter, _NUMBER.sub(sooner, rule["expr"]))
        if "for" in rule:
            rule["for"] = _DURATION.sub(shorter, rule["for"])
        for name, text in rule.get("annotations", {}).items():  # it may ask Prometheus too
            rule["annotations"][name] = _IN_TEXT.sub(shorter, text)
    return str(yaml.safe_dump(whole))
