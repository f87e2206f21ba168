"""Compact all tables of the lakehouse, expire their snapshots, and remove orphan files.

The jobs may run meanwhile. Without --execute it only says what there is to do.

python -m examples.lakehouse.maintain lake-data [--execute] [--expire-after-hours 168]
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from eo_listener import maintain_iceberg
from examples.lakehouse import settings

TABLES = (
    settings.RAW_FLIGHTS,
    settings.RAW_WEATHER,
    settings.HOURLY_WEATHER,
    settings.ENRICHED,
)


def main(folder: Path, expire_after: timedelta, *, execute: bool) -> None:
    """Print each step of each table."""
    spark = settings.session(folder, "maintain")
    for table in TABLES:
        for step in maintain_iceberg(table, expire_after=expire_after, execute=execute):
            print(f"{table}: {step}")
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--expire-after-hours", type=float, default=168)
    arguments = parser.parse_args()
    main(arguments.folder, timedelta(hours=arguments.expire_after_hours), execute=arguments.execute)
