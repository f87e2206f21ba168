"""The campaigns, in parts: what has passed is not run again, what has failed is.

    python -m tests.campaign [--new] [--minutes N] [--jobs N] [arguments of pytest ...]
    python -m tests.campaign --report [arguments of pytest ...]

The first runs the tests marked `campaign` that have no outcome yet, then those that failed; each
outcome is a line of .campaign/record.jsonl as soon as it is known. A campaign goes on from commit
to commit until `--new` begins another; the report shows what passed on other commits as "older".
Arguments of pytest narrow both. This file is also the plugin of pytest that writes the record.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.outcomes import Outcome, is_worker, without_group, worst
from tests.run import run_pytest, say

RECORD: Final = Path(".campaign", "record.jsonl")
COLUMNS: Final = ("total", "passed", "older", "failed", "skipped", "left")
PLUGIN: Final = ("-p", "tests.campaign")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A line of the record: what became of a test; without one, that a campaign was started."""

    campaign: int
    commit: str
    test: str = ""
    outcome: Outcome | None = None
    seconds: float = 0.0
    when: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat()[:19])

    def append(self, record: Path) -> None:
        """Write the whole line at once, after what a killed process may have left of another."""
        record.parent.mkdir(exist_ok=True)
        with record.open("a+b", buffering=0) as file:
            file.seek(max(0, file.tell() - 1))
            broken = file.read() not in (b"", b"\n")
            file.write(b"\n" * broken + json.dumps(asdict(self)).encode() + b"\n")


def read(record: Path) -> list[Result]:
    """Return all results, oldest first, without a line that was not written to its end."""
    results = []
    for line in record.read_text().splitlines() if record.exists() else ():
        with suppress(ValueError):
            results.append(Result(**json.loads(line)))
    return results


def newest(record: Sequence[Result]) -> tuple[int, dict[str, Result]]:
    """Return the number of the newest campaign, 0 if there is none, and each test's last result."""
    number = max((result.campaign for result in record), default=0)
    return number, {one.test: one for one in record if one.test and one.campaign == number}


def left(tests: Iterable[str], results: Mapping[str, Result]) -> list[str]:
    """Return what is to be run: tests without an outcome, then those that failed."""
    some = [test for test in tests if test not in results or results[test].outcome == "failed"]
    return sorted(some, key=lambda test: test in results)


def report(tests: Sequence[str], results: Mapping[str, Result], commit: str) -> Iterator[str]:
    """Yield a line for each file; only what has passed on `commit` stands under "passed"."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[test.partition("::")[0]].append(test)
    width = max(map(len, (*files, "all")))
    yield " " * width + "".join(f"{name:>9}" for name in (*COLUMNS, "hours")) + "  commits"
    for file, inside in [*files.items(), ("all", tests)]:
        done = [results[test] for test in inside if test in results]
        counts = Counter(
            "older" if one.outcome == "passed" and one.commit != commit else one.outcome
            for one in done
        )
        counts.update(total=len(inside), left=len(inside) - len(done))
        numbers = "".join(f"{counts[name]:>9}" for name in COLUMNS)
        hours = sum(one.seconds for one in done) / 3600
        commits = " ".join(dict.fromkeys(one.commit for one in done))
        yield f"{file:{width}}{numbers}{hours:>9.2f}  {commits}".rstrip()
    for test in tests:
        if test in results and results[test].outcome == "failed":
            yield f"FAILED {test} on {results[test].commit}"


def commit_here() -> str:
    """Return the commit, with a plus if tracked files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def collected(arguments: Sequence[str]) -> list[str]:
    """Return the campaign's tests; end the program as pytest does if they cannot be collected."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--collect-only", "-m", "campaign", "--campaign-tests", f"{folder}/tests"]
        answer = run_pytest(*PLUGIN, *options, *arguments, capture_output=True)
        if answer.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            sys.stdout.write(answer.stdout + answer.stderr)
            sys.exit(answer.returncode)
        return Path(folder, "tests").read_text().splitlines()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", allow_abbrev=False)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=1)
    options, rest = parser.parse_known_args(arguments)
    until = time.time() + 60 * options.minutes
    commit, tests = commit_here(), collected(rest)
    number, results = newest(read(RECORD))
    if not options.report and (options.new or not number):
        number, results = number + 1, {}
        Result(campaign=number, commit=commit).append(RECORD)
    remaining = left(tests, results)
    say(f"campaign {number} on {commit}: {len(remaining)} of {len(tests)} tests to run")
    if options.report:
        say(*report(tests, results, commit))
    if options.report or not remaining:
        return pytest.ExitCode.OK
    before = len(read(RECORD))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(remaining))
        file.flush()
        how = [*PLUGIN, "--campaign", str(number), commit, "--campaign-until", str(until)]
        shared = ["-n", str(options.jobs), "--dist", "loadgroup"] if options.jobs > 1 else []
        code = run_pytest(*how, *shared, f"@{file.name}").returncode
    if code == pytest.ExitCode.INTERRUPTED and time.time() >= until:  # not by Ctrl-C
        failed = any(one.outcome == "failed" for one in read(RECORD)[before:])
        return pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
    return code


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign", nargs=2, help="Number and commit of what is to be recorded.")
    parser.addoption("--campaign-until", type=float, help="When no more tests are to be started.")
    parser.addoption("--campaign-tests", type=Path, help="Write the ids of the tests into FILE.")


def pytest_configure(config: pytest.Config) -> None:
    campaign = config.getoption("--campaign")
    if campaign and not is_worker(config):
        result = partial(Result, campaign=int(campaign[0]), commit=campaign[1])
        config.pluginmanager.register(_Recorder(result))


def pytest_collection_finish(session: pytest.Session) -> None:
    if file := session.config.getoption("--campaign-tests"):
        file.write_text("".join(f"{item.nodeid}\n" for item in session.items))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    until = item.config.getoption("--campaign-until")
    if until and time.time() >= until:
        item.session.shouldstop = "the minutes are over"


class _Recorder:
    def __init__(self, result: Callable[..., Result]) -> None:
        self._result = result
        self._reports: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test at its teardown, or when its worker has died."""
        test = without_group(report.nodeid)
        reports = self._reports[test]
        reports.append(report)
        if report.when not in ("setup", "call"):
            outcome = worst(one.outcome for one in reports)
            seconds = round(sum(one.duration for one in reports), 1)
            self._result(test=test, outcome=outcome, seconds=seconds).append(RECORD)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
