"""What each command refuses before it asks anybody, or when nobody answers: one error."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.commands import error_of
from tests.cli.test_main import typed

AWAY = "-b 127.0.0.1:1"
FOLLOW = "follow /c -b h:1 -g g"
SERVE = "serve g -b k:9092"

WRONG = [
    (f"status {AWAY}", "groups"),
    (f"status g --all {AWAY}", "--all"),
    (f"status g {AWAY} --watch inf", "inf"),
    (f"status g {AWAY} --watch nan", "nan"),
    ("status g -b host:abc", "host:port"),
    (f"status ' ' {AWAY}", "group"),
    (f"status g {AWAY} -X nosuch=1", "nosuch"),
    (f"status g {AWAY} -X bootstrap.servers=x:1", "-b"),
    (f"status g {AWAY} -X nothing", "key=value"),
    ("audit", "--checkpoint FOLDER"),
    ("audit -g g", "-b HOST:PORT"),
    ("audit --ledger mysql://u:hidden@h/d", "sqlite:FILE"),
    ("audit --ledger kafka://u:hidden@h:9092/t", "sqlite:FILE"),
    ("audit --ledger kafka:eo-ledger", "kafka://HOST:PORT/eo-ledger"),
    ("audit -c /c --rows --columns a,b", "three columns"),
    ("audit -c /c -b nowhere", "host:port"),
    ("preflight -g g", "-b HOST:PORT"),
    (f"preflight {AWAY} -g ' '", "group"),
    (f"preflight {AWAY} --mode fast", "transactional"),
    (f"preflight {AWAY} -X nosuch=1", "nosuch"),
    ("preflight --sink nosuch", "job:delays"),
    ("preflight --sink :x", "job:delays"),
    ("preflight --sink no_such_module.sinks:x", "no module no_such_module"),
    ("preflight --sink tests.cli.commands:no_such_sink", "has no no_such_sink"),
    ("preflight --sink tests.cli.commands:invoke", "of type function"),
    ("preflight --sink eo_listener:KafkaSink", "of type type"),
    ("preflight --spark-conf x", "spark.key=value"),
    (f"group seed '' --from-time 0 {AWAY}", "group"),
    (f"group seed g --from-time 0 --watch nan {AWAY}", "--watch"),
    (f"group import g /no/such --missing x {AWAY}", "--missing"),
    (f"group export g g {AWAY}", "twice"),
    (f"group export g --times {AWAY}", "--format json"),
    ("audit -c /no/such --wait 5", "-g GROUP"),
    (f"audit -g g --wait -1 {AWAY}", "--wait"),
    ("follow", "checkpoint"),
    ("follow /c -g g", "-b HOST:PORT"),
    ("follow /c -b h:1", "-g GROUP"),
    ("follow /c -b h -g g", "host:port"),
    ("follow /c -b h:1 -g t=", "group"),
    ("follow /c /c/ -b h:1 -g g", "twice"),
    ("follow /c /d -b h:1 -g g --name q", "--config"),
    ("follow /c --config x.toml", "--config"),
    ("follow --config nosuch.toml", "nosuch.toml"),
    ("follow nosuch://b/c -b h:1 -g g", "nosuch://"),
    ("follow '' -b h:1 -g g", "URL"),
    (f"{FOLLOW} -g h", "two groups"),
    (f"{FOLLOW} -X nosuch=1", "nosuch"),
    (f"{FOLLOW} --interval 0", "--interval"),
    (f"{FOLLOW} --recommit-interval -1", "--recommit-interval"),
    (f"{FOLLOW} --guard maybe", "'withhold', 'warn'"),
    (f"{FOLLOW} --on-rewind x", "'refuse', 'allow'"),
    (f"{FOLLOW} --mode x", "'simple', 'member', 'transactional'"),
    (f"{FOLLOW} --json", "--once"),
    ("serve -b k:9092", "groups"),
    (f"{SERVE} --all", "--all"),
    ("serve g -b k", "host:port"),
    (f"{SERVE} -X nosuch=1", "nosuch"),
    (f"{SERVE} --every 0.1", "--every"),
    (f"{SERVE} --audit-every 1", "--audit-every"),
    (f"{SERVE} --port 70000", "--port"),
    (f"{SERVE} --address ''", "--address"),
    (f"{SERVE} --allow-host http://x", "--allow-host"),
    (f"{SERVE} --ledger nosuch", "sqlite:FILE"),
    (f"{SERVE} --query q", "--ledger"),
    ("txn abort -b k:9092 --transactional-id ' '", "transactional id"),
]
UNREACHABLE = [
    (f"status {AWAY} -- -1group", "--bootstrap-server"),  # a group like any other
    ("follow s3a://b/c -b h:1 -g g", "pip install s3fs"),
]


@pytest.mark.parametrize(
    ("line", "code", "named"),
    [
        *((line, 2, named) for line, named in WRONG),
        *((line, 3, named) for line, named in UNREACHABLE),
    ],
)
def test_what_is_wrong_is_named(line: str, code: int, named: str) -> None:
    """With its exit code, and without a secret."""
    error = error_of(*shlex.split(line))
    assert (error.exit_code, named in str(error)) == (code, True), error
    assert "hidden" not in str(error)


def test_an_error_is_one_line() -> None:
    """On standard error, without a traceback."""
    answer = typed(f"eo-listener {WRONG[0][0]}")
    assert answer.stdout == ""
    (_,) = answer.stderr.strip().splitlines()
