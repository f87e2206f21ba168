"""The gap proof: shows whether a store has each record of Kafka once, and explains each gap.

The proof itself reads and writes nothing.
"""

from eo_listener.audit.evidence import AppliedRange, LogFacts, LogReader
from eo_listener.audit.proof import AuditFinding, AuditFindingKind, Gravity, explain, prove
from eo_listener.audit.table_rows import RowFacts, read_rows

__all__ = [
    "AppliedRange",
    "AuditFinding",
    "AuditFindingKind",
    "Gravity",
    "LogFacts",
    "LogReader",
    "RowFacts",
    "explain",
    "prove",
    "read_rows",
]
