"""Reads the checkpoint of a Spark query, on any storage; changes nothing.

It reads the files `metadata`, `offsets/N` (version 1, and version 2 of Spark 4.2, with sources by
id or name), `commits/N` (versions 1 to 3) and `sources/<i>/0` through fsspec, so that local and
remote storage share one code path.

- The newest committed batch is the newest batch in `commits/` whose `offsets/` file can be read:
  asynchronous progress tracking skips some numbers, Spark purges old files, and a crash leaves
  `offsets/N+1` behind.
- Only files whose names are integers count, so temporary files do not count. The package reports an
  empty, truncated, oversized or hostile file by its name, and takes no offset from it.
- On local file systems the package also checks Hadoop's `.crc` files, which reveal a changed digit.
  On a storage without these files nothing reveals a changed digit.
"""
