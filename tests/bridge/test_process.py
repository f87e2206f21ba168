"""The bridge as a process: what it says, what it survives, and that it always ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from typing import Any

import psutil
import pytest

from eo_listener import __version__
from tests.bridge.jvm_side import RUN, JvmSide, hello, progress, started
from tests.broker import Broker, free_port
from tests.groups import total
from tests.topics import Topics, unique
from tests.waiting import until

SECRET = "correct-horse-battery"  # noqa: S105  # planted, to be looked for

PARENT = """
import subprocess, sys, time
bridge = subprocess.Popen([sys.executable, "-m", "eo_listener.bridge"], stdin=subprocess.PIPE)
bridge.stdin.write(sys.argv[1].encode() + b"\\n")
bridge.stdin.flush()
print(bridge.pid, flush=True)
time.sleep(300)
"""


def answers_of(
    servers: str, topic: str, group: str, offset: int, batch: int = 0
) -> dict[str, object]:
    """What the shim says of a query on one topic that has restored this offset."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "eo.commit.group": group}
    source = {"index": 0, "kafka": True, "class": "KafkaMicroBatchStream", "options": options}
    restored = {"index": 0, "offsets": json.dumps({topic: {"0": offset}})}
    where = {"restored": True, "batch": batch, "sources": [restored]}
    return {
        "sources": {"v": 1, "query": {}, "sources": [source]},
        "mode": "MICRO_BATCH",
        "position": {"v": 1, "mode": "MICRO_BATCH", **where},
        "beginnings": {"v": 1, "sources": []},
    }


def test_greeting_pings_and_signals() -> None:
    """It reports its version and the settings' times, and outlives signals, but not its pipe."""
    conf = {"spark.eo.flush.timeout": "2s", "spark.eo.bridge.timeout": "1min"}
    with JvmSide(conf) as jvm:
        assert jvm.await_line("v") == {
            "v": 1,
            "package": __version__,
            "flush": 2.0,
            "timeout": 60.0,
        }
        jvm.send({"something": "of a newer shim"})
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            jvm.process.send_signal(number)
            jvm.send({"ping": number})
            until(lambda: {"pong": number} in jvm.lines)  # noqa: B023  # called at once
        jvm.hang_up()
        assert jvm.ended() == 0
        assert jvm.errors == ""


@pytest.mark.parametrize(
    ("first", "code", "says"),
    [
        (hello({"spark.eo.mode": "x", "spark.eo.kafka.ssl.key.password": SECRET}), 78, "'member'"),
        (hello({}, v=2), 78, "writes format 2"),
        ({"v": 1, "conf": SECRET}, 3, "cannot be read"),
    ],
)
def test_a_greeting_that_cannot_be_taken(first: dict[str, Any], code: int, says: str) -> None:
    """Settings and versions that are refused are said in one line, and end it at once."""
    with JvmSide(first=first) as jvm:
        assert jvm.ended() == code
        assert jvm.lines == []
        (line,) = jvm.errors.splitlines()
    assert line.startswith("ERROR ")
    assert says in line
    assert SECRET not in line


def test_a_line_that_is_none() -> None:
    """A line that cannot be read ends it, and is not shown: it may hold secrets."""
    with JvmSide() as jvm:
        jvm.await_line("v")
        jvm.write(b'{"answer": "' + SECRET.encode() + b"\n")
        assert jvm.ended() == 3
    assert "cannot be read" in jvm.errors
    assert SECRET not in jvm.errors
    assert "Traceback" not in jvm.errors


def test_what_is_printed_does_not_reach_the_protocol() -> None:
    """What Python or C writes to standard output goes to the log."""
    trouble = {"EO_LISTENER_FAULT_POINTS": "tests.bridge.troublemaker", "EO_TROUBLE": "prints"}
    with JvmSide(environment=trouble) as jvm:
        jvm.await_line("v")
        jvm.send({"ping": 1})
        jvm.await_line("pong")
        assert len(jvm.lines) == 2
        jvm.send({"end": 1})
        assert jvm.ended() == 0
    assert "a library says hello" in jvm.errors
    assert "and so does C" in jvm.errors


def test_a_fault_of_its_own_ends_it() -> None:
    """A bridge that fails at a line logs the error and ends, instead of missing events."""
    trouble = {"EO_LISTENER_FAULT_POINTS": "tests.bridge.troublemaker", "EO_TROUBLE": "fails"}
    with JvmSide(environment=trouble) as jvm:
        jvm.await_line("v")
        jvm.send({"ping": 1})
        assert jvm.ended() == 3
    assert "ZeroDivisionError" in jvm.errors
    assert all(line.startswith("ERROR ") for line in jvm.errors.splitlines())


