"""The identity of a row within its batch, which a header of the row's record holds. No I/O.

Format 1, which only a sink without transactions writes. The header `eo-identity` is JSON:

    {"v":1,"w":"4ad1…","n":17,"id":["flights",0,5]}

`w` stands for the sink and the query. `n` is the number of the batch in their ledger. `id` has the
values of the identity's columns, in ASCII: bytes as hex, decimals and dates as text. Tasks write
the header with the shim's class IdentityText. This module makes the same text, to find existing
rows that a batch no longer has. The CRC-32 of the values determines the partition of a row without
a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from eo_listener.errors import FormatError, SettingsError
from eo_listener.sinks.newest_row import ORIGIN

HEADER: Final = "eo-identity"
FORMAT: Final = 1
_DIGITS: Final = 16  # 64 bits


class RowIdentity(NamedTuple):
    """The identity of a record's row: the row's writer, its batch, and the `values` as JSON."""

    writer: str
    batch: int
    values: str

    @classmethod
    def from_headers(cls, headers: Sequence[tuple[str, str | bytes | None]]) -> RowIdentity | None:
        """Return the identity from a record's headers; None if no sink of eo_listener wrote it.

        Raises FormatError for a record of a newer release, since it may be a row of the batch in
        question.
        """
        # The last such header: rows that were read from such a topic may already have one.
        text = next((value for name, value in reversed(headers) if name == HEADER), None)
        document = None if text is None else _parsed(text)
        if document is None:
            return None
        if document["v"] != FORMAT:
            raise FormatError(
                f"a record's header {HEADER} has format {document['v']!r}, not {FORMAT}",
                cause="a newer release of eo_listener writes to this topic",
                fix="Use that release",
            )
        try:
            return cls(str(document["w"]), int(document["n"]), _json(document["id"]))
        except (KeyError, TypeError, ValueError):
            return None


def around_values(writer: str, batch: int) -> tuple[str, str]:
    """Return the text before and after the values in the header of a batch's records."""
    return f'{{"v":{FORMAT},"w":"{writer}","n":{batch},"id":', "}"


def writer_of(sink: str, query: str) -> str:
    """Return the text that stands for a sink and query in the headers of their records."""
    return hashlib.sha256(_json([sink, query]).encode()).hexdigest()[:_DIGITS]


def identity_columns(schema: pa.Schema, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns whose values are the identity of a row.

    These are `names`, or by default the source's topic, partition and offset. Raises SettingsError
    if a column is missing or unsuitable.
    """
    id_columns = tuple(ORIGIN if names is None else names)
    missing = [name for name in id_columns if schema.names.count(name) != 1]
    if missing:
        raise SettingsError(
            f"the rows have no column {missing[0]!r}, only {', '.join(schema.names)}",
            cause="with transactions=False a row is recognised by its identity, which is "
            + (
                "the source's topic, partition and offset unless id= names other columns"
                if names is None
                else f"id={id_columns!r}"
            ),
            fix="Keep these columns in the transform, or name other columns that are "
            'unique together, id=("column", ...)',
        )
    for name in id_columns:
        kind = schema.field(name).type
        if not _is_exact(kind):
            raise SettingsError(
                f"the column {name!r} has type {kind}, which cannot be part of an identity",
                cause="its values have no canonical form",
                fix="Cast it to a string or an integer in the transform",
            )
    return id_columns


def identity_values(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[str]:
    """Yield the values of each row's identity, as JSON."""
    for cells in zip(*(rows.column(name).to_pylist() for name in columns), strict=True):
        yield _json(cells)


def _is_exact(kind: pa.DataType) -> bool:
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    numbers = (types.is_integer, types.is_boolean, types.is_decimal, types.is_date)
    return any(is_kind(kind) for is_kind in (*texts, *numbers))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_text)


def _text(value: Any) -> str:
    """Return a value that JSON cannot represent (bytes, a decimal or a date) as text."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _parsed(text: str | bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "v" in document else None
