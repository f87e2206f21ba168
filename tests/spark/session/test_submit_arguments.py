"""PYSPARK_SUBMIT_ARGS, read and written as Spark does."""

from __future__ import annotations

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.spark.session.submit_arguments import SubmitArguments


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
    assert SubmitArguments.parse("").render() == "pyspark-shell"
    assert SubmitArguments.parse("--name n").render() == "--name n pyspark-shell"


@pytest.mark.parametrize("text", ["--jars", "--conf 'open", "--verbose --name"])
def test_unreadable(text: str) -> None:
    """What cannot be read is an error that names the variable."""
    with pytest.raises(SettingsError, match="PYSPARK_SUBMIT_ARGS"):
        SubmitArguments.parse(text)
