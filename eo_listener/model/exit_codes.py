"""How a command ends: one meaning of each number, in every command and for every error."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
FOUND: Final = 1
"""The command found what it looks for, or was refused because of its findings."""
WRONG_USE: Final = 2
"""The command line cannot be carried out, or names something that does not exist."""
UNREACHABLE: Final = 3
"""Something that the command needs could not be reached, read or written; a permission is missing,
for example.
"""
FAULT: Final = 70
"""EX_SOFTWARE: a fault in eo_listener."""
STOPPED: Final = 130
"""The exit status that a shell reports for a program ended by SIGINT."""
READER_GONE: Final = 141
"""And SIGPIPE: `eo-listener status ... | head -1`."""
