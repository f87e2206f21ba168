"""What the listener costs a query (B1), and what the usual way costs beside it (B3).

B1 is measured on one query, beside which listeners come and go in turns (A B B A); B3 by processes
of their own, in turns too. Reported are the medians of the paired ratios with a bootstrap 95 %
interval; the two turns without any listener of each round are a pair as well, and tell how far the
machine can be trusted.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import libversion
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # no __all__
from rich.console import Console
from rich.table import Table

from eo_listener.broker import DEFAULT, Broker

RESULTS = Path(__file__).with_name("results")
BUS = ("ours", "ancestor", "ancestor", "ours")
Turns = dict[str, list[list[int]]]  # of one round: by arm, each turn's batch durations in ms
Held = dict[str, list[dict[str, float]]]  # by arm: ms an event on the bus thread, of each run


def run(module: str, *arguments: str) -> Any:
    """Run a module of this package, and return the JSON it printed last."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    return json.loads(answer.stdout.strip().splitlines()[-1])


def interval(ratios: list[float]) -> tuple[float, float]:
    """A bootstrap 95 % interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def compare(rounds: list[Turns], held: Held) -> dict[str, dict[str, float]]:
    """Pair the turns round by round, and give each ratio's median and interval."""

    def against(arm: str) -> list[float]:
        return [
            statistics.median(a) / statistics.median(b)
            for turns in rounds
            for a, b in zip(turns[arm], turns["none"], strict=True)
        ]

    pairs: dict[str, list[float]] = {
        "A/A: batch duration, no listener twice": [
            statistics.median(turns["none"][0]) / statistics.median(turns["none"][1])
            for turns in rounds
        ],
        "B1: batch duration, ours / no listener": against("ours"),
        "batch duration, ours with Kafka's address dead / no listener": against("dead"),
        "B3: bus thread held, consumer per event / ours": [
            a["mean"] / b["mean"] for a, b in zip(held["ancestor"], held["ours"], strict=True)
        ],
    }
    result = {}
    for name, ratios in pairs.items():
        low, high = interval(ratios)
        result[name] = {"median": statistics.median(ratios), "low": low, "high": high}
    return result


def main(rounds: int = 6, batches: int = 8) -> None:
    console = Console()
    held: Held = {}
    options = ["-XX:TieredStopAtLevel=4", "-Xmx1g"]
    with Broker(java_options=options) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("bench", 3, 1)])["bench"].result(timeout=30)
        console.print(f"batch durations: {rounds} rounds of {batches} batches a turn")
        turns: list[Turns] = run("turns", servers, "bench", str(rounds), str(batches))
        for arm in BUS:
            console.print(f"bus thread: {arm}")
            held.setdefault(arm, []).append(run("arm", servers, "bench", arm, "30"))
    ratios = compare(turns, held)
    table = Table(title="medians of paired ratios")
    for column in ("what", "ratio", "95 % interval"):
        table.add_column(column)
    for name, ratio in ratios.items():
        table.add_row(name, f"{ratio['median']:.3f}", f"{ratio['low']:.3f} to {ratio['high']:.3f}")
    console.print(table)
    p99 = max(run["p99"] for run in held["ours"])
    mean = statistics.mean(run["mean"] for run in held["ours"])
    console.print(
        f"bus thread held by ours: mean {mean:.2f} ms, greatest p99 {p99:.2f} ms an event"
    )
    versions = {
        "spark": pyspark.__version__,
        "kafka": DEFAULT,
        "librdkafka": libversion()[0],
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip(),
    }
    console.print(versions)
    RESULTS.mkdir(exist_ok=True)
    document = {"versions": versions, "ratios": ratios, "bus_ms": {"mean": mean, "p99": p99}}
    (RESULTS / "listener.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
