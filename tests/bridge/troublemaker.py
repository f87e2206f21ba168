"""Faults inside a bridge, for EO_LISTENER_FAULT_POINTS; EO_TROUBLE names one."""

from __future__ import annotations

import os
import threading


def fault_point(name: str) -> None:
    """Make trouble at its place."""
    match os.environ["EO_TROUBLE"], name:
        case "prints", "bridge.greeted":
            print("a library says hello", flush=True)  # noqa: T201  # that is the trouble
            os.write(1, b"and so does C\n")
        case "fails", "bridge.line":
            raise ZeroDivisionError
        case "hangs", "snapshot.before-request":
            threading.Event().wait()
        case _:
            pass
