"""Rows that cannot be sent: put into their topic, or the first of them named."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from eo_listener.sinks.ledger_sql import now_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.dead_letter_limit import Refusals
    from eo_listener.sinks.dead_letters import DeadLetter


@dataclass(kw_only=True)
class DeadLetters:
    """Makes records of dead letters, and counts them; `topic` is None where there is none."""

    label: str
    topic: str | None
    entry: Entry
    refusals: Refusals

    def records(self, letters: Sequence[DeadLetter]) -> list[bytes]:
        """What to send to the topic, in this transaction.

        Raises PoisonRowError for the first where there is no topic, or where they are more than
        may be.
        """
        # What the columns topic and partition say is where a row was to go, not where it is from.
        plain = [replace(one, topic=None, partition=None, offset=None) for one in letters]
        if plain and self.topic is None:
            raise plain[0].error(self.label)
        self.refusals.add(plain)
        put_at = now_text(datetime.now(timezone.utc))
        return [
            json.dumps(
                {
                    "query": self.entry.query,
                    "query_id": self.entry.query_id,
                    "run_id": self.entry.run_id,
                    "batch_id": self.entry.batch_id,
                    "reason": one.reason,
                    "row": one.row,
                    "put_at": put_at,
                },
                ensure_ascii=False,
            ).encode()
            for one in plain
        ]
