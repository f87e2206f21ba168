"""The command `eo-listener serve`: its options, its threads, and its end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from eo_listener.cli.audit import AuditOptions
from eo_listener.cli.group_status import StatusReader, is_pattern
from eo_listener.cli.options import (
    BootstrapServers,
    EveryGroup,
    GroupNames,
    KafkaProperties,
    as_properties,
    require_groups,
    require_names,
    with_options,
)
from eo_listener.cli.position_reader import AuditRequest
from eo_listener.cli.serve.audit_reading import AuditProcess
from eo_listener.cli.serve.page_server import AllowedHosts, PageServer, Response, respond
from eo_listener.cli.serve.watched import Watched
from eo_listener.cli.service import begin_log, stop_signals
from eo_listener.cli.spark_options import spark_for
from eo_listener.errors import SettingsError, UnavailableError
from eo_listener.model.argument_checks import require_seconds
from eo_listener.observers.bounded_server import LOOPBACK, require_address, require_port
from eo_listener.spark.checkpoint.location import shown

EXAMPLE = "Example: eo-listener serve 'spark-*' -b localhost:9092"
_PORT: Final = 9405
_WITHOUT: Final = (60.0, 5.0)  # seconds between two audits: default and minimum
_WITH_SPARK: Final = (300.0, 30.0)  # the same with a ledger in a table
_CLOSING: Final = 5.0  # seconds; a thread that still waits for Kafka then ends with the process


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The options of the page itself."""

    every: Annotated[float, typer.Option(help="Seconds between two readings of the groups.")] = 10.0
    port: Annotated[int, typer.Option(help="The port of the page; 0 for any free port.")] = _PORT
    address: Annotated[
        str,
        typer.Option(help="The address to listen on. Everyone who can reach it can read the page."),
    ] = LOOPBACK
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name under which the page is requested, such as a proxy's; repeatable."
        ),
    ] = None
    audit_every: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two audits; 60 if not given, 300 with a ledger in a table.",
            show_default=False,
        ),
    ] = None


@with_options
def serve(
    *,
    servers: BootstrapServers,
    names: GroupNames = None,
    every_group: EveryGroup = False,
    properties: KafkaProperties = None,
    page: PageOptions,
    places: AuditOptions,
) -> None:
    """Serve a page with groups, lag, verdicts and errors.

    Runs until Ctrl-C. With --checkpoint, --ledger or -g, the page also shows the findings of
    `eo-listener audit`. That audit compares the groups of -g or, without -g, the groups named for
    the page. The command reads Kafka and ledgers at an interval, and changes nothing. JSON:
    /api/status and /api/audit; Prometheus: /metrics; health: /healthz.
    """
    names = names or []
    require_groups(names, every=every_group)
    require_names("group", names)
    require_port(page.port, "--port")
    require_address(page.address, "--address")
    hosts = AllowedHosts(page.address, page.allow_host or ())
    every = require_seconds("--every", page.every, least=1.0)
    client = as_properties(servers, properties)
    has_audit = bool(places.checkpoint or places.ledgers or places.groups)
    if not has_audit and any(vars(places).values()):
        raise SettingsError(
            "options of an audit were given, but nothing to compare",
            fix="Add --checkpoint FOLDER, --ledger ADDRESS or -g GROUP",
        )
    groups = places.groups or [name for name in names if not is_pattern(name)]
    request = replace(places, groups=groups).request(client)
    _require_packages(request)
    usual, least = _WITH_SPARK if request.in_tables else _WITHOUT
    between = usual if page.audit_every is None else page.audit_every
    between = require_seconds("--audit-every", between, least=least)
    place = request.checkpoint
    watched = Watched(
        request.cluster,
        every=every,
        audit_every=between if has_audit else None,
        checkpoints={} if place is None else dict.fromkeys(request.groups, shown(place)),
    )
    begin_log(logging.INFO)
    reader = StatusReader(client, names, every=every_group, repeated=True)
    service = _Service(watched, reader, request if has_audit else None, between)
    service.run(page.address, page.port, hosts)


def _require_packages(request: AuditRequest) -> None:
    """Raise MissingExtraError if a package for the requested ledgers is missing.

    Without this check, the error would appear only on the page, because ledgers are read later.
    """
    spark = spark_for(request.ledgers, request.spark)
    for ledger in request.ledgers:
        with closing(ledger.open(request.properties, schema=request.schema, spark=spark)):
            pass


