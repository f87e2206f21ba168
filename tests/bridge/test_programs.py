"""Configuration alone, in programs other than a PySpark job."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.bridge.submitted import command, is_bridge, run
from tests.bridge.test_submitted import held
from tests.broker import Broker
from tests.connect_server import serving
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

JAVA = """
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.Trigger;

public final class Job {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().getOrCreate();
    spark.readStream().format("kafka").option("kafka.bootstrap.servers", arguments[0])
        .option("subscribe", arguments[1]).option("startingOffsets", "earliest")
        .option("eo.commit.group", arguments[2]).load()
        .writeStream().format("noop").option("checkpointLocation", arguments[3])
        .trigger(Trigger.AvailableNow()).start().awaitTermination();
    spark.stop();
    System.out.println("STOPPED");
  }
}
"""


REMOTE = JAVA.replace("builder()", 'builder().remote("sc://127.0.0.1:" + arguments[4])', 1)


def compile_job(source: str, path: str, folder: Path) -> None:
    """Compile a class Job into the folder's `classes`."""
    (folder / "Job.java").write_text(source)
    javac = ["javac", "-nowarn", "-cp", path, "-d", str(folder / "classes"), "Job.java"]
    subprocess.run(javac, cwd=folder, check=True, capture_output=True)


def test_spark_sql_loads_it_and_starts_nothing(tmp_path: Path) -> None:
    """spark-sql runs as without the listener: it has no streaming query, so no bridge starts."""
    words = command("spark-sql", connector=False, conf={"spark.log.level": "INFO"})
    done = run([*words, "-e", "select 40 + 2"], tmp_path)
    assert "42" in done.stdout.split()
    assert "the bridge runs" not in done.stderr


def test_a_spark_connect_server(broker: Broker, tmp_path: Path) -> None:
    """A query of Spark's own client for the JVM is committed by the server's driver."""
    words = command("spark-submit")
    jars = Path(words[0]).parents[1] / "jars"
    clients = sorted((jars / "connect-repl").glob("spark-connect-client-jvm_*.jar"))
    if not clients:
        pytest.skip("this pyspark brings neither a Spark Connect server nor a client for the JVM")
    topics = Topics(broker.bootstrap_servers)
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 100)
    path = [str(one) for one in (*clients, *jars.glob("*.jar"))]
    path = [one for one in path if not re.search(r"/spark-(sql|connect)_[^/]*$", one)]
    compile_job(REMOTE, ":".join(path), tmp_path)
    opened = ["--add-opens=java.base/java.nio=ALL-UNNAMED"]
    client = ["java", *opened, "-cp", ":".join(["classes", *path]), "Job"]
    arguments = [broker.bootstrap_servers, topic, group, str(tmp_path / "c")]
    with serving(tmp_path, listening=True) as server:
        done = run([*client, *arguments, str(server.port)], tmp_path)
        assert "STOPPED" in done.stdout
        until(lambda: held(broker, group) == 100, 20)
        family = psutil.Process(server.pid).children(recursive=True)
        assert [one for one in family if is_bridge(one)]
    assert not [one for one in family if is_bridge(one)]
