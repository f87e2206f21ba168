"""Read the checkpoint of a Spark query, wherever it lies; changes nothing.

`metadata`, `offsets/N` (v1; v2 of Spark 4.2, by id or name), `commits/N` (v1 to v3) and
`sources/<i>/0` are read through fsspec, so local and remote storage share one code path.

- The newest committed batch is the newest in `commits/` whose `offsets/` can be read: asynchronous
  progress tracking never writes some numbers, old ones are purged, and a crash leaves
  `offsets/N+1` behind.
- Only integer names count. Temporary, empty, torn, oversized and hostile files are each reported
  by name, and never become an offset.
- On local file systems Hadoop's `.crc` is checked too, which reveals a changed digit; a storage
  without it cannot show that.
"""
