"""spark-defaults.conf, read as java.util.Properties does."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.spark.session import java_properties


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("# spark.a 1\n! spark.b 2\n\n   \n", {}),
        ("spark.a 1", {"spark.a": "1"}),
        ("spark.a=1\nspark.b:2\n", {"spark.a": "1", "spark.b": "2"}),
        ("  spark.a \t = \t 1 2  \n", {"spark.a": "1 2"}),
        ("spark.a 1\nspark.a 2\n", {"spark.a": "2"}),
        ("spark.a b.jar,\\\n   c.jar\n", {"spark.a": "b.jar,c.jar"}),
        ("spark.a C:\\\\x\\u0041\\\n", {"spark.a": "C:\\xA"}),
        ("spark\\ a\\=b 1", {"spark a=b": "1"}),
        ("spark.a", {"spark.a": ""}),
        ("spark.a -Dx=y -Dz=w", {"spark.a": "-Dx=y -Dz=w"}),
        ("spark.a 1\r\nspark.b 2\r\n", {"spark.a": "1", "spark.b": "2"}),
    ],
)
def test_parse(text: str, settings: dict[str, str]) -> None:
    """Comments, separators, escapes and continued lines are understood."""
    assert java_properties.parse(text) == settings


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there holds no settings."""
    assert java_properties.read(tmp_path / "spark-defaults.conf") == {}


def test_unreadable_file(tmp_path: Path) -> None:
    """A file that is no text is an error that names it."""
    file = tmp_path / "spark-defaults.conf"
    file.write_bytes(b"spark.a \xff\xfe")
    with pytest.raises(SettingsError, match=r"spark-defaults\.conf cannot be read"):
        java_properties.read(file)
