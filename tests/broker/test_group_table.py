"""The table as kafka-consumer-groups of 3.9.2 and 4.1.2 printed them."""

from __future__ import annotations

import pytest

from eo_listener.model.errors import FormatError
from tests.broker import parse_rows

HEAD = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG       "
    "      CONSUMER-ID                                            HOST            CLIENT-ID\n"
)
MEMBERS = HEAD + (
    "g 1             t               0          5               28              23        "
    "      my app-0b1d4ed6-40d7-4f32-a8f5-0f6a0ab01d5a            /127.0.0.1      my app\n"
    "g 1             t               1          -               12              -         "
    "      -                                                      -               -\n"
)


def test_rows_are_read_with_and_without_a_member() -> None:
    """Offsets become numbers, `-` becomes None, and names may hold spaces."""
    owned, free = parse_rows(f"\nConsumer group 'g 1' has no active members.\n\n{MEMBERS}")
    assert (owned.group, owned.topic, owned.partition) == ("g 1", "t", 0)
    assert (owned.current_offset, owned.log_end_offset, owned.lag) == (5, 28, 23)
    assert owned.consumer_id == "my app-0b1d4ed6-40d7-4f32-a8f5-0f6a0ab01d5a"
    assert (owned.host, owned.client_id) == ("/127.0.0.1", "my app")
    assert (free.current_offset, free.log_end_offset, free.lag) == (None, 12, None)
    assert (free.consumer_id, free.host, free.client_id) == (None, None, None)


@pytest.mark.parametrize("text", ["", "\n", HEAD])
def test_no_table_has_no_rows(text: str) -> None:
    """An empty group prints no rows, and that is no error."""
    assert parse_rows(text) == ()


def test_a_row_of_another_form_is_refused() -> None:
    """A table of another command is not half understood."""
    with pytest.raises(FormatError):
        parse_rows(f"{HEAD}g 1             t               zero\n")
