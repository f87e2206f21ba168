"""How `make size` counts lines of code."""

from __future__ import annotations

import pytest

from tests.size import code_lines

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
