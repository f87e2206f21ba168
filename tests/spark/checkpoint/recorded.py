"""Checkpoints that Spark itself wrote, kept in one text file for each version of Spark.

The form: `{checkpoint: {path: content}}`, each byte of a content as one character (latin-1), so
that the zero bytes and checksums among them stay what they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "data" / "checkpoints"
VERSIONS = ("3.5.7", "4.0.0", "4.2.0")

Files = Mapping[str, bytes]


def write(path: Path, checkpoints: Mapping[str, Files]) -> None:
    """Write one version's checkpoints."""
    texts = {
        name: {path: content.decode("latin-1") for path, content in files.items()}
        for name, files in checkpoints.items()
    }
    path.write_text(json.dumps(texts, indent=1) + "\n")


def read(version: str) -> dict[str, dict[str, bytes]]:
    """Read one version's checkpoints."""
    texts = json.loads((FOLDER / f"{version}.json").read_text())
    return {
        name: {path: content.encode("latin-1") for path, content in files.items()}
        for name, files in texts.items()
    }


def unpack(version: str, name: str, folder: Path) -> Path:
    """Put a checkpoint back into a folder, and give that folder."""
    for path, content in read(version)[name].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder
