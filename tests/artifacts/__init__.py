"""Maven artifacts, fetched once, checked, and kept: by the Ivy that ships inside Spark.

- Ivy comes out of the first Spark that has it, `$SPARK_HOME` or pyspark's, found without importing
  it. It gets settings of its own, so that neither `~/.m2` nor `~/.ivy2` is read
  (`EO_LISTENER_IVY_SETTINGS` names others, for a mirror).
- Files arrive in `.<name>.new` beside the folder, are hashed, get a `SHA256SUMS` (sha256sum's
  format), and appear by one rename under a file lock. Ivy's own cache (`.<name>.ivy`) exists only
  until then: an interrupted download continues where it stopped, and nothing is kept twice.
- Every use hashes every file (0.06 s for a broker). A changed, missing or additional jar is
  reported and fetched again, and never gets onto a class path.
"""

from tests.artifacts.class_archive import ClassArchive
from tests.artifacts.ivy import Artifact, DownloadError
from tests.artifacts.store import cache_folder, fetch

__all__ = ["Artifact", "ClassArchive", "DownloadError", "cache_folder", "fetch"]
