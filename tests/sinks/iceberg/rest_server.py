"""Iceberg's REST catalog: its own handlers and client, over a catalog of the tests.

It answers as a server of Iceberg 1.10 and before: a commit whose snapshot is numbered as another
one that came before is a malformed request (apache/iceberg#15001).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from tests.http_server import QuietHandler, serving
from tests.sinks.iceberg.java_tables import Catalog

_OVERTAKEN: Final = "older than last sequence"


class RestCatalog(Catalog):
    """The tables of another catalog over HTTP; `before` gets each change's number from 1."""

    def __init__(self, behind: Catalog) -> None:
        self.__dict__.update(behind.__dict__)
        self.behind = behind
        self.changes = self.malformed = 0
        self.before: Callable[[int], None] = lambda _: None
        self._client = self.jvm.org.apache.iceberg.rest.RESTCatalog()

    def connect(self, port: int) -> None:
        """Begin to ask the server, which answers by the `handler`."""
        self._client.setConf(self.jvm.org.apache.hadoop.conf.Configuration())
        settings = {
            "uri": f"http://127.0.0.1:{port}",
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "rest-metrics-reporting-enabled": "false",
        }
        self._client.initialize("rest", settings)

    def load(self, table: str) -> Any:
        return self._client.loadTable(self._name(table))

    def close(self) -> None:
        """End the client, not the JVM, which is the other catalog's."""
        self._client.close()

    def answer(self, path: str, body: str | None) -> tuple[int, str]:
        """A status and a document, for a request."""
        if path == "/v1/config":
            return 200, json.dumps({"defaults": {}, "overrides": {}})
        rest, name = self.jvm.org.apache.iceberg.rest, self._name(path.rpartition("/")[2])
        try:
            if body is None:
                found = rest.CatalogHandlers.loadTable(self.behind._catalog, name)
            else:
                request = rest.requests.UpdateTableRequestParser.fromJson(body)
                self.changes += 1
                self.before(self.changes)
                found = rest.CatalogHandlers.updateTable(self.behind._catalog, name, request)
            return 200, str(rest.responses.LoadTableResponseParser.toJson(found))
        except Py4JJavaError as error:
            thrown = error.java_exception
            said, kind = str(thrown.getMessage()), str(thrown.getClass().getSimpleName())
            code = 409 if kind == "CommitFailedException" else 500
            if _OVERTAKEN in said:
                self.malformed += 1
                code, kind = 400, "ValidationException"
            return code, json.dumps({"error": {"message": said, "type": kind, "code": code}})

    def handler(self) -> type[QuietHandler]:
        catalog = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
                self._answer(None)

            def do_POST(self) -> None:  # noqa: N802  # http.server's name for it
                self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def _answer(self, body: str | None) -> None:
                code, text = catalog.answer(self.path.partition("?")[0], body)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

        return Handler


@contextmanager
def rest_catalog(behind: Catalog) -> Iterator[RestCatalog]:
    catalog = RestCatalog(behind)
    with serving(catalog.handler()) as port:
        catalog.connect(port)
        try:
            yield catalog
        finally:
            catalog.close()
