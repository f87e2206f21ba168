"""What `configure` adds, and what it leaves alone; no JVM is started here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eo_listener.errors import EoListenerError, JavaError, SettingsError
from eo_listener.spark import shim
from eo_listener.spark.session import delta_lake, iceberg_runtime
from eo_listener.spark.session.configure import (
    HADOOP,
    OUR_IVY_SETTINGS,
    VARIABLE,
    SubmitArguments,
    configure,
    too_late,
)
from eo_listener.spark.session.installation import Installation

pytestmark = pytest.mark.spark

PACKAGES, EXCLUDES, IVY = "spark.jars.packages", "spark.jars.excludes", "spark.jars.ivySettings"
FOUND = Installation.find()
CONNECTOR = FOUND.connector
DELTA = delta_lake.coordinates(FOUND.version, FOUND.scala)
ICEBERG = iceberg_runtime.coordinates(FOUND.version, FOUND.scala)
CATALOG = "spark.sql.catalog"
SHIM = str(shim.jar())


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process as python starts it: no JVM, no settings of the user."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLE, "pyspark-shell")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    return tmp_path


def configured(options: dict[str, str], **parts: bool) -> dict[str, str]:
    """The builder's options after `configure`."""
    builder = SparkSession.Builder()
    for key, value in options.items():
        builder = builder.config(key, value)
    assert configure(builder, **parts) is builder
    return {key: str(value) for key, value in builder._options.items()}


def submitted(key: str) -> list[str]:
    """A setting on the command line that pyspark would now use."""
    value = SubmitArguments.parse(os.environ[VARIABLE]).setting(key)
    return [] if value is None else value.split(",")


def test_nothing_set() -> None:
    """The shim comes as a jar, the connector of this Spark as a package; nothing else is set."""
    options = configured({"spark.app.name": "x"})
    assert options == {
        "spark.app.name": "x",
        PACKAGES: CONNECTOR,
        EXCLUDES: ",".join(HADOOP),
        IVY: str(OUR_IVY_SETTINGS),
    }
    assert submitted("spark.jars") == [SHIM]
    assert OUR_IVY_SETTINGS.exists()


def test_parts() -> None:
    """Connector and shim can each be left out."""
    assert configured({}, connector=False) == {}
    assert submitted("spark.jars") == [SHIM]
    os.environ[VARIABLE] = "pyspark-shell"
    assert PACKAGES in configured({}, shim=False)
    assert os.environ[VARIABLE] == "pyspark-shell"
    assert configured({"spark.jars": "a.jar"}, connector=False, shim=False) == {
        "spark.jars": "a.jar"
    }


@pytest.mark.skipif(DELTA is None, reason="no Delta Lake fits this Spark")
def test_delta_lake() -> None:
    """Its release for this Spark comes as a package too, with extension and catalog."""
    options = configured({delta_lake.EXTENSIONS: "my.Extension"}, delta=True)
    assert options[PACKAGES] == f"{CONNECTOR},{DELTA}"
    assert options[delta_lake.EXTENSIONS] == f"my.Extension,{delta_lake.EXTENSION}"
    assert options[delta_lake.SESSION_CATALOG] == delta_lake.CATALOG
    assert configured(options, delta=True) == options


@pytest.mark.skipif(DELTA is None, reason="no Delta Lake fits this Spark")
def test_own_delta_lake() -> None:
    """A release that the user names stays, in any of Spark's ways, and so does another catalog."""
    os.environ[VARIABLE] = "--conf spark.sql.extensions=my.Extension pyspark-shell"
    own = {PACKAGES: "io.delta:delta-spark_2.13:9.9.9", delta_lake.SESSION_CATALOG: "my.Catalog"}
    options = configured(own, connector=False, delta=True)
    assert options == own
    assert submitted(delta_lake.EXTENSIONS) == ["my.Extension", delta_lake.EXTENSION]


