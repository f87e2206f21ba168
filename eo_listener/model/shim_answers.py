"""The format of the shim's answers."""

from __future__ import annotations

import json
from typing import Any, Final

from eo_listener.errors import JvmError

FORMAT: Final = 1


def read_answer(text: str) -> Any:
    """Parse an answer of the shim. Raises JvmError if its format is not `FORMAT`."""
    answer = json.loads(text)
    if answer.get("v") != FORMAT:
        raise JvmError(
            f"the shim answers in format {answer.get('v')}, not {FORMAT}",
            cause="the jar given to Spark is a different version from this package",
            fix="Give Spark the jar that `eo-listener jar` names",
        )
    return answer
