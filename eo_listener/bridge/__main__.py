"""The program `python -m eo_listener.bridge`, which the shim starts; do not start it by hand."""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import sys
from typing import BinaryIO, Final

from eo_listener.bridge.messages import Hello
from eo_listener.bridge.service import BridgeService, JvmClient
from eo_listener.errors import EoListenerError, SettingsError
from eo_listener.model.fault_points import fault_point

BAD_SETTINGS: Final = 78  # EX_CONFIG of sysexits.h; after this code the shim starts no other bridge
_GRACE: Final = 3.0
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h

logger = logging.getLogger("eo_listener")


def main() -> int:
    """Serve one driver; return the exit code."""
    ignore_signals()
    continue_when_driver_dies()
    log_to_driver()
    incoming, outgoing = take_pipes()
    try:
        first = incoming.readline()
        if not first:
            print("the shim in Spark's driver starts eo_listener.bridge", file=sys.stderr)  # noqa: T201  # shown to a user who runs it
            return 0
        hello = Hello.parse(first)
        log_to_driver(debug=hello.debug)
        service = BridgeService(hello, incoming, JvmClient(outgoing))
        fault_point("bridge.greeted")
        seconds = service.listen()
        die_after(seconds + _GRACE)
        service.close(seconds)
    except SettingsError as error:
        logger.error("%s", error)  # noqa: TRY400  # a user's mistake
        return BAD_SETTINGS
    except EoListenerError as error:
        logger.error("%s", error)  # noqa: TRY400  # one line is enough
        return error.exit_code
    return 0


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Reserve standard input and output for the protocol, and return them.

    From then on, output of Python or of a C library goes to standard error.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")


def ignore_signals() -> None:
    """Ignore the signals that ask a process to end.

    The bridge ends when its pipe shows that the driver ends.

    A Ctrl-C, a closed terminal and a cluster manager signal all processes of a driver at once, but
    the bridge must still commit the last offsets.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:  # Windows has no SIGHUP
            signal.signal(number, signal.SIG_IGN)


def continue_when_driver_dies() -> None:
    """Have Linux continue this process, if it is stopped, when its driver dies.

    Otherwise a stopped process would stay forever.

    Linux also sends the signal when only the driver's thread that started the bridge ends, which
    does no harm.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT))


def die_after(seconds: float) -> None:
    """End this process after `seconds`, in whatever state it is.

    The thread that ends the process needs no running Python code.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def log_to_driver(*, debug: bool = False) -> None:
    """Log to standard error in the form that the shim reads: each line is `LEVEL text`."""
    logging.raiseExceptions = False  # if the driver is gone, nobody reads the error
    handler = logging.StreamHandler()
    handler.setFormatter(_EachLine("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)


class _EachLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname
        origin = "" if record.name == logger.name else f"{record.name}: "
        return "\n".join(f"{level} {origin}{line}" for line in super().format(record).splitlines())


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for Kafka or for a line must not delay the exit
