"""A sink without transactions, with the product's own steps: what may happen to its drivers."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.unfenced.histories import KINDS, Kind, search
from tests.sinks.kafka.frames import without_spark


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name.replace(" ", "-"))
def test_no_history_breaks_a_rule(kind: Kind, tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    """After deaths each row is there once, in order; else what is there twice is named."""
    without_spark(monkeypatch)
    taken = search(kind)
    tell(f"unfenced: {kind.name:<22} {taken:>6,} histories")
    assert taken > 0
