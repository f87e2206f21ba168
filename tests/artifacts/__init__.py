"""Fetch Maven artifacts once, prove that they are the right ones, and keep them.

The work is done by the Ivy that ships inside Spark: neither Maven nor a container is needed.

- Ivy comes out of the first Spark that has it, `$SPARK_HOME` or pyspark's, found without importing
  it. There is one generated `ivy.xml`, so that versions are reconciled in one graph, and a
  settings file of our own, so that neither `~/.m2` nor `~/.ivy2` is read
  (`EO_LISTENER_IVY_SETTINGS` names another, for a mirror).
- Files arrive in `.<name>.new` beside the folder, are hashed, get a `SHA256SUMS` (sha256sum's
  format), and appear by one rename under a file lock. Ivy's own cache (`.<name>.ivy`) exists only
  until then: an interrupted download continues where it stopped, and nothing is kept twice. Of a
  version that does not exist only the log stays, which the error names, and the empty lock file:
  to remove that could give two processes the lock.
- Every use hashes every file (0.06 s for a broker). A changed, missing or additional jar is
  reported and fetched again, and never gets onto a class path. For 4.1.2 and 3.9.2 the names and
  hashes in the package decide; for other versions the repository's checksums and the manifest do.
"""

from tests.artifacts.ivy import Artifact
from tests.artifacts.store import CACHE_VARIABLE, cache_folder, fetch, verify

__all__ = ["CACHE_VARIABLE", "Artifact", "cache_folder", "fetch", "verify"]
