"""What rules, dashboard and their page name is there: metrics, labels, commands, sections."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from tests.documents.explained import alert_sections
from tests.documents.markdown import DOCS
from tests.documents.test_commands import parse
from tests.examples.monitoring import (
    FOLDER,
    Rule,
    alerts,
    commands,
    grouped,
    metrics,
    panels,
    queries,
    rules,
    selectors,
)

PAGE = DOCS / "reference" / "alerts.md"
of_each_alert = pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)


def check_names(expr: str) -> None:
    """Each series exists, has the labels it is chosen by, and some have those it is summed by."""
    known = metrics()
    named = selectors(expr)
    assert named
    for name, chosen in named:
        assert name in known, name
        assert chosen <= known[name], (name, chosen)
    assert grouped(expr) <= frozenset().union(*(known[name] for name, _ in named))


def test_a_name_that_is_wrong_is_found() -> None:
    """A metric, a label and a grouping that do not exist."""
    check_names('sum by (query) (rate(eo_listener_sink_batches_total{outcome="applied"}[5m]))')
    for wrong in (
        "rate(eo_listener_sink_batch_total[5m])",
        'eo_listener_sink_batches_total{result="applied"}',
        "sum by (topic) (eo_listener_sink_batches_total)",
        "summ(eo_listener_sink_batches_total)",
    ):
        with pytest.raises(AssertionError):
            check_names(wrong)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_each_rule_names_what_exists(rule: Rule) -> None:
    """Metrics and labels, by the families that are served."""
    check_names(rule.expr)


@of_each_alert
def test_each_alert_says_what_happened_why_and_what_to_type(alert: Rule) -> None:
    """In labels that its result has, with a severity, and a section of the page to read."""
    assert alert.labels["severity"] in {"page", "ticket"}
    assert set(alert.annotations) == {"summary", "description", "runbook"}
    text = alert.annotations["description"]
    assert text.index("Cause:") < text.index("Type")
    assert commands(text)
    shown = set(re.findall(r"\$labels\.(\w+)", " ".join(alert.annotations.values())))
    summed = grouped(alert.expr)
    has = frozenset().union(*(metrics()[name] for name, _ in selectors(alert.expr)))
    assert shown <= (summed if re.match(r"\s*(?:sum|max|time\(\) - max) by", alert.expr) else has)
    assert alert.annotations["runbook"] == f"docs/reference/alerts.md#{alert.name.lower()}"


def test_each_alert_has_its_section_and_its_test() -> None:
    """On the page, and in the files for promtool; no other has one."""
    names = [alert.name for alert in alerts()]
    assert list(alert_sections()) == names
    tested = "".join(path.read_text() for path in FOLDER.glob("*_test.yml"))
    fired = set(re.findall(r'alertname="(EoListener\w+)"\}\', value: [123]', tested))
    assert fired == set(names)


def test_the_page_names_what_exists() -> None:
    """Alerts, and metrics; each in its text too, and not only as a heading."""
    text = PAGE.read_text()
    assert set(re.findall(r"\bEoListener\w+", text)) == {alert.name for alert in alerts()}
    assert set(re.findall(r"\beo_listener_\w+", text)) <= set(metrics())


@of_each_alert
def test_a_section_says_what_the_alert_says(alert: Rule) -> None:
    """It has the alert's commands, and its severity."""
    section = alert_sections()[alert.name]
    assert section.severity == alert.labels["severity"]
    for line in commands(alert.annotations["description"]):
        plain = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: PLACES[found[1]], line)
        assert any(f"{one} ".startswith(f"{plain} ") for one in section.commands), plain


PLACES = {"cluster": "SERVERS", "consumergroup": "GROUP", "query": "QUERY"}


def test_each_command_can_be_typed() -> None:
    """Its subcommand and its options exist, and none that must be given is missing."""
    texts = [alert.annotations["description"] for alert in alerts()]
    lines = {line for text in [*texts, PAGE.read_text()] for line in commands(text)}
    assert len(lines) > 8
    for line in lines:
        parse(shlex.split(re.sub(r"\{\{ \$labels\.\w+ \}\}", "x", line))[1:], whole=True)


def test_the_dashboard_asks_for_what_exists() -> None:
    """In few panels, the full width of a phone each, with a title and a unit."""
    for query in queries():
        check_names(query)
    assert 5 < len(panels()) < 10
    for panel in panels():
        assert panel["title"]
        assert panel["gridPos"]["w"] == 24
        assert panel["fieldConfig"]["defaults"]["unit"] in {"short", "s"}
        assert panel["datasource"]["uid"] == "${datasource}"


def test_the_other_files_fit_the_rules() -> None:
    """The job that is watched is the one that is scraped; KEDA asks for a metric that exists."""
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert scraped["rule_files"] == ["alerts.yml"]
    (job,) = scraped["scrape_configs"]
    (down,) = [alert for alert in alerts() if alert.name == "EoListenerTargetDown"]
    assert f'up{{job="{job["job_name"]}"}} == 0' in down.expr
    scaled = yaml.safe_load((FOLDER / "keda.yml").read_text())["spec"]
    (trigger,) = scaled["triggers"]
    check_names(trigger["metadata"]["query"])


def test_the_expressions_of_the_page_of_metrics() -> None:
    """Each useful expression of docs/reference/metrics.md names metrics that exist."""
    text = (PAGE.parent / "metrics.md").read_text()
    table = text.partition("## Useful expressions")[2]
    found = re.findall(r"^\| (?!value )[^|]+ \| `(.+?)`", table, re.MULTILINE)
    assert len(found) > 8
    for expr in found:
        check_names(expr)


def test_every_counter_is_watched_for_news_in_the_same_way() -> None:
    """What promtool shows of one of the recorded series then holds for all of them."""
    forms = set()
    for rule in rules():
        if rule.name.endswith(":new30m"):
            counter = f"eo_listener_{rule.name.split(':')[1]}_total"
            assert rule.expr.count(counter) == 4
            forms.add(rule.expr.replace(counter, "COUNTER"))
    assert len(forms) == 1


def test_recorded_series_are_used() -> None:
    """Each by an alert, and their names say what they are of."""
    used = " ".join(alert.expr for alert in alerts())
    for rule in rules():
        if not rule.is_alert:
            assert rule.name in used
            assert re.fullmatch(r"eo_listener:\w+:(?:new30m|rate5m)", rule.name)
