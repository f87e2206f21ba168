"""Write the generated documents: `python -m tests.documents`, or `make docs`."""

from __future__ import annotations

from tests.documents.markdown import DOCS
from tests.documents.runbook import runbook

PAGES = {"reference/runbook.md": runbook}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (DOCS / name).write_text(made())
