"""Commit offsets to consumer groups: off Spark's thread, merged, retried, bounded."""
