"""Iceberg's tables in a JVM without Spark: real metadata and commits, data files of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import is_branch_of_any
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.spark.jvm.iceberg_errors import java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.made_up_entries import Row
from tests import iceberg_jars

NAMESPACE = "db"


class Catalog:
    """A catalog in a SQLite database with one namespace, and tables of one column."""

    def __init__(self, folder: Path) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        launched = launch_gateway(
            jarpath=str(next(jars.glob("py4j*.jar"))),
            classpath=os.pathsep.join([*map(str, iceberg_jars.jars()), f"{jars}/*"]),
            javaopts=["-XX:TieredStopAtLevel=1", "-Xmx300m"],
            die_on_exit=True,
        )
        parameters = GatewayParameters(port=launched, auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self.gateway.jvm
        self.folder = folder
        self._numbers = count()
        package = self.jvm.org.apache.iceberg
        self._catalog = package.jdbc.JdbcCatalog()
        self._catalog.setConf(self.jvm.org.apache.hadoop.conf.Configuration())
        settings = {
            "uri": f"jdbc:sqlite:{folder}/catalog.db",
            "warehouse": f"file:{folder}/files",
            "jdbc.schema-version": "V1",
        }
        self._catalog.initialize("lake", settings)
        names = self.gateway.new_array(self.jvm.java.lang.String, 1)
        names[0] = NAMESPACE
        self._namespace = package.catalog.Namespace.of(names)
        self._catalog.createNamespace(self._namespace)

    def close(self) -> None:
        self.gateway.shutdown()

    def create(self) -> str:
        name = f"t{next(self._numbers)}"
        types = self.jvm.org.apache.iceberg.types.Types
        fields = self.gateway.new_array(types.NestedField, 1)
        fields[0] = types.NestedField.optional(1, "word", types.StringType.get())
        schema = self.jvm.org.apache.iceberg.Schema(fields)
        self._catalog.createTable(self._name(name), schema, self._unpartitioned())
        return name

    def load(self, table: str) -> Any:
        return self._catalog.loadTable(self._name(table))

    def table(self, table: str) -> IcebergTable:
        return IcebergTable(SimpleNamespace(_jvm=self.jvm), self.load(table))

    def branches(self, table: str) -> int:
        return sum(map(is_branch_of_any, self.table(table).branches))

    def append(
        self, table: str, rows: Sequence[Row], *, branch: str = "main", ledger: str | None = None
    ) -> None:
        """Append rows; others than the sink have no ledger."""
        added = self.load(table).newAppend().toBranch(branch)
        if ledger is not None:
            added = added.set(PROPERTY, ledger)
        if rows:
            added = added.appendFile(self._file(rows))
        added.commit()

    def overwrite(self, table: str, word: str, rows: Sequence[Row], *, branch: str) -> None:
        """Put these rows in the place of the files whose first row has that word."""
        java = self.load(table)
        changed = java.newOverwrite().toBranch(branch)
        for file in self._files(java.newScan().useRef(branch), word):
            changed = changed.deleteFile(file)
        for row in rows:
            changed = changed.addFile(self._file([row]))
        changed.commit()

    def compact(self, table: str, word: str | None = None) -> None:
        """Put the rows of all files, or of those whose first row has that word, into one."""
        java = self.load(table)
        rewrite, rows = java.newRewrite(), list[Row]()
        for file in self._files(java.newScan(), word):
            rewrite = rewrite.deleteFile(file)
            rows += self._read(file)
        rewrite.addFile(self._file(rows)).commit()

    def delete(self, table: str, word: str) -> None:
        java = self.load(table)
        deleted = java.newDelete()
        for file in self._files(java.newScan(), word):
            deleted = deleted.deleteFile(file)
        deleted.commit()

    def rows(self, table: str) -> list[Row]:
        files = self.files(self.load(table))
        return [tuple(row) for file in files for row in json.loads(file.read_text())]

    def files(self, table: Any) -> list[Path]:
        """The data files of main in a Java table, as often as it has them."""
        return list(map(self._path, self._files(table.newScan())))

    def has(self, table: str) -> bool:
        return bool(self._catalog.tableExists(self._name(table)))

    def heads(self, table: Any, query: str) -> dict[TopicPartition, Head]:
        """The heads of a query in the ledger of a Java table, which is then as it is now."""
        ledgers = PublishedLedgers(str(table.name()), lambda _: False)
        now = IcebergTable(SimpleNamespace(_jvm=self.jvm), table)
        return dict(ledgers.published(now, query).heads)

    def roll_back(self, table: str, snapshot: int | None) -> None:
        self.load(table).manageSnapshots().rollbackTo(snapshot).commit()

    def expire(self, table: str) -> None:
        self.load(table).expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()

    def replace(self, table: str) -> None:
        """CREATE OR REPLACE TABLE, with the same columns."""
        made = self._catalog.buildTable(self._name(table), self.load(table).schema())
        made.replaceTransaction().commitTransaction()

    def stage(self, table: str, rows: Sequence[Row]) -> int:
        """Rows in a snapshot that is on no branch; return its id."""
        self.load(table).newAppend().appendFile(self._file(rows)).stageOnly().commit()
        return int(list(self.load(table).snapshots())[-1].snapshotId())

    def words(self, scan: Any) -> set[str]:
        return {row[3] for file in self._files(scan) for row in self._read(file)}

    def _files(self, scan: Any, word: str | None = None) -> list[Any]:
        files = [task.file() for task in scan.planFiles().iterator()]
        return [file for file in files if word is None or self._read(file)[0][3] == word]

    def _path(self, file: Any) -> Path:
        return Path(str(file.location()).removeprefix("file:"))

    def _read(self, file: Any) -> list[Row]:
        return [tuple(row) for row in json.loads(self._path(file).read_text())]

    def _file(self, rows: Sequence[Row]) -> Any:
        path = self.folder / f"rows-{next(self._numbers)}.json"
        path.write_text(json.dumps(rows))
        made = self.jvm.org.apache.iceberg.DataFiles.builder(self._unpartitioned())
        made = made.withPath(f"file:{path}").withFormat("parquet")
        return made.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(rows)).build()

    def _unpartitioned(self) -> Any:
        return self.jvm.org.apache.iceberg.PartitionSpec.unpartitioned()

    def _name(self, table: str) -> Any:
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace, table)


@dataclass
class Rows:
    """The rows of one try, which come by several snapshots without `appends`, as SQL's may."""

    catalog: Catalog
    table: str
    rows: Sequence[Row]
    appends: bool = True
    tries: int = 0

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        self.tries += 1
        with java_errors():
            if self.appends:
                self.catalog.append(self.table, self.rows, branch=branch, ledger=summary[PROPERTY])
                return None
            for row in self.rows:
                self.catalog.append(self.table, [row], branch=branch)
            return len(self.rows)

    def concerns(self, base: int, main: int) -> bool:
        return True


class JavaSink:
    """The parts of an IcebergSink behind Spark, as a sink."""

    per_partition = False

    def __init__(self, catalog: Catalog, table: str, *, appends: bool = True) -> None:
        self.catalog, self.table, self.appends = catalog, table, appends
        self.key = self.label = f"lake.{NAMESPACE}.{table}"
        self.ledgers = PublishedLedgers(self.label, lambda _: False)
        self.written: Rows | None = None

    def applied(self, query: str) -> dict[TopicPartition, Head]:
        return dict(self.ledgers.published(self.catalog.table(self.table), query).heads)

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        table = self.catalog.table(self.table)
        return self.ledgers.moved_by(table, self.key, query_id)

    def apply(self, frame: Sequence[Row], entry: Entry, plan: PlannedBatch) -> Applied:
        self.written = Rows(self.catalog, self.table, frame, self.appends)
        return Publication(
            label=self.label,
            table=self.catalog.table(self.table),
            ledgers=self.ledgers,
            rows=self.written,
            entry=entry,
            accept_expired=False,
        ).write()

    def close(self) -> None:
        pass
