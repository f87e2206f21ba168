"""Rows that cannot be sent: to the topic for dead letters, or the error that names the first."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from eo_listener.kafka.record_producer import TooLargeError
from eo_listener.sinks.ledger_sql import now_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eo_listener.kafka.batch_producer import BatchProducer
    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.dead_letter_limit import Refusals
    from eo_listener.sinks.dead_letters import DeadLetter


@dataclass(kw_only=True)
class DeadLetters:
    """Sends the dead letters of one batch, and counts them; `topic` None: there is no such topic.

    A letter is JSON. Its `row` is null where it would be larger than the client may send.
    """

    label: str
    topic: str | None
    entry: Entry
    refusals: Refusals

    def send(self, producer: BatchProducer, letters: Sequence[DeadLetter]) -> None:
        """Send `letters` to the topic, in the transaction of `producer`.

        Raises PoisonRowError: for the first where there is no topic, and where there are more than
        the sink's max_dead_letters.
        """
        # A letter's origin is taken from columns named topic and partition. In this sink these say
        # where the row was to go.
        plain = [replace(one, topic=None, partition=None, offset=None) for one in letters]
        if plain and self.topic is None:
            raise plain[0].error(self.label)
        self.refusals.add(plain)
        put_at = now_text(datetime.now(timezone.utc))
        for one in plain:
            letter = {
                "query": self.entry.query,
                "query_id": self.entry.query_id,
                "run_id": self.entry.run_id,
                "batch_id": self.entry.batch_id,
                "reason": one.reason,
                "row": one.row,
                "put_at": put_at,
            }
            try:
                producer.send(self.topic or "", _text(letter))
            except TooLargeError:
                producer.send(self.topic or "", _text({**letter, "row": None}))


def _text(letter: dict[str, object]) -> bytes:
    return json.dumps(letter, ensure_ascii=False).encode()
