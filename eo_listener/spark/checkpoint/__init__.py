"""Reads the checkpoint of a Spark query, on any storage; changes nothing.

It reads `metadata`, `offsets/N` (v1; v2 of Spark 4.2, by id or name), `commits/N` (v1 to v3) and
`sources/<i>/0` through fsspec, so local and remote storage share one code path.

- The newest committed batch is the newest in `commits/` whose `offsets/` file can be read:
  asynchronous progress tracking skips some numbers, Spark purges old files, and a crash leaves
  `offsets/N+1` behind.
- Only integer names count, so temporary files do not. Empty, truncated, oversized and hostile files
  are each reported by name, and never become an offset.
- On local file systems Hadoop's `.crc` files are checked too, which reveals a changed digit; a
  storage without them cannot show that.
"""
