"""The program `python -m eo_listener.bridge`, which the shim starts; do not start it by hand."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from eo_listener.bridge import process
from eo_listener.bridge.jvm_client import JvmClient
from eo_listener.bridge.messages import Hello
from eo_listener.bridge.service import BridgeService
from eo_listener.errors import EoListenerError, SettingsError
from eo_listener.model.fault_points import fault_point

BAD_SETTINGS: Final = 78  # EX_CONFIG of sysexits.h; after this code the shim starts no other bridge
_GRACE: Final = 3.0

logger = logging.getLogger("eo_listener")


def main() -> int:
    """Serve one driver; return the exit code."""
    process.ignore_signals()
    process.continue_when_driver_dies()
    process.log_to_driver()
    incoming, outgoing = process.take_pipes()
    try:
        first = incoming.readline()
        if not first:
            print("the shim in Spark's driver starts eo_listener.bridge", file=sys.stderr)  # noqa: T201  # shown to a user who runs it
            return 0
        hello = Hello.parse(first)
        process.log_to_driver(debug=hello.debug)
        service = BridgeService(hello, incoming, JvmClient(outgoing))
        fault_point("bridge.greeted")
        seconds = service.listen()
        process.die_after(seconds + _GRACE)
        service.close(seconds)
    except SettingsError as error:
        logger.error("%s", error)  # noqa: TRY400  # a user's mistake
        return BAD_SETTINGS
    except EoListenerError as error:
        logger.error("%s", error)  # noqa: TRY400  # one line is enough
        return error.exit_code
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for Kafka or for a line must not delay the exit
