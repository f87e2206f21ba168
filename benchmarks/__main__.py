"""What the listener costs a query (B1), compared with the usual way (B3).

    python -m benchmarks [ROUNDS] [--only {B1,B3}] [--warm-up BATCHES] [--events BATCHES]

B1 is measured on one query, to which listeners are added in turns (A B B A), once with nothing to
do in a batch and once with a second of work; B3 in separate processes, in turns too. Reported are
the medians of the paired ratios with a bootstrap 95 % interval. The two turns of each round without
any listener are a pair as well (A/A), and show how far the machine can be trusted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from rich.console import Console

from benchmarks.query import Load, fill
from benchmarks.ratios import Figure, Ratio, conclude, environment, print_table
from tests.broker import DEFAULT, Broker

TOPIC = "bench"
TURNS: dict[Load, int] = {"nothing": 8, "second": 2}  # batches of a turn
BUS = ("ours", "ancestor", "ancestor", "ours")
Turns = dict[str, list[float]]  # of one round: by arm, ms a batch of each of its turns
Held = dict[str, list[dict[str, float]]]  # by arm: ms an event on the bus thread, of each run


def run(module: str, *arguments: str) -> Any:
    """Run a module of this package, and return the JSON it printed last."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    return json.loads(answer.stdout.strip().splitlines()[-1])


def batches(load: Load, rounds: list[Turns]) -> list[Ratio]:
    """B1, round by round: both turns of each, so that an even drift of the machine cancels out."""
    over, under = ([sum(turns[arm]) for turns in rounds] for arm in ("ours", "none"))
    first, second = zip(*(turns["none"] for turns in rounds), strict=True)
    return [
        Ratio.of(f"A/A: a batch, no listener twice ({load})", first, second, same=True),
        Ratio.of(f"B1: a batch, ours / no listener ({load})", over, under, 1.01, at_most=True),
    ]


def main(rounds: int, only: str | None, warm_up: int, events: int) -> None:
    console = Console()
    ratios: list[Ratio] = []
    figures: list[Figure] = []
    measured: dict[str, Any] = {}
    with Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as broker:
        servers = broker.bootstrap_servers
        fill(servers, TOPIC)
        if only != "B3":
            for load, count in TURNS.items():
                console.print(f"batches of {load}: {rounds} rounds of {count} batches a turn")
                turns = run("turns", servers, TOPIC, load, *map(str, (rounds, count, warm_up)))
                measured[load] = turns
                ratios += batches(load, turns)
                none = statistics.median(one for round_ in turns for one in round_["none"])
                console.print(f"a batch without a listener: {none:.0f} ms")
        if only != "B1":
            held: Held = {}
            for arm in BUS:
                console.print(f"bus thread: {arm}")
                held.setdefault(arm, []).append(
                    run("arm", servers, TOPIC, arm, *map(str, (events, warm_up)))
                )
            means = {arm: [one["mean"] for one in runs] for arm, runs in held.items()}
            name = "B3: bus thread held, consumer per event / ours"
            ratios.append(Ratio.of(name, means["ancestor"], means["ours"], 50))
            p99 = max(one["p99"] for one in held["ours"])
            mean = statistics.mean(means["ours"])
            console.print(
                f"bus thread held by ours: mean {mean:.2f} ms, greatest p99 {p99:.2f} ms an event"
            )
            figures.append(
                Figure(name="B1: p99 of an event on the bus", value=p99, unit="ms", target=2)
            )
            measured["bus"] = held
    about = {**environment(), "kafka": DEFAULT}
    print_table(console, "medians of paired ratios", ratios)
    conclude(console, "listener", about, ratios, figures, measured=measured)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("rounds", nargs="?", type=int, default=40)
    parser.add_argument("--only", choices=("B1", "B3"))
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--events", type=int, default=30, help="of each arm of B3")
    given = parser.parse_args()
    main(given.rounds, given.only, given.warm_up, given.events)
