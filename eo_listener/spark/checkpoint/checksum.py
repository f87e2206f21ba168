"""The `.name.crc` files that Hadoop keeps beside the files of a local file system.

Source: org.apache.hadoop.fs.ChecksumFileSystem: `crc`, a zero byte, the bytes in each chunk as
four bytes, then the CRC-32 of each chunk.
"""

from __future__ import annotations

import struct
import zlib

_MARK = b"crc\0"


def name(file: str) -> str:
    """The name of a file's checksum."""
    return f".{file}.crc"


def matches(held: bytes, checksum: bytes) -> bool:
    """Whether `held` is what the checksums were made of; True where they are another's format."""
    if not checksum.startswith(_MARK) or len(checksum) < len(_MARK) + 4:
        return not _MARK.startswith(checksum[: len(_MARK)])
    (chunk,) = struct.unpack_from(">I", checksum, len(_MARK))
    return chunk > 0 and checksum[len(_MARK) + 4 :] == _sums(held, chunk)


def _sums(held: bytes, chunk: int) -> bytes:
    chunks = (held[start : start + chunk] for start in range(0, len(held), chunk))
    return b"".join(struct.pack(">I", zlib.crc32(one)) for one in chunks)
