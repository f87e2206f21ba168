"""Reads the checkpoint of a Spark query, on any storage; changes nothing.

It reads `metadata`, `offsets/N` (version 1, and version 2 of Spark 4.2, with sources by id or
name), `commits/N` (versions 1 to 3) and `sources/<i>/0`. It reads them through fsspec, so local and
remote storage share one code path.

- The newest committed batch is the newest in `commits/` whose `offsets/` file can be read:
  asynchronous progress tracking skips some numbers, Spark purges old files, and a crash leaves
  `offsets/N+1` behind.
- Only files with integers as names count, so temporary files do not. An empty, truncated, oversized
  or hostile file is reported by its name, and never read as an offset.
- On local file systems it also checks Hadoop's `.crc` files, which reveal a changed digit; on a
  storage without these files nothing can reveal it.
"""
