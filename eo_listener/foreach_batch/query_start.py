"""Where a query began to read: asked before a batch that the ledger does not expect is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from eo_listener.foreach_batch.first_batch import is_doubtful
from eo_listener.model.errors import EoListenerError
from eo_listener.model.ledger import Head
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import PlanReader

logger = logging.getLogger("eo_listener")


def from_the_beginning(
    plans: PlanReader, plan: PlannedBatch, heads: Mapping[TopicPartition, Head]
) -> PlannedBatch:
    """The plan, of which nothing counts as read by earlier batches that they did not read.

    The function may have returned without a call of ours while its batches were empty. Where the
    beginning cannot be known the plan stays as it is.
    """
    if not is_doubtful(plan, heads):
        return plan
    try:
        return plan.began_at(plans.began(plan))
    except EoListenerError as error:
        logger.warning(
            "Whether batches before batch %s have read anything is not known, so it is assumed: "
            "where the query began to read could not be found out: %s",
            plan.batch_id,
            error,
        )
        return plan
