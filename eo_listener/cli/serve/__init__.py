"""`eo-listener serve`: serves a page, and the page's numbers as JSON and for Prometheus.

- One thread reads the groups, and another runs the audit, at intervals that do not depend on the
  number of browsers. Each request has its own thread, which reads nothing from Kafka, and answers
  with the newest reading. (`Watched` fills a `View`, and `respond` makes each response from the
  `View`.)
- The page shows only current numbers: if a reading fails or does not end, the page shows no numbers
  until the next reading (`Newest`), and the charts have a gap.
- A reading that needs the AdminClient's group requests runs in a separate process, since these
  requests may end their process (`ManyGroups`, `AuditProcess`).
- HTML is built from elements (`elements.node`), never from joined text, and the
  Content-Security-Policy blocks scripts in it. The page needs no JavaScript: `page.js` only
  replaces the reload.
- The server answers only requests for the names of `AllowedHosts`, which prevents DNS rebinding.
  There is no cookie and no password, so everyone who can connect can read the page. Therefore the
  server by default listens only on this machine's loopback address.
- The code limits the points and groups in the history, the errors, rows and groups on a page, the
  characters of a name, the series, the connections, and the bytes of a request.
- Only one thread may use a StatusReader. The command's thread reads once before it serves, so that
  a wrong password or address ends the command with one error. Then it passes the reader to the
  reading thread.
"""

from eo_listener.cli.serve.command import EXAMPLE, serve

__all__ = ["EXAMPLE", "serve"]
