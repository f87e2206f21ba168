"""spark-defaults.conf, read as Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.spark.session.installation import read_settings


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
def test_the_file_is_understood_as_java_does(
    text: str, settings: dict[str, str], file: Path
) -> None:
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


def test_unreadable_file(file: Path) -> None:
    """A file that is no text is an error that names it."""
    file.write_bytes(b"spark.a \xff\xfe")
    with pytest.raises(SettingsError, match=r"spark-defaults\.conf cannot be read"):
        read_settings(file)


def test_an_escape_that_java_refuses(file: Path) -> None:
    """Spark would not start with it: the error says what is wrong, and shows nothing of a value."""
    file.write_text("spark.a C:\\users\n")
    with pytest.raises(SettingsError, match=r"cannot be read: a \\u in it") as caught:
        read_settings(file)
    assert "sers" not in str(caught.value)
    assert caught.value.fix == r"Write \\ where a backslash is meant"
