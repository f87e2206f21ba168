"""Finds the shim's jar, and decodes the shim's answers about a running query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from eo_listener.errors import JvmError, UnavailableError
from eo_listener.model.offsets_json import read_offsets
from eo_listener.model.protocols import LivePosition
from eo_listener.model.shim_answers import read_answer
from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint.errors import Unreadable
from eo_listener.spark.checkpoint.log_files import parse_initial_offsets


def jar() -> Path:
    """Return the path of the shim's jar. Raises UnavailableError if there is no jar, or several."""
    folder = Path(__file__).parents[1] / "jars"
    jars = sorted(folder.glob("eo-listener-shim-*.jar"))
    if len(jars) == 1:
        return jars[0]
    names = ", ".join(file.name for file in jars)
    raise UnavailableError(
        f"{folder} holds several shim jars: {names}" if jars else f"{folder} has no shim jar",
        cause="each build leaves a jar" if jars else "it has not been built in this checkout",
        fix="In a clone, run make jar; otherwise install the wheel again",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """One source of a query.

    `index` is the source's place among the sources of a progress event. `options` are all options
    of the reader, with keys in lower case; a source that is not Kafka has none. Options may hold
    passwords, so `repr` does not show them.
    """

    index: int
    kafka: bool
    options: Mapping[str, str] = field(repr=False)


def sources(text: str) -> tuple[SourceOptions, ...]:
    """Read the answer of SourceInspector. Raises JvmError."""
    return tuple(
        SourceOptions(
            index=source["index"],
            kafka=source["kafka"],
            options=MappingProxyType(source["options"] or {}),
        )
        for source in read_answer(text)["sources"]
    )


def position(text: str) -> LivePosition | None:
    """Read the answer of PositionInspector. Raises JvmError."""
    answer = read_answer(text)
    if not answer["restored"]:
        return None
    texts = {source["index"]: source["offsets"] for source in answer["sources"]}
    return position_of(answer["batch"], texts)


def position_of(batch: int, texts: Mapping[int, str]) -> LivePosition:
    """Make a position from Spark's JSON of each source's offsets. Raises JvmError."""
    try:
        committed = {index: _offsets(text) for index, text in texts.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise JvmError(
            "Spark's JVM failed to read the completed offsets of the query",
            cause=f"its offsets have an unknown form ({type(error).__name__})",
        ) from error
    return LivePosition(batch_id=batch, committed=MappingProxyType(committed))


def beginnings(text: str) -> Mapping[int, Offsets]:
    """Read the answer of BeginningInspector. Raises JvmError."""
    sources = read_answer(text)["sources"]
    return beginnings_of({source["index"]: source["content"].encode() for source in sources})


def beginnings_of(contents: Mapping[int, bytes]) -> Mapping[int, Offsets]:
    """Return the offsets in each source's file `sources/<i>/0`. Raises JvmError."""
    try:
        offsets = {index: parse_initial_offsets(content) for index, content in contents.items()}
    except Unreadable as error:
        raise JvmError(
            "cannot determine the offsets at which the query began to read",
            cause=str(error.in_file("its file in sources/")),
        ) from error
    return {index: begins for index, begins in offsets.items() if begins is not None}


def _offsets(text: str) -> Offsets:
    offsets = read_offsets(text)
    if offsets is None:
        raise ValueError(text)
    return offsets