@pytest.mark.parametrize("part", ["delta", "iceberg"])
def test_a_spark_that_a_format_does_not_fit(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no release fits, the error names the versions of Spark that have one."""
    monkeypatch.setattr(Installation, "find", lambda: replace(FOUND, version="4.2.0"))
    with pytest.raises(SettingsError, match=r"Spark 4\.2\.0.*3\.5, 4\.0 and 4\.1"):
        configured({}, **{part: True})


def test_too_late_for_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that starts a JVM with it has the packages and the settings of each."""
    module = "eo_listener.spark.session.configure"
    known = {delta_lake: "g:d:1", iceberg_runtime: "g:a:1"}
    monkeypatch.setattr(f"{module}._coordinates", lambda library, _: known[library])
    said = str(too_late(FOUND, ["iceberg"], submitted=True))
    assert "--packages g:a:1 " in said
    assert f"--conf {delta_lake.EXTENSIONS}={iceberg_runtime.EXTENSION}" in said
    assert delta_lake.SESSION_CATALOG not in said
    both = str(too_late(FOUND, ["iceberg", "delta"], submitted=True))
    assert "--packages g:d:1,g:a:1 " in both
    assert f"={delta_lake.EXTENSION},{iceberg_runtime.EXTENSION} " in both
    assert f"--conf {delta_lake.SESSION_CATALOG}={delta_lake.CATALOG}" in both


@pytest.mark.parametrize(
    ("delta", "spark", "fits"),
    [
        ("3.3.2", "3.5.7", True),
        ("3.2.1", "3.5.0", True),
        ("4.0.1", "4.0.0", True),
        ("4.1.0", "4.0.0", False),
        ("3.3.2", "4.0.0", False),
        ("4.0.1", "4.2.0", False),
    ],
)
def test_which_delta_lake_fits(delta: str, spark: str, fits: bool) -> None:
    """Each is made for one minor version of Spark."""
    assert delta_lake.fits(delta, spark) is fits


@pytest.mark.skipif(ICEBERG is None, reason="Iceberg has no runtime for this Spark")
def test_iceberg() -> None:
    """Its runtime for this Spark and Scala comes as a package, with its extension; no catalog."""
    mine = {
        f"{CATALOG}.lake": "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}.lake.type": "rest",
    }
    options = configured({delta_lake.EXTENSIONS: "my.Extension", **mine}, iceberg=True)
    assert options[PACKAGES] == f"{CONNECTOR},{ICEBERG}"
    assert options[delta_lake.EXTENSIONS] == f"my.Extension,{iceberg_runtime.EXTENSION}"
    assert {key: at for key, at in options.items() if key.startswith(CATALOG)} == mine
    assert configured(options, iceberg=True) == options


@pytest.mark.parametrize(
    ("setting", "form"),
    [(PACKAGES, "org.apache.iceberg:{}:1.9.9"), ("spark.jars", "/x/{}-1.9.9.jar")],
)
def test_own_iceberg(setting: str, form: str) -> None:
    """A release that the user names stays, as a package or as a jar."""
    own = form.format(f"iceberg-spark-runtime-{FOUND.version[:3]}_{FOUND.scala}")
    options = configured({setting: own}, connector=False, iceberg=True)
    assert own in (*submitted("spark.jars"), options.get(PACKAGES))
    assert options.get(PACKAGES, own) == own
    assert options[delta_lake.EXTENSIONS] == iceberg_runtime.EXTENSION


@pytest.mark.skipif(ICEBERG is None, reason="Iceberg has no runtime for this Spark")
@pytest.mark.parametrize("other", ["3.4_2.12", "4.0_2.12", "2.4_2.13"])
def test_an_iceberg_of_another_spark(other: str) -> None:
    """It is named, with the one that fits, before any JVM is started."""
    given = {PACKAGES: f"org.apache.iceberg:iceberg-spark-runtime-{other}:1.9.2"}
    with pytest.raises(SettingsError, match=rf"runtime-{other}:1\.9\.2 is for Spark") as refused:
        configured(given, iceberg=True)
    assert str(ICEBERG) in str(refused.value.fix)
    with pytest.raises(SettingsError, match=rf"runtime-{other}-1\.9\.2\.jar is for Spark"):
        configured({"spark.jars": f"/x/iceberg-spark-runtime-{other}-1.9.2.jar"}, iceberg=True)


def test_builder_is_kept() -> None:
    """Its jars move to where they are not lost on executors; a second call changes nothing."""
    options = configured({"spark.jars": "a.jar, b.jar", PACKAGES: "g:a:1", EXCLUDES: "x:y"})
    assert submitted("spark.jars") == ["a.jar", "b.jar", SHIM]
    assert "spark.jars" not in options
    assert options[PACKAGES] == f"g:a:1,{CONNECTOR}"
    assert options[EXCLUDES] == ",".join(["x:y", *HADOOP])
    arguments = os.environ[VARIABLE]
    assert configured(options) == options
    assert os.environ[VARIABLE] == arguments


def test_defaults_are_kept(fresh: Path) -> None:
    """What spark-defaults.conf has stays."""
    (fresh / "conf" / "spark-defaults.conf").write_text(
        "spark.jars d.jar\nspark.jars.packages=g:d:1\nspark.executor.memory 2g\n"
    )
    options = configured({})
    assert submitted("spark.jars") == ["d.jar", SHIM]
    assert options[PACKAGES] == f"g:d:1,{CONNECTOR}"
    assert "spark.executor.memory" not in options


def test_properties_file(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A properties file on the command line is read instead of spark-defaults.conf."""
    (fresh / "conf" / "spark-defaults.conf").write_text("spark.jars d.jar\n")
    (fresh / "own.conf").write_text("spark.jars.packages g:o:1\n")
    monkeypatch.setenv(VARIABLE, f"--properties-file {fresh / 'own.conf'} pyspark-shell")
    assert configured({})[PACKAGES] == f"g:o:1,{CONNECTOR}"
    assert submitted("spark.jars") == [SHIM]


def test_command_line_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PYSPARK_SUBMIT_ARGS has wins over the builder, so additions are made there."""
    monkeypatch.setenv(
        VARIABLE,
        "--name n --jars c.jar --packages g:c:1 --conf spark.jars.excludes=x:c pyspark-shell",
    )
    options = configured({"spark.jars": "loses.jar", PACKAGES: "g:loses:1"})
    assert submitted("spark.jars") == ["c.jar", SHIM]
    assert submitted(PACKAGES) == ["g:c:1", CONNECTOR]
    assert submitted(EXCLUDES) == ["x:c", *HADOOP]
    assert options[PACKAGES] == "g:loses:1"
    assert os.environ[VARIABLE].startswith("--name n ")
    assert os.environ[VARIABLE].endswith(" pyspark-shell")


@pytest.mark.parametrize(
    "options",
    [
        {PACKAGES: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0-vendor"},
        {"spark.jars": "/lib/spark-sql-kafka-0-10_2.13-4.0.0.jar"},
    ],
)
def test_own_connector(options: dict[str, str]) -> None:
    """Where the user brings a connector, as package or as jar, no other is added."""
    after = configured(options)
    assert after.get(PACKAGES) == options.get(PACKAGES)
    assert IVY not in after
    assert SHIM in submitted("spark.jars")


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({IVY: "own.xml"}, {}),
        ({"spark.jars.repositories": "r"}, {}),
        ({}, {VARIABLE: "--repositories r pyspark-shell"}),
        ({}, {VARIABLE: "--conf spark.jars.ivySettings=own.xml pyspark-shell"}),
        ({}, {"DEFAULT_ARTIFACT_REPOSITORY": "r"}),
        ({PACKAGES: "g:a:1"}, {}),
    ],
)
def test_own_repositories(
    options: dict[str, str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user says from where to download, or may need to, that stays."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert configured(options).get(IVY) == options.get(IVY)


def test_own_packages_beside_a_local_repository(fresh: Path) -> None:
    """With a ~/.m2, which may be half-filled, our settings are used for all packages."""
    (fresh / ".m2" / "repository").mkdir(parents=True)
    assert configured({PACKAGES: "g:a:1"})[IVY] == str(OUR_IVY_SETTINGS)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"spark.remote": "sc://host"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_REMOTE": "sc://host"}),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--remote sc://host pyspark-shell"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--conf spark.remote=sc://host pyspark-shell"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "-c spark.api.mode=connect pyspark-shell"}),
    ],
)
def test_connect_is_refused(
    options: dict[str, str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of Spark Connect has no JVM to add to, which is said in one line."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    builder = SparkSession.Builder()
    builder._options.update(options)
    with pytest.raises(SettingsError, match="not for Spark Connect") as caught:
        configure(builder)
    assert "\n" not in str(caught.value)


def test_not_a_builder() -> None:
    """A class instead of a builder is refused, with the right call."""
    with pytest.raises(SettingsError, match=r"configure\(SparkSession\.builder"):
        configure(SparkSession)  # type: ignore[arg-type]  # on purpose


def _installation(home: Path, *jars: str) -> str:
    (home / "jars").mkdir(parents=True)
    for jar in jars:
        (home / "jars" / jar).touch()
    return str(home)


@pytest.mark.parametrize(
    ("jars", "problem"),
    [
        ([], "has no Spark"),
        (["spark-sql_2.12-3.4.4.jar"], "Spark 3.4.4 in .* is too old"),
        (["spark-sql_2.12-2.4.8.jar"], "needs Spark 3.5 or later"),
    ],
)
def test_old_spark(
    jars: list[str], problem: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Spark, or one before 3.5, is refused in one line."""
    monkeypatch.setenv("SPARK_HOME", _installation(fresh / "spark", *jars))
    with pytest.raises(SettingsError, match=problem) as caught:
        configure(SparkSession.Builder())
    assert "\n" not in str(caught.value)


def test_other_installation(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connector is of the jars' Scala and Spark; that pyspark is of another one is said."""
    configured({})
    assert caplog.messages == []
    home = _installation(fresh / "spark", "spark-sql_2.14-5.1.0-rc1.jar")
    monkeypatch.setenv("SPARK_HOME", home)
    monkeypatch.setenv(VARIABLE, "pyspark-shell")
    assert configured({})[PACKAGES] == "org.apache.spark:spark-sql-kafka-0-10_2.14:5.1.0-rc1"
    (line,) = caplog.messages
    assert {pyspark.__version__, "5.1.0-rc1"} <= set(line.replace(",", "").split())


def test_connector_installed(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark that already has the connector among its jars needs no package."""
    jars = ["spark-sql_2.13-4.0.0.jar", "spark-sql-kafka-0-10_2.13-4.0.0.jar"]
    monkeypatch.setenv("SPARK_HOME", _installation(fresh / "spark", *jars))
    assert PACKAGES not in configured({})


@pytest.mark.parametrize("feature", [8, 25])
def test_a_java_that_this_spark_cannot_run_on(
    feature: int, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None, or one too old or too new: it is named, and what is needed, before Spark fails."""
    monkeypatch.setenv("JAVA_HOME", str(fresh))
    with pytest.raises(JavaError, match="Install a JDK 17"):
        configure(SparkSession.Builder())
    if feature == 25 and FOUND.newest_java is None:
        pytest.skip("this Spark starts on it")
    java = fresh / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{feature}.0.2\"' >&2\n")
    java.chmod(0o755)
    needed = rf"Java {feature}, but Spark {FOUND.version} needs Java {FOUND.oldest_java} "
    with pytest.raises(JavaError, match=needed):
        configure(SparkSession.Builder())


def test_failure_changes_nothing(monkeypatch: pytest.MonkeyPatch, fresh: Path) -> None:
    """Where configure fails, neither the builder nor the environment has changed."""
    monkeypatch.setattr(shim, "__file__", str(fresh / "spark" / "shim.py"))
    builder = SparkSession.Builder().config("spark.jars", "a.jar")
    with pytest.raises(EoListenerError, match="make jar"):
        configure(builder)
    assert builder._options == {"spark.jars": "a.jar"}
    assert os.environ[VARIABLE] == "pyspark-shell"
