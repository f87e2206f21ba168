"""What the demo can be asked for, and which options mean nothing together."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from examples.demo.__main__ import KILLS, kills_wanted
from examples.demo.demo_settings import DemoStore

NOTHING: dict[str, Any] = {"dsn": None, "chaos": False, "kills": None}


@pytest.mark.parametrize("sink", list(DemoStore))
def test_every_sink_can_have_its_driver_killed(sink: DemoStore) -> None:
    """As often as was said, or as usual; not at all without --chaos."""
    assert kills_wanted(sink, **NOTHING) == 0
    assert kills_wanted(sink, **{**NOTHING, "chaos": True}) == KILLS
    assert kills_wanted(sink, **{**NOTHING, "chaos": True, "kills": 7}) == 7


@pytest.mark.parametrize(
    ("sink", "given", "fix"),
    [
        (None, {"chaos": True}, "Add --sink"),
        (DemoStore.KAFKA, {"kills": 3}, "Add --chaos"),
        (DemoStore.KAFKA, {"dsn": "postgresql://"}, "Add --sink postgres"),
    ],
)
def test_what_means_nothing_together(
    sink: DemoStore | None, given: dict[str, Any], fix: str
) -> None:
    """Is refused, and what to add is said."""
    with pytest.raises(SettingsError, match=fix):
        kills_wanted(sink, **{**NOTHING, **given})
