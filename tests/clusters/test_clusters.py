"""Executors and drivers in processes, and on machines, of their own."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from eo_listener.spark.session.installation import Installation
from tests.bridge.submitted import command, environment, run
from tests.bridge.test_programs import JAVA, compile_job
from tests.bridge.test_submitted import held
from tests.broker import Broker
from tests.clusters.standalone import Standalone
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
TEMPLATE = "spark.eo.group.template"


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of 100 records."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("words")
    topics.fill(topic, 100)
    return topic


def test_executors_in_other_processes(broker: Broker, topic: str, tmp_path: Path) -> None:
    """With two executors, by configuration and by `addListener` alike."""
    group = unique("g")
    conf = {"spark.master": "local-cluster[2,1,1024]", TEMPLATE: f"{group}-{{query_name}}"}
    plain = [str(EXAMPLES / "plain_job.py"), broker.bootstrap_servers, topic]
    run([*command("spark-submit", conf=conf), *plain], tmp_path)
    assert held(broker, f"{group}-plain") == 100
    added = [str(EXAMPLES / "commit_offsets.py"), broker.bootstrap_servers, topic]
    run([*command("spark-submit", conf=conf), *added], tmp_path)
    assert held(broker, f"{topic}-counter") == 100


@pytest.mark.timeout(600)
def test_a_driver_in_cluster_mode_on_a_machine_without_the_package(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Of two workers one has no eo_listener: a driver there says so, and its query runs on.

    Python programs cannot be deployed so on a standalone cluster: the job is Java.
    """
    venv.create(tmp_path / "bare", with_pip=False)
    jars = Installation.find().home / "jars"
    compile_job(JAVA, f"{jars}/*", tmp_path)
    subprocess.run(["jar", "cf", "job.jar", "-C", "classes", "."], cwd=tmp_path, check=True)
    with Standalone(tmp_path) as cluster:
        good = cluster.worker("good")
        bare = cluster.worker("bare-worker", PYSPARK_PYTHON=str(tmp_path / "bare/bin/python"))
        conf = {"spark.master": cluster.url, "spark.submit.deployMode": "cluster"}
        conf |= {"spark.executor.memory": "512m", "spark.cores.max": "1"}
        conf |= {"spark.jars": ",".join(connector())}
        groups: dict[Path, str] = {}
        logs: dict[Path, str] = {}
        for _ in range(8):  # the master chooses
            group, checkpoint = unique("g"), tmp_path / unique("c")
            submit = command("spark-submit", conf=conf, connector=False)
            words = [*submit, "--class", "Job", "job.jar"]
            known = _outputs(good, bare)
            _submit([*words, broker.bootstrap_servers, topic, group, str(checkpoint)], tmp_path)
            until(lambda known=known: _ended(good, bare) - known, 90, "the driver does not end")  # type: ignore[misc]  # of a lambda with a default
            (output,) = _ended(good, bare) - known
            groups[output.parents[1]] = group
            logs[output.parents[1]] = output.with_name("stderr").read_text()
            if len(groups) == 2:
                break
        assert held(broker, groups[good]) == 100
        assert held(broker, groups[bare]) == 0
        said = [line for line in logs[bare].splitlines() if "spark.eo.python" in line]
        assert len(said) == 1, logs[bare]
        assert str(tmp_path / "bare/bin/python") in said[0]
        assert "spark.eo.python" not in logs[good]


def _submit(words: list[str], folder: Path) -> None:
    """Submit with no word of an interpreter: Spark would hand it on, over the worker's own."""
    env = environment()
    del env["PYSPARK_PYTHON"]
    subprocess.run(words, cwd=folder, env=env, check=True, timeout=120, capture_output=True)


def connector() -> list[str]:
    """The connector's jars, where Spark has put them: in this mode executors get no packages."""
    spark = Installation.find()
    of_spark = f"_{spark.scala}-{spark.version}.jar"
    found = {
        file.name.rsplit("-", 1)[0]: file
        for folder in sorted(Path.home().glob(".ivy2*/jars"))
        for file in sorted(folder.glob("*.jar"))
        if (file.name.endswith(of_spark) and "kafka" in file.name)
        or file.name.startswith(
            ("org.apache.kafka_kafka-clients", "org.apache.commons_commons-pool2")
        )
    }
    return [str(file) for file in found.values()]


def _outputs(*workers: Path) -> set[Path]:
    return {file for worker in workers for file in worker.glob("driver-*/stdout")}


def _ended(*workers: Path) -> set[Path]:
    return {file for file in _outputs(*workers) if "STOPPED" in file.read_text()}
