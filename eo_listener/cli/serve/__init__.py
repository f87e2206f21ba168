"""`eo-listener serve`: serves one page, and its numbers also as JSON and for Prometheus.

- One thread reads the groups and another runs the audit, at an interval that does not depend on the
  number of browsers. Each request has its own thread, which reads nothing, and answers with the
  newest reading (`Watched` fills a `View`, from which `responses` makes each response).
- The page shows only current numbers: if a reading fails or does not end, it shows none until the
  next reading (`Newest`). The charts have a gap there.
- A reading that needs AdminClient's group requests runs in a separate process, since these requests
  may end the process that makes them (`ManyGroups`, `AuditProcess`).
- HTML is built from elements (`elements.node`) and never from joined text; the
  Content-Security-Policy also blocks scripts in it. The page needs no JavaScript: `page.js` only
  replaces the reload.
- The server answers only requests for the names of `AllowedHosts`, which prevents DNS rebinding.
  There is no cookie and no password: everyone who can connect can read. So the default address is
  this machine's loopback.
- Everything that grows is limited: points and groups of the history, errors, rows and groups of a
  page, characters of a name, series, connections, and bytes of a request.
- Only one thread may use a StatusReader: the command's thread reads once before it serves, so that
  a wrong password or address ends the command with one error, and then hands the reader over.
"""

from eo_listener.cli.serve.command import EXAMPLE, serve

__all__ = ["EXAMPLE", "serve"]
