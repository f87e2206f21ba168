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
from typing import Any, Final

import pyspark
from confluent_kafka import libversion
from rich.console import Console
from rich.table import Table

TRUSTED: Final = (0.97, 1.03)  # of an A/A pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median of paired ratios, with its bootstrap 95 % interval.

    `target` is what it should reach, or stay below (`at_most`); None: none set. `same` is an A/A
    pair, one arm measured twice: it shows how far the machine can be trusted.
    """

    name: str
    median: float
    low: float
    high: float
    target: float | None = None
    at_most: bool = False
    same: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        over: Sequence[float],
        under: Sequence[float],
        target: float | None = None,
        *,
        at_most: bool = False,
        same: bool = False,
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
            same=same,
        )

    @property
    def missed(self) -> str | None:
        """What it should have been, if it is not."""
        if self.target is None or (
            self.median <= self.target if self.at_most else self.median >= self.target
        ):
            return None
        return (
            f"{self.name}: {self.median:.3f}, target {'<=' if self.at_most else '>='} {self.target}"
        )

    @property
    def void(self) -> str | None:
        """Why nothing that was measured beside it counts, if so."""
        low, high = TRUSTED
        if not self.same or low <= self.median <= high:
            return None
        return f"{self.name}: {self.median:.3f}, not within {low} to {high}"

    def cells(self) -> tuple[str, str, str, str]:
        """Name, median, interval and target, for a table."""
        wanted = "" if self.target is None else f"{'<=' if self.at_most else '>='} {self.target}"
        return self.name, f"{self.median:.3f}", f"{self.low:.3f} to {self.high:.3f}", wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its unit that should not be greater than its target."""

    name: str
    value: float
    unit: str
    target: float

    @property
    def missed(self) -> str | None:
        """What it should have been, if it is not."""
        if self.value <= self.target:
            return None
        return f"{self.name}: {self.value:.1f} {self.unit}, target <= {self.target:g} {self.unit}"


def print_table(console: Console, title: str, ratios: Sequence[Ratio]) -> None:
    """Print them under one another."""
    table = Table(title=title)
    for column in ("what", "ratio", "95 % interval", "target"):
        table.add_column(column)
    for ratio in ratios:
        table.add_row(*ratio.cells())
    console.print(table)


def verdict(ratios: Sequence[Ratio], figures: Sequence[Figure]) -> list[str]:
    """The last lines of a run: whether its numbers count, and which targets it missed."""
    void = [f"void: {ratio.void}" for ratio in ratios if ratio.void]
    missed = [ratio.missed for ratio in ratios if ratio.missed]
    missed += [figure.missed for figure in figures if figure.missed]
    targets = len(figures) + sum(ratio.target is not None for ratio in ratios)
    met = f"targets: {targets - len(missed)} of {targets} met" if targets else "targets: none"
    return [*void, *(f"missed: {text}" for text in missed), met]


def conclude(
    console: Console,
    name: str,
    about: Mapping[str, Any],
    ratios: Sequence[Ratio],
    figures: Sequence[Figure] = (),
    *,
    measured: Mapping[str, Any],
) -> None:
    """Print the verdict, and write a document of results with what was measured in detail."""
    lines = verdict(ratios, figures)
    console.print(about)
    console.print(*lines, sep="\n", soft_wrap=True, markup=False, highlight=False)
    folder = Path(os.environ.get("EO_BENCH_RESULTS", Path(__file__).with_name("results")))
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "versions": about,
        "verdict": lines,
        "ratios": [asdict(ratio) for ratio in ratios],
        "figures": [asdict(figure) for figure in figures],
        **measured,
    }
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
