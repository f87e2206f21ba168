"""What is read of Spark: where it is, spark-defaults.conf and PYSPARK_SUBMIT_ARGS."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from eo_listener.errors import SettingsError
from eo_listener.spark.session import installation
from eo_listener.spark.session.configure import SubmitArguments
from eo_listener.spark.session.installation import Installation, read_settings
from tests.artifacts.ivy import ivy_jar


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where Spark looks for its defaults."""
    return tmp_path / "spark-defaults.conf"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("# spark.a 1\n! spark.b 2\n\n   \n", {}),
        ("spark.a=1\nspark.b:2\nspark.c 3", {"spark.a": "1", "spark.b": "2", "spark.c": "3"}),
        ("spark.a 1\nspark.a 2\n", {"spark.a": "2"}),
        ("spark.a b.jar,\\\n   c.jar\n", {"spark.a": "b.jar,c.jar"}),
        ("spark.a C:\\\\x\\u0041\\\n", {"spark.a": "C:\\xA"}),
        ("spark.a", {"spark.a": ""}),
        ("spark.a -Dx=y -Dz=w", {"spark.a": "-Dx=y -Dz=w"}),
        ("spark.a 1\r\nspark.b 2\rspark.c 3", {"spark.a": "1", "spark.b": "2", "spark.c": "3"}),
        ("spark.a f\u00fcr\u2028\U0001f6e9", {"spark.a": "f\u00fcr\u2028\U0001f6e9"}),
    ],
)
def test_the_file_is_read_as_java_does(text: str, settings: dict[str, str], file: Path) -> None:
    """Comments, separators, escapes and continued lines; its text is UTF-8."""
    file.write_bytes(text.encode())
    assert read_settings(file) == settings


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 2 \t", "1 2"),
        ("\\ \\t1", "1"),
        ("1\\n", "1\n"),
        ("\\r1\\r\\n ", "\r1\r\n"),
        ("\xa01", "\xa01"),
    ],
)
def test_values_are_trimmed_as_spark_trims_them(written: str, value: str, file: Path) -> None:
    """Of blanks and control characters, but not of ends of lines and of other spaces."""
    file.write_bytes(f"  spark.a \t = \t {written}".encode())
    assert read_settings(file) == {"spark.a": value}


def test_no_file(file: Path) -> None:
    """A file that is not there holds no settings."""
    assert read_settings(file) == {}


@pytest.mark.parametrize(
    ("held", "why"), [(b"spark.a \xff\xfe", "UTF-8"), (b"spark.a C:\\users\n", r"\u")]
)
def test_a_file_that_cannot_be_read(held: bytes, why: str, file: Path) -> None:
    """Spark would not start with it: the file and the reason are named, and nothing of a value."""
    file.write_bytes(held)
    with pytest.raises(SettingsError, match=r"spark-defaults\.conf cannot be read") as caught:
        read_settings(file)
    assert why in str(caught.value)
    assert "sers" not in str(caught.value)


SPARK_SQL = "spark-sql_2.13-4.0.99.jar"


def make_spark(home: Path, *jars: str) -> Path:
    (home / "jars").mkdir(parents=True)
    for jar in jars:
        (home / "jars" / jar).touch()
    return home


@pytest.mark.parametrize("ivy", [(), ("ivy-2.5.99.jar",)])
def test_spark_home_comes_before_pyspark(
    ivy: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All who look for Spark take what SPARK_HOME names; if it lacks Ivy, any Ivy will do."""
    home = make_spark(tmp_path / "spark", SPARK_SQL, *ivy)
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert installation.spark_homes()[0] == home
    assert Installation.find().home == home
    assert (home in ivy_jar().parents) is bool(ivy)


def test_without_either_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable names nothing, and pyspark may not be installed."""
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert installation.spark_homes() == ()


def test_pyspark_is_found_without_importing_it() -> None:
    """Looking for it costs no second and runs nothing of it."""
    program = (
        "import sys; from eo_listener.spark.session import installation as i; "
        "assert i.spark_homes();"
        "sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    "text",
    [
        "pyspark-shell",
        "--jars a.jar,b.jar pyspark-shell",
        "--verbose --conf spark.x='a b' --master 'local[2]' pyspark-shell",
        "--supervise --jars '/with space/a.jar' job.py --jars not-ours.jar",
    ],
)
def test_round_trip(text: str) -> None:
    """What is written is read back the same."""
    read = SubmitArguments.parse(text)
    assert SubmitArguments.parse(read.render()) == read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("pyspark-shell", None),
        ("--jars a.jar pyspark-shell", "a.jar"),
        ("--jars=a.jar pyspark-shell", "a.jar"),
        ("--jars a.jar --jars b.jar pyspark-shell", "b.jar"),
        ("--conf spark.jars=c.jar pyspark-shell", "c.jar"),
        ("-c spark.jars=c.jar pyspark-shell", "c.jar"),
        ("--conf=spark.jars=c.jar --conf spark.jars=d.jar pyspark-shell", "d.jar"),
        ("--jars a.jar --conf spark.jars=c.jar pyspark-shell", "a.jar"),
        ("--verbose --jars a.jar pyspark-shell", "a.jar"),
        ("--name --jars pyspark-shell --jars a.jar", None),
        ("--conf spark.jars.packages=g:a:1 pyspark-shell", None),
        ("job.py --jars a.jar", None),
    ],
)
def test_setting(text: str, value: str | None) -> None:
    """The value of spark.jars is the one that spark-submit would take."""
    assert SubmitArguments.parse(text).setting("spark.jars") == value


def test_with_setting() -> None:
    """A setting is said once, and all else stays."""
    text = "--name n --jars a.jar --conf spark.jars=b.jar --conf spark.x=1 --jars=c.jar job.py -v"
    changed = SubmitArguments.parse(text).with_setting("spark.jars", "z.jar")
    assert changed.render() == "--name n --conf spark.x=1 --jars z.jar job.py -v"


def test_shell_is_added() -> None:
    """Without a program to run, Spark needs the word pyspark-shell at the end."""
    assert SubmitArguments.parse("--name n").render() == "--name n pyspark-shell"


@pytest.mark.parametrize("text", ["--jars", "--conf 'open", "--verbose --name"])
def test_unreadable(text: str) -> None:
    """What cannot be read is an error that names the variable."""
    with pytest.raises(SettingsError, match="PYSPARK_SUBMIT_ARGS"):
        SubmitArguments.parse(text)
