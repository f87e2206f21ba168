"""What the listener costs a query (B1), and what the usual way costs beside it (B3).

Arms are run as processes of their own, in turns (A B B A), against one broker. Reported are the
medians of the paired ratios with a bootstrap 95 % interval; the two runs without any listener of
each round are a pair as well, and tell how far the machine can be trusted.
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
ORDER = ("none", "ours", "dead", "ancestor", "ancestor", "dead", "ours", "none")
Run = dict[str, Any]


def run(servers: str, topic: str, arm: str, batches: int) -> Run:
    """Run one arm, and return what it printed."""
    command = [sys.executable, "-m", "benchmarks.arm", servers, topic, arm, str(batches)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: Run = json.loads(answer.stdout.strip().splitlines()[-1])
    return found


def interval(ratios: list[float]) -> tuple[float, float]:
    """A bootstrap 95 % interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def compare(rounds: list[dict[str, list[Run]]]) -> dict[str, dict[str, float]]:
    """Pair the arms round by round, and give each ratio's median and interval."""

    def batch(run: Run) -> float:
        return float(statistics.median(run["batches"]))

    def bus(run: Run) -> float:
        return float(run["bus"]["mean"])

    pairs: dict[str, list[float]] = {
        "A/A: batch duration, no listener twice": [
            batch(r["none"][0]) / batch(r["none"][1]) for r in rounds
        ],
        "B1: batch duration, ours / no listener": [
            batch(a) / batch(b) for r in rounds for a, b in zip(r["ours"], r["none"], strict=True)
        ],
        "batch duration, ours with Kafka's address dead / no listener": [
            batch(a) / batch(b) for r in rounds for a, b in zip(r["dead"], r["none"], strict=True)
        ],
        "batch duration, consumer per event / no listener": [
            batch(a) / batch(b)
            for r in rounds
            for a, b in zip(r["ancestor"], r["none"], strict=True)
        ],
        "B3: bus thread held, consumer per event / ours": [
            bus(a) / bus(b) for r in rounds for a, b in zip(r["ancestor"], r["ours"], strict=True)
        ],
    }
    result = {}
    for name, ratios in pairs.items():
        low, high = interval(ratios)
        result[name] = {"median": statistics.median(ratios), "low": low, "high": high}
    return result


def main(rounds: int = 2, batches: int = 150) -> None:
    console = Console()
    found: list[dict[str, list[Run]]] = []
    options = ["-XX:TieredStopAtLevel=4", "-Xmx1g"]
    with Broker(java_options=options) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("bench", 3, 1)])["bench"].result(timeout=30)
        for number in range(rounds):
            arms: dict[str, list[Run]] = {}
            for arm in ORDER:
                console.print(f"round {number + 1} of {rounds}: {arm}")
                arms.setdefault(arm, []).append(run(servers, "bench", arm, batches))
            found.append(arms)
    ratios = compare(found)
    table = Table(title="medians of paired ratios")
    for column in ("what", "ratio", "95 % interval"):
        table.add_column(column)
    for name, ratio in ratios.items():
        table.add_row(name, f"{ratio['median']:.3f}", f"{ratio['low']:.3f} to {ratio['high']:.3f}")
    console.print(table)
    ours = [r["bus"] for arms in found for r in arms["ours"]]
    p99 = max(bus["p99"] for bus in ours)
    mean = statistics.mean(bus["mean"] for bus in ours)
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
