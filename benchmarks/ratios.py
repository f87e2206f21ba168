"""From paired rounds to a ratio one can believe: medians, and how far they can be trusted."""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import libversion
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median of paired ratios, with its bootstrap 95 % interval.

    `target` is what it should reach, or stay below (`at_most`); None: none set.
    """

    name: str
    median: float
    low: float
    high: float
    target: float | None = None
    at_most: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        over: Sequence[float],
        under: Sequence[float],
        target: float | None = None,
        *,
        at_most: bool = False,
    ) -> Ratio:
        """Of `over / under`, pair by pair."""
        ratios = [a / b for a, b in zip(over, under, strict=True)]
        rng = random.Random(1)
        medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
        return cls(
            name=name,
            median=statistics.median(ratios),
            low=medians[50],
            high=medians[1949],
            target=target,
            at_most=at_most,
        )

    def document(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    def cells(self) -> tuple[str, str, str, str]:
        """Name, median, interval and target, for a table."""
        wanted = "" if self.target is None else f"{'<=' if self.at_most else '>='} {self.target}"
        return self.name, f"{self.median:.3f}", f"{self.low:.3f} to {self.high:.3f}", wanted


def print_table(console: Console, title: str, ratios: Sequence[Ratio]) -> None:
    """Print them under one another."""
    table = Table(title=title)
    for column in ("what", "ratio", "95 % interval", "target"):
        table.add_column(column)
    for ratio in ratios:
        table.add_row(*ratio.cells())
    console.print(table)


def keep(name: str, about: Mapping[str, Any], ratios: Sequence[Ratio], **measured: Any) -> None:
    """Write a document of results, with what was measured in detail."""
    folder = Path(__file__).with_name("results")
    folder.mkdir(exist_ok=True)
    document = {"versions": about, "ratios": [ratio.document() for ratio in ratios], **measured}
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")


def environment() -> dict[str, Any]:
    """Versions, machine, load and commit, which belong to every number."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "spark": pyspark.__version__,
        "librdkafka": libversion()[0],
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "commit": commit,
    }
