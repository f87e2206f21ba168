"""`eo-listener serve`: one page, and the same numbers as JSON and for Prometheus.

- One thread reads the groups and one the audit, at an interval, however many browsers ask. Who
  asks is answered with the newest reading, by a thread of its own that reads nothing (`Watched`
  fills a `View`, from which `responses` makes each answer).
- A number that is not current is not shown: if a reading fails or does not end, no numbers are
  shown until the next one (`Newest`). The charts have a gap there.
- Both are read in processes of their own where AdminClient's group requests are needed, since these
  may end the process that makes them (`ManyGroups`, `AuditProcess`).
- HTML is made of elements (`elements.node`) and never of joined text; the Content-Security-Policy
  would run nothing in it either. The page needs no JavaScript: `page.js` only replaces the reload.
- Only the names of `AllowedHosts` are answered, which prevents DNS rebinding. There is no cookie
  and no password: whoever can connect may read. So the default address is this machine's loopback.
- Everything that grows is limited: points and groups of the history, errors, rows and groups of a
  page, characters of a name, series, connections, and bytes of a request.
- StatusReader is for one thread: the command's reads once before it serves, so that a wrong
  password or address ends the command with one error, and then hands it to the thread.
"""

from eo_listener.cli.serve.command import EXAMPLE, serve

__all__ = ["EXAMPLE", "serve"]
