"""Kafka's messages, read and written by the definitions (JSON) that Kafka ships in its jars."""

from __future__ import annotations

import functools
import json
import re
import struct
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.broker import DEFAULT, Release

Fields = dict[str, Any]

_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "uint32": struct.Struct(">I"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_EMPTY: Final = {"string": "", "bytes": b"", "records": None, "uuid": uuid.UUID(int=0)}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range such as "2-5", "4+", "7" or "none"."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), 1 << 15)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class Source:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next bytes. Raises EOFError where there are fewer."""
        if count < 0 or self.at + count > len(self._data):
            raise EOFError(f"{count} bytes wanted at {self.at} of {len(self._data)}")
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        form = _NUMBERS[kind]
        return form.unpack(self.take(form.size))[0]

    def unsigned(self) -> int:
        """A number of variable length, seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed(self) -> int:
        """The same in zigzag: 0, -1, 1, -2, ..."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)


def unsigned(value: int) -> bytes:
    """Write what `Source.unsigned` reads."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Message:
    """One of Kafka's messages, in all its versions. Fields are named as in its definition."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.name = str(definition["name"])
        self._fields = definition.get("fields", [])  # removed requests have none
        self._structs = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}
        self._flexible = Versions.parse(definition.get("flexibleVersions"))

    def flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version in self._flexible

    def decode(self, version: int, data: bytes | Source) -> Fields:
        source = data if isinstance(data, Source) else Source(data)
        return self._read(self._fields, version, source)

    def encode(self, version: int, values: Mapping[str, Any]) -> bytes:
        """Write a message; fields that are left out get their default, tagged ones none."""
        return b"".join(self._write(self._fields, version, values))

    def _read(self, fields: list[Mapping[str, Any]], version: int, source: Source) -> Fields:
        found: Fields = {}
        tagged = {}
        for field in fields:
            if version in Versions.parse(field.get("taggedVersions")):
                tagged[field["tag"]] = field
            elif version in Versions.parse(field["versions"]):
                found[field["name"]] = self._read_one(field, field["type"], version, source)
        if self.flexible(version):
            for _ in range(source.unsigned()):
                tag, data = source.unsigned(), source.take(source.unsigned())
                if tag in tagged:
                    name, kind = tagged[tag]["name"], tagged[tag]["type"]
                    found[name] = self._read_one(tagged[tag], kind, version, Source(data))
        return found

    def _read_one(self, field: Mapping[str, Any], kind: str, version: int, source: Source) -> Any:
        if kind in _NUMBERS:
            return source.number(kind)
        if kind == "uuid":
            return uuid.UUID(bytes=source.take(16))
        if kind in ("string", "bytes", "records") or kind.startswith("[]"):
            length = self._length(field, kind, version, source)
            if length < 0:
                return None
            if kind.startswith("[]"):
                return [self._read_one(field, kind[2:], version, source) for _ in range(length)]
            data = source.take(length)
            return data.decode() if kind == "string" else data
        if version in Versions.parse(field.get("nullableVersions")) and source.number("int8") < 0:
            return None
        return self._read(self._inside(field, kind), version, source)

    def _length(self, field: Mapping[str, Any], kind: str, version: int, source: Source) -> int:
        if self._compact(field, version):
            return source.unsigned() - 1
        return int(source.number("int16" if kind == "string" else "int32"))

    def _write(
        self, fields: list[Mapping[str, Any]], version: int, values: Mapping[str, Any]
    ) -> Iterator[bytes]:
        for field in fields:
            if version in Versions.parse(field.get("taggedVersions")):
                continue
            if version in Versions.parse(field["versions"]):
                value = values[field["name"]] if field["name"] in values else _default(field)
                yield from self._write_one(field, field["type"], version, value)
        if self.flexible(version):
            yield unsigned(0)

    def _write_one(
        self, field: Mapping[str, Any], kind: str, version: int, value: Any
    ) -> Iterator[bytes]:
        if kind in _NUMBERS:
            yield _NUMBERS[kind].pack(value)
        elif kind == "uuid":
            yield value.bytes
        elif kind in ("string", "bytes", "records") or kind.startswith("[]"):
            data = value.encode() if isinstance(value, str) else value
            yield self._lengthy(field, kind, version, -1 if data is None else len(data))
            if kind.startswith("[]"):
                for one in value or ():
                    yield from self._write_one(field, kind[2:], version, one)
            elif data is not None:
                yield data
        else:
            if version in Versions.parse(field.get("nullableVersions")):
                yield _NUMBERS["int8"].pack(-1 if value is None else 1)
            if value is not None:
                yield from self._write(self._inside(field, kind), version, value)

    def _lengthy(self, field: Mapping[str, Any], kind: str, version: int, length: int) -> bytes:
        if self._compact(field, version):
            return unsigned(length + 1)
        return _NUMBERS["int16" if kind == "string" else "int32"].pack(length)

    def _compact(self, field: Mapping[str, Any], version: int) -> bool:
        own = field.get("flexibleVersions")
        return version in (Versions.parse(own) if own else self._flexible)

    def _inside(self, field: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
        fields: list[Mapping[str, Any]] = field.get("fields") or self._structs[kind]
        return fields


def _default(field: Mapping[str, Any]) -> Any:
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return given in (True, "true")
    if kind in _NUMBERS:
        return float(given or 0) if kind == "float64" else int(str(given or 0), 0)
    return given if given is not None else _EMPTY[kind]


class Messages:
    def __init__(self, version: str = DEFAULT) -> None:
        self._named: dict[str, Message] = {}
        self._requests: dict[int, str] = {}
        for definition in _definitions(version):
            self._named[definition["name"]] = Message(definition)
            if definition["type"] == "request":
                self._requests[definition["apiKey"]] = definition["name"].removesuffix("Request")

    def __getitem__(self, name: str) -> Message:
        """The message of this name, such as "OffsetCommitRequest"."""
        return self._named[name]

    def api_name(self, api: int) -> str:
        """What Kafka calls an api, such as "OffsetCommit" for 8."""
        return self._requests.get(api, str(api))

    def api(self, name: str) -> int:
        """The number of an api. Raises KeyError for one that Kafka does not have."""
        return {name: key for key, name in self._requests.items()}[name]

    def request(self, api: int) -> Message:
        return self._named[self._requests[api] + "Request"]

    def reply(self, api: int) -> Message:
        return self._named[self._requests[api] + "Response"]

    def reply_head(self, api: int, version: int, correlation: int) -> bytes:
        """The header of a reply; that of ApiVersions is never flexible, so that all can read it."""
        flexible = self.request(api).flexible(version) and self.api_name(api) != "ApiVersions"
        return _NUMBERS["int32"].pack(correlation) + (unsigned(0) if flexible else b"")


@functools.cache
def _definitions(version: str) -> tuple[Mapping[str, Any], ...]:
    found = []
    for jar in Release(version=version).jars:
        if not re.match(r"kafka-(clients|group-coordinator)-\d", jar.name):
            continue
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                if re.fullmatch(r"common/message/\w+\.json", name):
                    text = re.sub(r"(?m)^\s*//.*$", "", files.read(name).decode())
                    found.append(json.loads(text))
    return tuple(found)
