"""How a command ends: one meaning of each number, in every command and for every error."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
FOUND: Final = 1
"""What the command is for was found, or is refused because of what was found."""
WRONG_USE: Final = 2
"""What was typed cannot be done as it is, or names what is not there."""
UNREACHABLE: Final = 3
"""What the command needs could not be reached, read or written; a right is missing, for example."""
FAULT: Final = 70
"""EX_SOFTWARE: a fault in eo_listener."""
STOPPED: Final = 130
"""What a shell says of a program that SIGINT has ended."""
READER_GONE: Final = 141
"""And SIGPIPE: `eo-listener status ... | head -1`."""
