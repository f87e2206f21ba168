"""The benchmarks run, and say whether their numbers count."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks.ratios import Figure, Ratio, verdict
from tests.processes import finished

ROOT = Path(__file__).parents[1]
NO_PROGRAMS = {"__init__", "arm", "distance", "query", "ratios", "sink_arms", "steps", "turns"}
# The shortest form of each, by the documents that it keeps.
SHORTEST = {
    "benchmarks 1 --warm-up 2 --events 3": ["listener"],
    "benchmarks.by_partition 1 1600": ["by-partition-1600-2"],
    "benchmarks.cluster 1 160": ["cluster"],
    "benchmarks.committer 60 3 4": ["committer"],
    "benchmarks.fixed_cost 1 1": ["fixed-cost"],
    "benchmarks.guard 1": ["guard"],
    "benchmarks.kafka_latency 1 2 100 2": ["kafka-latency"],
    "benchmarks.kafka_sink 1 1000 100": ["kafka-sink-100", "kafka-sink-1000"],
    "benchmarks.lake delta upsert 1 1600": ["lake-delta-upsert"],
    "benchmarks.lake iceberg append 1 1600": ["lake-iceberg-append"],
    "benchmarks.lake iceberg merge 1 1600": ["lake-iceberg-merge"],
    "benchmarks.sinks 1 1000": ["sinks-1000"],
    "benchmarks.status 1 3 2": ["status"],
}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", SHORTEST)
def test_a_benchmark_runs_in_its_shortest_form(command: str, tmp_path: Path) -> None:
    """It ends well, prints a table and a verdict, and keeps its documents."""
    own = {**os.environ, "EO_BENCH_RESULTS": str(tmp_path)}
    answer = finished([sys.executable, "-m", *command.split()], cwd=ROOT, env=own, timeout=850)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1].startswith("targets: ")
    assert "│" in answer.stdout  # of a table
    documents = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(documents) == SHORTEST[command]
    for document in documents.values():
        assert document["ratios"] or document["figures"]
        assert set(document["verdict"]) <= set(answer.stdout.splitlines())


def test_every_benchmark_has_a_shortest_form() -> None:
    """A new one is added to the table, or it could be broken and nobody would see it."""
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - NO_PROGRAMS
    named = {command.split()[0].partition(".")[2] or "__main__" for command in SHORTEST}
    assert modules == named


@pytest.mark.parametrize(
    ("ratios", "figures", "lines"),
    [
        ({"B": 1.06}, [1.0], ["missed: B", "targets: 1 of 2 met"]),
        ({"B": 1.05}, [2.5], ["missed: time", "targets: 1 of 2 met"]),
        ({"B": 1.0, "A/A": 0.96}, [], ["void: A/A", "targets: 1 of 1 met"]),
        ({"B": 2.0, "A/A": 1.031}, [], ["void: A/A", "missed: B", "targets: 0 of 1 met"]),
        ({"B": 1.0, "A/A": 0.97}, [2.0], ["targets: 2 of 2 met"]),
    ],
)
def test_a_run_ends_with_what_it_missed(
    ratios: dict[str, float], figures: list[float], lines: list[str]
) -> None:
    """A missed target is named; where an A/A pair is not within 0.97 to 1.03, all are void."""
    measured = [
        Ratio.of(name, [value], [1.0], target, at_most=True, same=target is None)
        for name, value in ratios.items()
        for target in [None if name == "A/A" else 1.05]
    ]
    times = [Figure(name="time", value=value, unit="s", target=2.0) for value in figures]
    for line, begin in zip(verdict(measured, times), lines, strict=True):
        assert line.startswith(begin)


@pytest.mark.parametrize(("value", "missed"), [(0.9, False), (0.89, True)])
def test_a_speed_should_reach_its_target(value: float, missed: bool) -> None:
    """For a ratio of rows a second more is better."""
    assert (Ratio.of("B", [value], [1.0], 0.9).missed is not None) == missed
