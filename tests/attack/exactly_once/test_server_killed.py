"""PostgreSQL killed under a driver that goes on living: the batch is neither lost nor doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.attack.exactly_once.lives import END, Lives
from tests.attack.exactly_once.store import Database
from tests.attack.faults import Fault
from tests.attack.zombies import Puppet
from tests.broker import Broker
from tests.postgres_server import PostgresServer, running
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WRITE_METHODS = ["driver", "staging"]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that may be killed."""
    with running() as one:
        yield one


Attack = Callable[[str, str, Callable[[Puppet], None]], None]


@pytest.fixture
def attack(broker: Broker, server: PostgresServer, tmp_path: Path) -> Attack:
    """Hold a driver at a point of its second batch, have it killed there, and let it go on."""

    def attacked(write_method: str, point: str, kill: Callable[[Puppet], None]) -> None:
        dsn, own = server.dsn(), {"write_method": write_method}
        store, servers = Database.postgres(dsn), broker.bootstrap_servers
        lives = Lives.begin(servers, store, dsn, tmp_path, store="postgres", sink=own)
        lives.fill(lives.job.batch)
        with lives.run({point: Fault(do="stop", nth=2)}) as driver:
            driver.await_that(driver.frozen, END, f"standstill at {point}")
            kill(driver)
            driver.await_line(("drained", "failed"), END)
            assert driver.end() == 0
        lives.check("after the server's death")
        lives.finish()

    return attacked


@pytest.mark.parametrize("write_method", WRITE_METHODS)
@pytest.mark.parametrize("point", ["sink.copying", "sink.ledger-moved", "sink.commit-sent"])
def test_killed_there(
    attack: Attack, server: PostgresServer, point: str, write_method: str
) -> None:
    """SIGKILL to server and backends in COPY, before or in COMMIT: no record lost or doubled."""

    def kill(driver: Puppet) -> None:
        server.kill()
        server.start()
        driver.thaw()

    attack(write_method, point, kill)


@pytest.mark.parametrize("write_method", WRITE_METHODS)
def test_killed_when_the_commit_was_durable_and_nobody_had_said_so(
    attack: Attack, server: PostgresServer, write_method: str
) -> None:
    """The transaction is on disk and waits for a standby that never comes; the answer is lost."""

    def kill(driver: Puppet) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as link:
            link.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            link.execute("SELECT pg_reload_conf()")
            driver.thaw()
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            until(lambda: link.execute(waits).fetchone() == (1,), 30)
        configuration = server.folder / "data" / "postgresql.auto.conf"
        configuration.write_text("")
        server.kill()
        server.start()

    attack(write_method, "sink.ledger-moved", kill)
