"""What a listener is told by Spark's configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from eo_listener.commit.groups.policy import CommitMode, OnRewind, Policy
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.errors import SettingsError
from eo_listener.listener.settings import (
    _ARGUMENTS,
    _OTHERS,
    PREFIX,
    Guarding,
    Mode,
    Rewinding,
    Settings,
)
from eo_listener.model.argument_checks import require_observers


def test_every_argument_can_be_given_by_configuration() -> None:
    """Each key of the configuration reaches the setting of its name; other keys are Spark's."""
    settings = Settings.from_conf(
        {
            "spark.app.name": "job",
            "spark.eo.python": "/opt/python3",
            "spark.eo.groups": '{"q": {"t": "g", "*": "rest"}}',
            "spark.eo.group.template": "spark-{query_name}",
            "spark.eo.bootstrap.servers": "localhost:9092",
            "spark.eo.kafka.client.rack": "a",
            "spark.eo.mode": "transactional",
            "spark.eo.guard": "warn",
            "spark.eo.on.rewind": "allow",
            "spark.eo.recommit.interval": "2h",
            "spark.eo.flush.timeout": "1500ms",
            "spark.eo.bridge.timeout": "1m",
            "spark.eo.preflight": "false",
            "spark.eo.metrics.port": "9400",
            "spark.eo.metrics.address": "::1",
        }
    )
    assert settings == Settings(
        groups={"q": {"t": "g", "*": "rest"}},
        group_template="spark-{query_name}",
        kafka={"client.rack": "a", "bootstrap.servers": "localhost:9092"},
        mode=CommitMode.TRANSACTIONAL,
        guard=GuardMode.WARN,
        on_rewind=OnRewind.ALLOW,
        recommit_interval=7200.0,
        flush_timeout=1.5,
        bridge_timeout=60.0,
        preflight=False,
        metrics_port=9400,
        metrics_address="::1",
    )


