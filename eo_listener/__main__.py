"""The command `eo-listener`, and `python -m eo_listener`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line.

    Importing `cli` takes a moment. A Ctrl-C in that moment ends the process by the signal's default
    action, without the traceback of the library that is being loaded.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:  # else SIGINT is ignored, as in a process that a shell runs in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from eo_listener import cli  # noqa: PLC0415  # see above

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
