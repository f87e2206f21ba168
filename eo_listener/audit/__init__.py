"""The gap proof: whether a store has each record of Kafka once, and what each gap is. Pure."""

from eo_listener.audit.evidence import Claim, LogFacts, LogReader
from eo_listener.audit.proof import explain, prove
from eo_listener.audit.table_rows import RowFacts, read_rows
from eo_listener.audit.verdict import Finding, Gravity, Kind

__all__ = [
    "Claim",
    "Finding",
    "Gravity",
    "Kind",
    "LogFacts",
    "LogReader",
    "RowFacts",
    "explain",
    "prove",
    "read_rows",
]
