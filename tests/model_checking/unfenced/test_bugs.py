"""T6 of the sink without transactions: bugs planted in it are found."""

from __future__ import annotations

import pytest

from tests.model_checking.bugs import Bug, planted
from tests.model_checking.conftest import Tell
from tests.model_checking.ledger import Broken
from tests.model_checking.unfenced.bugs import BUGS
from tests.model_checking.unfenced.histories import KINDS, search
from tests.sinks.kafka.frames import without_spark


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug, tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories in which nothing is wrong show this change of one decision."""
    without_spark(monkeypatch)
    with planted(bug), pytest.raises(Broken) as caught:
        search(KINDS[bug.scope])
    tell(f"unfenced: {bug.name:<28} {bug.scope:<18} {str(caught.value)[:150]}")
