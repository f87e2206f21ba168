"""What the searches found, as a table at the end of the test run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Tell = Callable[[str], None]

_LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Add a line to the table."""
    lines: list[str] = request.config.stash.setdefault(_LINES, [])
    return lines.append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("model")
        for line in lines:
            terminalreporter.write_line(line)
