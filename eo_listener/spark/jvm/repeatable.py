"""Whether the rows of two DataFrames can be compared by computing them."""

from __future__ import annotations

from typing import Any

from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_query import elements


def repeat_the_same(one: Any, other: Any) -> bool:
    """Whether both (classic DataFrames) are made of the same data, by deterministic steps.

    Rows of a checkpoint, or that come from Python, are data of their own: how they were made is
    not known any more. Raises JvmError.
    """
    with asking("compare the plans of two DataFrames"):
        plans = [frame._jdf.queryExecution().analyzed() for frame in (one, other)]  # noqa: SLF001  # pyspark shows no plan
        if not all(plan.deterministic() for plan in plans):
            return False
        ours, theirs = (list(elements(plan.collectLeaves())) for plan in plans)
        return len(ours) == len(theirs) and all(
            leaf.sameResult(other) for leaf, other in zip(ours, theirs, strict=True)
        )
