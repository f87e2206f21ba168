"""The gap proof: shows whether a store has each record of Kafka once, and explains each gap.

The proof itself reads and writes nothing.
"""

from eo_listener.audit.evidence import AppliedRange, LogFacts, LogReader, RowFacts, read_rows
from eo_listener.audit.proof import AuditFinding, AuditFindingKind, Gravity, explain, prove

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
