"""Where the shim is: its jar, its process without Spark, and how that may not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.errors import JvmError, SettingsError, UnavailableError
from eo_listener.spark import shim, shim_process
from eo_listener.spark.java import Java
from eo_listener.spark.shim_process import ShimProcess, kafka_clients


def test_one_jar() -> None:
    """The package brings one jar, with the classes that Python calls and that users name."""
    names = zipfile.ZipFile(shim.jar()).namelist()
    assert "io/github/eolistener/requests/SourceInspector.class" in names
    assert "io/github/eolistener/OffsetCommitListener.class" in names


def test_command_without_java() -> None:
    """`eo-listener jar` prints the path and nothing else, where there is no Java at all."""
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "eo_listener", "jar"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{shim.jar()}\n"


@pytest.mark.parametrize(
    ("jars", "problem", "fix"),
    [
        ([], "no shim jar", "make jar"),
        (["eo-listener-shim-0.0.9.jar", "eo-listener-shim-0.1.0.jar"], "several", "make jar"),
    ],
)
def test_not_one_jar(
    jars: list[str], problem: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No jar, or more than one, is an error that says what to type."""
    (tmp_path / "jars").mkdir()
    for name in jars:
        shutil.copy(shim.jar(), tmp_path / "jars" / name)
    monkeypatch.setattr(shim, "__file__", str(tmp_path / "spark" / "shim.py"))
    with pytest.raises(UnavailableError, match=problem) as caught:
        shim.jar()
    assert fix in str(caught.value)
    assert "\n" not in str(caught.value)


ECHO = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["call"] == "fail":
        print(json.dumps({"failed": "it lacks a class"}), flush=True)
    else:
        print(json.dumps({"answer": asked["argument"]}), flush=True)
"""
Start = Callable[[str], ShimProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A shim that is this program of Python instead."""
    started: list[ShimProcess] = []

    def made(program: str) -> ShimProcess:
        file = tmp_path / "java"
        file.write_text(f"#!{sys.executable}\n{program}")
        file.chmod(0o755)
        one = ShimProcess(Java(executable=file, feature=17), [Path("a.jar")])
        started.append(one)
        return one

    yield made
    for one in started:
        one.close()


def test_each_call_gets_its_answer(start: Start) -> None:
    """In their order, whatever is in them; a failure names its cause, and is not the end."""
    shim = start(ECHO)
    assert shim.call("a", '{"two":"lines\\n"}') == '{"two":"lines\\n"}'
    with pytest.raises(JvmError, match="it lacks a class"):
        shim.call("fail", "{}")
    assert shim.call("a", "ž") == "ž"


@pytest.mark.parametrize("argument", ["{}", "x" * 1_000_000])
def test_one_that_hangs(argument: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for up to a limit, also if the call does not fit into the pipe, and ended."""
    monkeypatch.setattr(shim_process, "_LONGEST", 0.2)
    monkeypatch.setattr(shim_process, "_END", 0.2)
    shim = start("import time; time.sleep(600)")
    began = time.monotonic()
    with closing(shim), pytest.raises(JvmError, match="did not answer"):
        shim.call("a", argument)
    assert time.monotonic() - began < 30
    assert shim._process is not None
    assert shim._process.returncode == -9


def test_a_call_that_does_not_fit_into_the_pipe(start: Start) -> None:
    """It is written in parts, and its answer read whole."""
    assert start(ECHO).call("a", "ž" * 300_000) == "ž" * 300_000


@pytest.mark.parametrize(
    ("line", "why"),
    [("[0.003s][warning][cds] no\n", "in JSON"), ("{\n", "in JSON"), ("", "has ended")],
)
def test_an_answer_that_is_none(line: str, why: str, start: Start) -> None:
    """What else Java prints, or its end, is no answer; each call after it fails at once."""
    program = f"import sys; sys.stdin.readline(); print({line!r}, end='', flush=True)"
    shim = start(program if not line else f"{program}; sys.stdin.read()")
    with pytest.raises(JvmError, match=why):
        shim.call("a", "{}")
    with pytest.raises(JvmError, match="has ended"):
        shim.call("a", "{}")


def test_a_late_answer_is_not_the_next_calls(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was too late is ended."""
    monkeypatch.setattr(shim_process, "_LONGEST", 0.2)
    shim = start(
        "import time\nfor _ in range(2): input(); time.sleep(0.5); print('{}', flush=True)"
    )
    with pytest.raises(JvmError, match="did not answer"):
        shim.call("a", "{}")
    monkeypatch.setattr(shim_process, "_LONGEST", 5.0)
    with pytest.raises(JvmError, match="has ended"):
        shim.call("a", "{}")


def test_one_that_is_not_there() -> None:
    """And nothing is started before the first call."""
    shim = ShimProcess(Java(executable=Path("/nosuch/java"), feature=17), [])
    with pytest.raises(JvmError):
        shim.call("a", "{}")
    shim.close()


OTHERS = ["jackson-annotations", "jackson-core", "jackson-databind", "slf4j-api"]


@pytest.fixture
def nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark, no Kafka, and no cache of Ivy."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def others() -> list[str]:
    return [f"{name}-2.0.jar" for name in OTHERS]


@pytest.mark.usefixtures("nothing_there")
def test_the_libs_of_kafka(tmp_path: Path) -> None:
    """The newest client, by its numbers; no sources, no tests, and nothing else of the folder."""
    files = ["kafka-clients-3.9.0.jar", "kafka-clients-3.10.1.jar", "kafka-clients-4.0-test.jar"]
    libs = put(tmp_path / "libs", *files, *others(), "jackson-core-asl-1.9.jar", "log4j-2.0.jar")
    found = [jar.name for jar in kafka_clients(libs)]
    assert found == ["kafka-clients-3.10.1.jar", *others()]


@pytest.mark.usefixtures("nothing_there")
def test_what_spark_has_resolved(tmp_path: Path) -> None:
    """The client is in Ivy's folder, and the rest among Spark's own jars."""
    put(tmp_path / "spark/jars", *others())
    ivy = put(tmp_path / "home/.ivy2.5.2/jars", "org.apache.kafka_kafka-clients-3.9.0.jar")
    assert kafka_clients()[0] == ivy / "org.apache.kafka_kafka-clients-3.9.0.jar"
    assert {jar.parent.name for jar in kafka_clients()[1:]} == {"jars"}
    own = put(tmp_path / "spark/jars", "kafka-clients-3.4.1.jar")
    assert kafka_clients()[0] == own / "kafka-clients-3.4.1.jar", "Spark's own goes first"


@pytest.mark.usefixtures("nothing_there")
def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places are named, and the option."""
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "kafka"))
    with pytest.raises(UnavailableError, match="--kafka-clients") as raised:
        kafka_clients()
    assert str(tmp_path / "kafka/libs") in str(raised.value)
    with pytest.raises(SettingsError, match=r"no kafka-clients-\*\.jar"):
        kafka_clients(put(tmp_path / "empty"))
    with pytest.raises(UnavailableError):
        kafka_clients(put(tmp_path / "half", "kafka-clients-3.9.0.jar"))
