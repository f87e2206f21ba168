"""How `make size` counts lines of code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.size import code_lines, folders

PYTHON = '''"""A docstring
of two lines."""

# a comment
X = """a string

of three lines, one of them blank"""  # counted


def f(x: int) -> int:
    """Docstrings of functions count no more than others."""
    return (
        x
    )


class C:
    """Nor do those of classes."""

    field: int = 1
    """Nor those of attributes."""
'''
JAVA = '''/* a comment
 * of two lines */
class C { // behind code

  String url = "http://x"; /* open
  closed */ int x = 1;
  char quote = '"'; // "
  String block = """
      // text
      """;
}
'''


@pytest.mark.parametrize(
    ("suffix", "text", "code"),
    [
        (".py", PYTHON, 2 + 4 + 2),
        (".py", "", 0),
        (".py", 'def f(): "a docstring beside code"\n', 1),
        (".java", JAVA, 8),
        (".sql", "-- a comment\nSELECT '--', /* two\n lines */ 1\n\n;", 3),
        (".html", "<p>\n<!-- a comment\n<b> -->\n</p>", 2),
        (".js", "// a comment\nconst url = `//\n x`;", 2),
        (".css", "/* a comment */\np { color: red }", 1),
    ],
)
def test_code_is_neither_blank_nor_comment_nor_docstring(suffix: str, text: str, code: int) -> None:
    """A string is code, whatever it looks like; a line with code and a comment is code."""
    assert code_lines(text, suffix) == code


def test_folders_of_a_tree(tmp_path: Path) -> None:
    """Sinks have a row each, with what is below them."""
    texts = {
        "__init__.py": "",
        "sinks/__init__.py": "",
        "sinks/delta/sink.py": "from eo_listener.sinks import slice, shared, long\n",
        "sinks/delta/deep/file.py": "import eo_listener.sinks.shared\n",
        "sinks/slice.py": "x = 1\n",
        "sinks/shared.py": "x = 1\n",
        "sinks/long.py": "x = 1\n" * 60,
        "cli/a/b.py": "x = 1\n\n",
    }
    for name, text in texts.items():
        path = tmp_path / "eo_listener" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows = {
        name: (row["files"], row["lines"], row["Python"]) for name, row in folders(tmp_path).items()
    }
    assert rows == {
        "eo_listener": (1, 0, 0),
        "eo_listener/cli": (1, 2, 1),
        "eo_listener/sinks": (4, 62, 62),
        "eo_listener/sinks/delta": (2, 2, 2),
    }
