"""MERGE by key into a Delta table: the newest row stays, or the batch is refused."""

from __future__ import annotations

import pytest

from eo_listener.errors import SettingsError
from tests.sinks.chapters.upsert_by_merge import UpsertByMergeChapter
from tests.sinks.delta.test_tables import DeltaTarget, table

__all__ = ["table"]

pytestmark = [pytest.mark.spark]


class TestUpsert(DeltaTarget, UpsertByMergeChapter):
    """Into a table by its path."""

    @pytest.mark.slow
    def test_a_key_that_is_padded_is_refused(self) -> None:
        """It would be inserted with each batch; Spark's schema calls it a string."""
        self.make_table({"id": "char(3)", "word": "string"})
        with pytest.raises(SettingsError, match=r"'id' is string in the rows and char\(3\)"):
            self.merge("SELECT 'ab' id, 'a' word")
        assert self.read("id") == []
