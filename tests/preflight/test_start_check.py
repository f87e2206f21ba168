"""The check at a listener's start: in a child, once, and nothing that goes wrong there matters."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from eo_listener.errors import FormatError, UnavailableError
from eo_listener.events import InternalError, RunGroupsChanged
from eo_listener.preflight import child_process as child_module
from eo_listener.preflight import start_check
from eo_listener.preflight.child_process import TRIES, Answer, ask, run, start
from eo_listener.preflight.facts import Request
from eo_listener.preflight.start_check import StartCheck
from tests.broker import Broker
from tests.groups import commit
from tests.topics import Topics, unique
from tests.waiting import until

SECRET = "hunter2-planted"  # noqa: S105  # planted, to be looked for
SLEEP = "import time; time.sleep(60)"
BAD = '{"reached": true, "findings": [{"level": "bad", "about": "", "what": "", "advice": ""}]}'
NOWHERE = Request(properties={"bootstrap.servers": "127.0.0.1:1"})


def fed(*groups: str, cluster: str = "k:9092", ended: bool = False) -> RunGroupsChanged:
    pairs = frozenset((cluster, group) for group in groups)
    return RunGroupsChanged(query="q", run_id="r", groups=pairs, ended=ended)


def start_check_of(properties: Any = None, gather: float = 0.0) -> StartCheck:
    of = properties or (lambda cluster: {"bootstrap.servers": cluster})
    return StartCheck(of, mode="simple", recommit_interval=60.0, gather=gather)


def wait_for_the_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "eo-listener-preflight":
            thread.join(60.0)
            assert not thread.is_alive()


@pytest.mark.kafka
def test_what_matters_is_logged_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Two queries of one group: one child process, one line; what is fine is not logged."""
    servers, group = broker.bootstrap_servers, unique("beyond")
    topic = Topics(servers).create(partitions=1)
    commit(servers, group, topic, {0: 1000})
    check = start_check_of(gather=0.2)
    with caplog.at_level(logging.INFO, "eo_listener"):
        for _ in range(2):
            check(fed(group, cluster=servers))
            check(fed(group, cluster=servers, ended=True))
            check(InternalError(where="w", problem="p"))
        wait_for_the_thread()
    (line,) = [one for one in caplog.records if one.name == "eo_listener"]
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith(f"preflight, problem, group {group}: ")
    assert ". Fix: " in line.getMessage()
    check.close()


@pytest.mark.slow
def test_modules_of_the_working_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies where the driver runs is not executed, whatever standard module it is named as."""
    trap = "import os, pathlib; pathlib.Path(os.environ['EO_TRAP']).touch(); raise SystemExit(7)"
    for name in ("rich", "typer", "queue", "logging", "sitecustomize", "eo_listener"):
        (tmp_path / f"{name}.py").write_text(trap)
    monkeypatch.setenv("EO_TRAP", str(tmp_path / "executed"))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    findings = ask(start(), NOWHERE, 60.0).findings
    assert [one for one in findings if "127.0.0.1:1" in one.about]
    assert not (tmp_path / "executed").exists()


@pytest.mark.kafka
def test_no_secret_is_on_a_command_line(broker: Broker) -> None:
    """What the child is to check goes over its standard input."""
    child = start(polite=True)
    while not (arguments := psutil.Process(child.pid).cmdline()):
        time.sleep(0.01)  # in the midst of its exec a process has none
    assert psutil.Process(child.pid).nice() == min(19, psutil.Process().nice() + 10)
    secret = {"bootstrap.servers": broker.bootstrap_servers, "ssl.key.password": SECRET}
    found = ask(child, Request(properties=secret), 60.0).findings
    assert "eo_listener.kafka.cluster_describer" in " ".join(arguments)
    assert SECRET not in " ".join(arguments)
    assert any(one.about == f"cluster {broker.bootstrap_servers}" for one in found)
    assert SECRET not in str(found)


def program(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_a_child_that_hangs_is_ended() -> None:
    """In its time, and it is gone then."""
    child = program(SLEEP)
    with pytest.raises(UnavailableError, match="did not end"):
        ask(child, NOWHERE, 0.3)
    assert child.returncode is not None


def test_a_child_that_breaks_down_has_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is asked the same; when all break down it is one error."""
    good = 'import sys; sys.stdin.read(); print("{\\"reached\\": true, \\"findings\\": []}")'
    left = ["import os; os.abort()"] * (TRIES - 1) + [good] + ["import os; os.abort()"] * TRIES

    def next_one() -> subprocess.Popen[str]:
        return program(left.pop(0))

    monkeypatch.setattr(child_module, "start", next_one)
    assert run(NOWHERE).findings == ()
    with pytest.raises(UnavailableError, match="ended with -6"):
        run(NOWHERE)
    assert not left


@pytest.mark.parametrize(
    "told",
    [
        "",
        "[]",
        "{}",
        '{"reached": true, "findings": [{}]}',
        '{"reached": true, "findings": 1}',
        BAD,
    ],
)
def test_an_answer_that_is_none(told: str) -> None:
    """An answer of the child that cannot be read is an error."""
    with pytest.raises(FormatError):
        Answer.parse(told)


def test_closing_ends_a_check_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a program waits for no child, and leaves none."""
    children: list[subprocess.Popen[str]] = []

    def slow(*, polite: bool) -> subprocess.Popen[str]:
        children.append(program(SLEEP))
        return children[0]

    monkeypatch.setattr(start_check, "start", slow)
    check = start_check_of()
    with caplog.at_level(logging.INFO, "eo_listener"):
        check(fed("g"))
        until(lambda: children, 20)
        began = time.monotonic()
        check.close()
        assert time.monotonic() - began < 20.0
        wait_for_the_thread()
    assert children[0].returncode is not None
    assert not caplog.records
    check(fed("another"))
    assert "eo-listener-preflight" not in [one.name for one in threading.enumerate()]


def test_nothing_is_raised_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster that is not known is not checked, a fault of ours is a line and no more."""

    def of(cluster: str) -> Mapping[str, str] | None:
        if cluster == "unknown":
            return None
        raise RuntimeError(SECRET)

    check = start_check_of(of)
    with caplog.at_level(logging.INFO, "eo_listener"):
        check(fed("g", cluster="unknown"))
        check(fed("g", cluster="k:9092"))
        wait_for_the_thread()
    (line,) = caplog.records
    assert line.getMessage() == "preflight of k:9092 failed: RuntimeError"
    check.close()


def test_a_driver_with_many_groups_has_some_of_them_checked() -> None:
    """Fifty in a child, and two hundred in all."""
    asked: list[str] = []

    def of(cluster: str) -> Mapping[str, str] | None:
        asked.append(cluster)
        return None

    check = start_check_of(of)
    check(fed(*(f"g{number}" for number in range(1000))))
    wait_for_the_thread()
    check(fed("one more"))
    wait_for_the_thread()
    assert asked == ["k:9092"] * 4
    check.close()