def test_what_it_needs() -> None:
    """Neither pyspark nor py4j; nor SIGHUP, which Windows lacks, to ignore the other signals."""
    code = (
        "import signal, sys; del signal.SIGHUP; "
        "from eo_listener.bridge.__main__ import ignore_signals; ignore_signals(); "
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ignored, *modules = done.stdout.split()
    assert ignored == "True"
    assert not {"pyspark", "py4j"} & set(modules)


def test_a_stopped_bridge_does_not_outlive_its_driver() -> None:
    """One that is stopped when its driver is killed goes on, sees that, and ends."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(hello())], stdout=subprocess.PIPE
    )
    try:
        assert parent.stdout is not None
        bridge = psutil.Process(int(parent.stdout.readline()))
        until(lambda: bridge.num_threads() > 1)
        bridge.suspend()
        until(lambda: bridge.status() == psutil.STATUS_STOPPED)
    finally:
        parent.kill()
        parent.wait(10)
        if parent.stdout is not None:
            parent.stdout.close()
    until(lambda: not bridge.is_running() or bridge.status() == psutil.STATUS_ZOMBIE, 10)


def test_an_idle_run_is_shown_to_be_alive() -> None:
    """By the time of its last event in the bridge's metrics; a dead Kafka holds up no end."""
    port = free_port()
    answers = answers_of("127.0.0.1:1", "t", "g", 5)

    def last_event() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = re.search(rb"query_last_event_timestamp_seconds{[^}]*} (\S+)", answer.read())
        return 0.0 if found is None else float(found[1])

    with JvmSide({"spark.eo.metrics.port": str(port)}, answers=answers) as jvm:
        jvm.await_line("v")
        jvm.send(started())
        until(lambda: last_event() > 0, 20)
        before = last_event()
        jvm.send({"idle": "another"})
        jvm.send({"idle": RUN})
        until(lambda: last_event() > before, 20)
        jvm.send({"end": 1.0})
        began = time.monotonic()
        assert jvm.ended() == 0
        assert time.monotonic() - began < 8
    assert "t-0" in jvm.errors  # what stays behind


@pytest.mark.kafka
@pytest.mark.parametrize("ending", ["told", "hung up"])
def test_what_it_has_is_committed_at_its_end(broker: Broker, ending: str) -> None:
    """Asked to end or cut off from its driver, it commits what it was given, and ends."""
    topics = Topics(broker.bootstrap_servers)
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 9)
    answers = answers_of(broker.bootstrap_servers, topic, group, 5)
    with JvmSide(answers=answers) as jvm:
        jvm.await_line("v")
        jvm.send(started())
        until(lambda: [line for line in jvm.lines if line.get("what") == "position"])
        jvm.send(progress(topic, 9, batch=1, start=5))
        if ending == "told":
            jvm.send({"end": 10.0})
        else:
            jvm.send({"ping": 1})
            jvm.await_line("pong")
            jvm.deafen()
            jvm.send({"ping": 2})  # whose answer nobody reads
            jvm.hang_up()
        began = time.monotonic()
        assert jvm.ended() == 0
        assert time.monotonic() - began < 8
    assert total(broker.bootstrap_servers, group) == 9
    assert "ERROR" not in jvm.errors


@pytest.mark.kafka
def test_a_run_is_forgotten_when_it_is_committed(broker: Broker) -> None:
    """With its last offsets in the group; `test_ended_runs` has what is kept until then."""
    topics = Topics(broker.bootstrap_servers)
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 9)
    answers = answers_of(broker.bootstrap_servers, topic, group, 9, batch=1)
    with JvmSide(answers=answers) as jvm:
        jvm.send(started())
        jvm.send({"ended": RUN})
        assert jvm.await_line("forget") == {"forget": RUN}
        assert total(broker.bootstrap_servers, group) == 9


@pytest.mark.kafka
def test_an_end_that_hangs_is_cut_off(broker: Broker) -> None:
    """A process whose threads hang still ends, shortly after its timeout."""
    answers = answers_of(broker.bootstrap_servers, "t", unique("g"), 9)
    trouble = {"EO_LISTENER_FAULT_POINTS": "tests.bridge.troublemaker", "EO_TROUBLE": "hangs"}
    with JvmSide(answers=answers, environment=trouble) as jvm:
        jvm.send(started())
        jvm.send(progress("t", 9))
        jvm.send({"ping": 1})
        jvm.await_line("pong")
        jvm.send({"end": 1.0})
        began = time.monotonic()
        jvm.ended()
        assert time.monotonic() - began < 8


def test_secrets_stay_inside() -> None:
    """Passwords in settings and options are in no line of the log, whatever goes wrong."""
    conf = {"spark.eo.kafka.sasl.password": SECRET, "spark.eo.kafka.security.protocol": "plain"}
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "eo.commit.group": "g", "pw": SECRET}
    source = {"index": 0, "kafka": True, "class": "K", "options": options}
    answers: dict[str, object] = {
        "sources": {"v": 1, "query": {}, "sources": [source]},
        "mode": "MICRO_BATCH",
        "position": {"v": 1, "restored": True, "batch": 1, "sources": [{"index": 0}]},
    }
    with JvmSide(conf, answers=answers, first={**hello(conf), "debug": True}) as jvm:
        jvm.send(started())
        jvm.send(progress("t", 9))
        jvm.send({"ended": RUN})
        jvm.send({"end": 3.0})
        jvm.ended()
    assert "ERROR" in jvm.errors
    assert SECRET not in jvm.errors