def test_no_configuration_is_what_a_listener_without_arguments_has() -> None:
    """The defaults of the two ways are the same."""
    assert Settings.from_conf({}) == Settings.from_arguments() == Settings()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("spark.eo.gruops", "{}", "Write spark.eo.groups"),
        ("spark.eo.0123456789-0123456789", "1", "spark.eo.kafka.*"),
        ("spark.eo.mode", "members", "'member'"),
        ("spark.eo.recommit.interval", "soon", "30s or 1h"),
        ("spark.eo.recommit.interval", "0", "at least 1, got"),
        ("spark.eo.recommit.interval", "9999999999d", "at least 1, got"),
        ("spark.eo.metrics.port", "70000", "from 0 to 65535"),
        ("spark.eo.metrics.address", "", "the whole network"),
        ("spark.eo.metrics.address", " ", "the whole network"),
        ("spark.eo.recommit.interval", "3 weeks", "30s or 1h"),
        ("spark.eo.flush.timeout", "-1", "30s or 1h"),
        ("spark.eo.bridge.timeout", "500ms", "at least 1, got"),
        ("spark.eo.groups", "flights-to-pg", "must be a JSON object"),
        ("spark.eo.groups", "[]", "must be a JSON object"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_write(key: str, value: str, says: str) -> None:
    """The error names the key or the setting, and what would be right."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_conf({key: value})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"groups": "my-group"}, "group_template='group'"),
        ({"groups": ["q", "g"]}, "group_template='group'"),
        ({"groups": {"q": ["g"]}}, "consumer group"),
        ({"groups": {"q": {"t": 5}}}, "consumer group"),
        ({"group_template": 5}, "consumer group"),
        ({"bootstrap_servers": ["h:9092"]}, "Give 'host:9092'"),
        ({"bootstrap_servers": " "}, "Give 'host:9092'"),
        ({"kafka": None}, "as a dict"),
        ({"kafka": [("client.rack", "a")]}, "as a dict"),
        ({"kafka": {"linger.ms": 5}}, "must be strings"),
        ({"kafka": {5: "a"}}, "must be strings"),
        ({"mode": None}, "one of 'simple'"),
        ({"mode": ["simple"]}, "one of 'simple'"),
        ({"guard": True}, "one of 'withhold'"),
        ({"on_rewind": 1}, "one of 'refuse'"),
        ({"recommit_interval": "1h"}, "got '1h'"),
        ({"recommit_interval": float("inf")}, "got inf"),
        ({"recommit_interval": float("nan")}, "got nan"),
        ({"recommit_interval": 0.9}, "at least 1"),
        ({"recommit_interval": True}, "got True"),
        ({"flush_timeout": None}, "got None"),
        ({"flush_timeout": float("inf")}, "got inf"),
        ({"flush_timeout": -0.1}, "at least 0"),
        ({"bridge_timeout": 1e300}, "got 1e+300"),
        ({"preflight": "no"}, "must be True or False"),
        ({"metrics_port": "9404"}, "'9404'"),
        ({"metrics_port": True}, "from 0 to 65535, got True"),
        ({"metrics_port": -1}, "from 0 to 65535, got -1"),
        ({"metrics_port": 65536}, "from 0 to 65535, got 65536"),
        ({"metrics_address": None}, "the whole network"),
        ({"metrics_address": ""}, "the whole network"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_one_error(given: dict[str, Any], says: str) -> None:
    """It names the argument, and says what to give."""
    with pytest.raises(SettingsError) as refused:
        Settings.from_arguments(**given).routing  # noqa: B018  # groups are read there
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"recommit_interval": 1, "flush_timeout": 0, "bridge_timeout": 1.0},
        {"metrics_port": 0, "metrics_address": "0.0.0.0"},  # noqa: S104  # spelled out, it is meant
        {"metrics_port": 65535},
        {"kafka": {"oauth_cb": print, "client.rack": ""}, "preflight": False},
        {"mode": CommitMode.MEMBER, "guard": GuardMode.WARN},
    ],
)
def test_arguments_at_their_limits(given: dict[str, Any]) -> None:
    """The lowest and the highest value of each argument are accepted."""
    settings = Settings.from_arguments(**given)
    for name, value in given.items():
        assert getattr(settings, name) == value


@pytest.mark.parametrize("mode", CommitMode)
def test_only_a_transaction_needs_a_group_of_ascii(mode: CommitMode) -> None:
    """In the other modes any name that Kafka takes will do."""
    settings = Settings.from_conf(
        {"spark.eo.groups": '{"q": "spark-gr\u00fc\u00dfe"}', "spark.eo.mode": mode.value}
    )
    if mode is CommitMode.TRANSACTIONAL:
        with pytest.raises(SettingsError, match="printable ASCII only"):
            settings.routing  # noqa: B018  # groups are read there
    else:
        assert settings.routing.names.groups == {"q": "spark-gr\u00fc\u00dfe"}


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, Policy()),
        ({"on_rewind": "allow"}, Policy(on_rewind=OnRewind.ALLOW)),
        ({"guard": "warn", "on_rewind": "refuse"}, Policy(accept_marks=True)),
    ],
)
def test_marks_are_obeyed_by_a_guard_that_leaves_them(
    given: dict[str, Any], policy: Policy
) -> None:
    """One that does not withhold passes those of an earlier run; rewinds are asked for."""
    assert Settings.from_arguments(**given).policy == policy


@pytest.mark.parametrize("observers", [print, None, 5, [5], [print, "x"]])
def test_observers_are_a_list_of_functions(observers: Any) -> None:
    """Anything else is refused before something is opened."""
    with pytest.raises(SettingsError, match=r"observers=\[print\]|take an event"):
        require_observers(observers)
    assert require_observers(iter([print])) == (print,)


def test_the_choices_of_the_types_are_those_there_are() -> None:
    """What a type checker lets pass is what is accepted."""
    for literal, choice in ((Mode, CommitMode), (Guarding, GuardMode), (Rewinding, OnRewind)):
        assert set(get_args(literal)) == {one.value for one in choice}


def test_secrets_are_not_shown() -> None:
    """The properties, which hold passwords, are not in the repr."""
    settings = Settings.from_conf({"spark.eo.kafka.sasl.password": "hunter2"})
    assert "hunter2" not in repr(settings)


def test_the_document_names_every_key_and_its_default() -> None:
    """docs/reference/configuration.md lists exactly the known keys, each with its default."""
    text = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()
    table = text.partition("## Settings")[2].partition("## What")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    named = {key for keys, _ in rows for key in re.findall(r"`(.*?)`", keys)}
    assert named == {PREFIX + name for name in (*_ARGUMENTS, *_OTHERS, "kafka.*")}
    # Of a row with two keys the last; where nothing is in quotes the default is no fixed value.
    ends = [[re.findall(r"`([^`]*)`", cell)[-1:] for cell in row] for row in rows]
    defaults = {key[0]: default[0] for key, default in ends if default}
    assert len(defaults) > 5
    for key, default in defaults.items():
        assert Settings.from_conf({key: default}) == Settings(), key
