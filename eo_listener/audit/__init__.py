"""The gap proof: whether a store has each record of Kafka once, and what each gap is. Pure."""

from eo_listener.audit.facts import Claim, LogFacts, LogReader
from eo_listener.audit.findings import Finding, Gravity, Kind
from eo_listener.audit.proof import explain, prove
from eo_listener.audit.rows import RowFacts, read_rows

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