_PAUSE: Final = 0.5  # seconds between two readings at least, even if a reading takes long
STUCK: Final = 180.0
"""Seconds after which a reading counts as stuck, unless it may take longer to read tables."""

logger = logging.getLogger("eo_listener")


class Poller:
    """Calls `read` every `every` seconds, and for the first time after `wait` seconds.

    If `read` raises an unexpected error, the poller passes a text about the error to `failed`, and
    continues. A reading that takes longer than `stuck` seconds is a `problem`.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], None],
        failed: Callable[[str], None],
        *,
        every: float,
        wait: float = 0.0,
        stuck: float = STUCK,
    ) -> None:
        self.name = name
        self._stuck = stuck
        self._read, self._failed = read, failed
        self._every, self._wait = every, wait
        self._stop = threading.Event()
        self._since: float | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"eo-listener-serve-{name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float, interrupt: Callable[[], None]) -> bool:
        """Stop reading; return True if a reading in progress has ended within `seconds`.

        Meanwhile it calls `interrupt` again and again, to end a reading in progress.
        """
        self._stop.set()
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            interrupt()
            self._thread.join(0.2)
        return not self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """The reason why the readings have stopped, or None if they have not."""
        since = self._since
        if not self._thread.is_alive() and not self._stop.is_set():
            return f"the thread that reads the {self.name} has ended"
        if since is not None and (waited := time.monotonic() - since) > self._stuck:
            return f"a reading of the {self.name} has taken {waited:.0f} s and has not ended"
        return None

    def _run(self) -> None:
        wait = self._wait
        while not self._stop.wait(wait):
            self._since = began = time.monotonic()
            try:
                self._read()
            except Exception as fault:
                if self._stop.is_set():  # the reading was interrupted
                    return
                logger.exception("a fault in eo-listener, in reading the %s", self.name)
                self._failed(f"a fault in eo-listener: {type(fault).__name__}")
            self._since = None
            wait = max(_PAUSE, began + self._every - time.monotonic())


class _Service:
    """Runs the threads that read and serve, from the first reading to the last."""

    def __init__(
        self,
        watched: Watched,
        reader: StatusReader,
        request: AuditRequest | None,
        audit_every: float,
    ) -> None:
        self._watched, self._reader = watched, reader
        self._audit: AuditProcess | None = None
        self._pollers = [
            Poller(
                "groups",
                lambda: watched.try_groups(reader),
                watched.groups_failed,
                every=watched.every,
                wait=watched.every,
            )
        ]
        if request is not None:
            audit = self._audit = AuditProcess(request)
            self._pollers.append(
                Poller(
                    "audit",
                    lambda: watched.read_audit(audit),
                    watched.audit_failed,
                    every=audit_every,
                    stuck=max(STUCK, audit.longest + _CLOSING),
                )
            )

    def run(self, address: str, port: int, hosts: AllowedHosts) -> None:
        """Serve until a signal arrives. Raises EoListenerError if the server cannot start."""
        try:
            server = PageServer(address, port, self._answer, hosts)
        except OSError as error:
            raise UnavailableError(
                f"the page cannot be served at {address}:{port}: {error.strerror or error}",
                cause="another program uses that port, or the address does not belong to this "
                "machine",
                fix="Give another --port, or 0 for any free port",
            ) from error
        try:
            self._watched.read_groups(self._reader)
        except BaseException:
            server.stop()
            self._reader.close()
            raise
        self._serve(server)

    def _serve(self, server: PageServer) -> None:
        with stop_signals() as stopped:
            for poller in self._pollers:
                poller.start()
            server.start()
            host = str(server.server_address[0])
            shown = f"[{host}]" if ":" in host else host
            print(f"serving http://{shown}:{server.port}/ until Ctrl-C", flush=True)
            stopped.wait()
        server.stop()
        self._stop()

    def _stop(self) -> None:
        """End the threads that read, and interrupt readings in progress."""
        self._watched.close()
        each = _CLOSING / len(self._pollers)
        ended = [poller.stop(each, self._interrupt) for poller in self._pollers]
        self._interrupt()
        if ended[0]:
            self._reader.close()

    def _interrupt(self) -> None:
        """End the processes that read, so that no thread waits for them."""
        self._reader.interrupt()
        if self._audit is not None:
            self._audit.close()

    def _answer(self, target: str) -> Response:
        problems = [problem for poller in self._pollers if (problem := poller.problem) is not None]
        return respond(self._watched.view(), problems, target)
