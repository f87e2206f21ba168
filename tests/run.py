"""Run the tests: most beside each other, those marked `alone` one at a time, and say how it went.

    python -m tests.run --jobs 3 --select "not slow and not campaign" [arguments of pytest ...]

What fails beside the others is run once more, alone. That tells a race from a fault, and excuses
neither: what fails twice has failed, and of those that pass then one at most is let through. Each
is named in the last lines, which also show where the time went.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.outcomes import Outcome, Record, read

ALLOWED = 1  # tests that fail beside the others and pass alone, before they fail the run
SLOWEST = 10
SHARE = 0.01  # of all seconds: what a folder needs to have a line of its own
_ENDED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a run ends: its last lines, and its exit code."""

    lines: tuple[str, ...]
    code: int


def judge(
    beside: Mapping[str, Outcome], alone: Mapping[str, Outcome], again: Mapping[str, Outcome]
) -> Verdict:
    """Judge the outcomes of the three runs; `again` holds those that failed beside the others."""
    failed = [test for test, outcome in {**beside, **alone}.items() if outcome == "failed"]
    unsteady = [test for test in failed if test in beside and again.get(test) == "passed"]
    fast = [test for test in failed if test not in unsteady]
    lines = [f"FAILED {test}" for test in fast]
    lines += [f"PASSED ONLY ALONE {test}" for test in unsteady]
    if unsteady:
        lines.append(
            f"{len(unsteady)} depend on the speed of the machine; {ALLOWED} is let through: "
            "find out why"
        )
    lost = len(fast) + (len(unsteady) if len(unsteady) > ALLOWED else 0)
    skipped = sum(outcome == "skipped" for outcome in (*beside.values(), *alone.values()))
    passed = len({**beside, **alone}) - lost - skipped
    lines.append(f"tests: {passed} passed, {lost} failed, {skipped} skipped")
    return Verdict(
        lines=tuple(lines), code=pytest.ExitCode.TESTS_FAILED if lost else pytest.ExitCode.OK
    )


def times(runs: Iterable[Mapping[str, Record]]) -> Iterator[str]:
    """Yield the lines that show where the time of the runs went: by folder, then by test."""
    tests: defaultdict[str, float] = defaultdict(float)
    folders: defaultdict[str, float] = defaultdict(float)
    about: dict[str, str] = {}
    for test, record in ((test, run[test]) for run in runs for test in run):
        tests[test] += record.seconds
        folders[_folder(test)] += record.seconds
        about[test] = record.about
    total = sum(tests.values())
    count = Counter(map(_folder, tests))
    shown = [name for name in _longest(folders) if folders[name] >= SHARE * total]
    rest = folders.keys() - set(shown)
    yield " seconds  tests  folder"
    for name in shown:
        yield f"{folders[name]:8.1f}  {count[name]:5}  {name}"
    if rest:
        seconds = sum(folders[name] for name in rest)
        yield f"{seconds:8.1f}  {sum(count[name] for name in rest):5}  {len(rest)} others"
    yield f"{total:8.1f}  {len(tests):5}  all"
    yield " seconds  slowest tests, and what each proves"
    for test in _longest(tests)[:SLOWEST]:
        yield f"{tests[test]:8.1f}  {test}"
        yield f"{'':8}  {about[test]}"


def _longest(seconds: Mapping[str, float]) -> list[str]:
    return sorted(seconds, key=lambda name: -seconds[name])


def _folder(test: str) -> str:
    """The folder of a test's file, no deeper than `tests/sinks/kafka`."""
    parts = PurePosixPath(test.partition("::")[0]).parent.parts
    return "/".join(parts[:3]) or "."


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--select", default="")
    options, rest = parser.parse_known_args(arguments)
    among = f"({options.select}) and " if options.select else ""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("beside", "alone", "again")]
        shared = ["-n", str(options.jobs), "--dist", "loadgroup"] if options.jobs > 1 else []
        codes = [_pytest(files[0], *shared, "-m", f"{among}not alone", *rest)]
        if codes[0] in _ENDED:
            say("== alone: what needs the machine to itself")
            codes.append(_pytest(files[1], "-m", f"{among}alone", *rest))
        beside, alone = read(files[0]), read(files[1])
        broken = [code for code in codes if code not in _ENDED]
        if broken:
            return broken[0]
        lost = [test for test, record in beside.items() if record.outcome == "failed"]
        if lost:
            say("== once more, alone: what failed beside the others")
            _pytest(files[2], *lost)
        runs = [beside, alone, read(files[2])]
        verdict = judge(*({test: run[test].outcome for test in run} for run in runs))
    say("== how it went", *verdict.lines[:-1], *times(runs), verdict.lines[-1])
    if pytest.ExitCode.TESTS_FAILED in codes and verdict.code == pytest.ExitCode.OK and not lost:
        # something that is no test: an error of a plugin, a warning at the end
        return pytest.ExitCode.TESTS_FAILED
    return verdict.code if beside or alone else pytest.ExitCode.NO_TESTS_COLLECTED


def _pytest(outcomes: Path, *arguments: str) -> int:
    return run_pytest("-p", "tests.outcomes", "--outcomes", str(outcomes), *arguments).returncode


def run_pytest(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process of its own; `how` is for `subprocess.run`."""
    # Without bytecode on disk each of some thousand processes compiles the package again: 0.3 s.
    kept = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, check=False, env=kept, text=True, **how)


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
