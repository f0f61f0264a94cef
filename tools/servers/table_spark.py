"""Spark that reads tables of Delta Lake and Iceberg, in an environment of its own.

``python -m tools.servers.table_spark`` makes it: 430 MB from the package index and 70 MB from Maven. It is Spark 4.1,
because Iceberg has no version for a later one yet. Nothing is fetched while it runs.
"""

import fcntl
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock_spark.java import java_home
from tools.servers.fetched import CACHE, HERE, ServerMissing, fetched, locked, wrong
from tools.servers.java_server import LOOPBACK, STOP_MAX_S

NAME, VERSION = "table_spark", "4.1.4"
REQUIREMENTS = HERE / f"{NAME}.txt"
HOME = CACHE / f"{NAME}-python"
JARS = CACHE / f"{NAME}-{VERSION}"
PYTHON = HOME / "bin" / "python"
ALL = ("true",)
REMEDY = f"run `python -m tools.servers.{NAME}`"
SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.driver.extraClassPath": f"{JARS}/*",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.datetime.java8API.enabled": "true",  # the older one loses ten days of 1582 in conditions
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",  # it compiles longer than it reads a few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def prepare() -> None:
    """Fetch everything, unless it is there. Takes a minute. Raises ServerMissing when it cannot be had."""
    fetched(NAME, VERSION)
    with (CACHE / f"{NAME}-python.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _installed():
            return
        venv.create(HOME, clear=True, with_pip=True)
        words = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(REQUIREMENTS)]
        done = subprocess.run([str(PYTHON), *words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise ServerMissing(f"{NAME}: pip could not fetch it: {done.stderr[-2000:].strip()}")
        (HOME / REQUIREMENTS.name).write_bytes(REQUIREMENTS.read_bytes())


class TableSpark:
    """One running Spark, which reads one table at a time."""

    def __init__(self, folder: Path) -> None:
        """Start it; ``folder`` is for its log and for rows. Raises ServerMissing when it was not prepared."""
        if not is_prepared() or wrong(JARS, locked(NAME)):
            raise ServerMissing(f"there is no Spark with Delta Lake and Iceberg here: {REMEDY}")
        self._folder = folder
        self._numbers = count()
        environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": LOOPBACK}
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(PYTHON), str(HERE / "spark_reads.py"), json.dumps(SETTINGS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout

    def delta(self, table: Path, conditions: Sequence[str] = ALL) -> pa.Table:
        """Return the rows of a table of Delta Lake: those of each condition (SQL), found by a query of its own.

        Raises RuntimeError when Spark cannot read them.
        """
        return self._ask(table=f"delta.`{table}`", settings={}, conditions=conditions)

    def iceberg(self, catalog: Path, table: str, conditions: Sequence[str] = ALL) -> pa.Table:
        """Return the rows of a table of the catalog ``default`` in a file of SQLite, likewise."""
        settings = {
            "spark.sql.catalog.default": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.default.type": "jdbc",
            "spark.sql.catalog.default.uri": f"jdbc:sqlite:{catalog}",
            "spark.sql.catalog.default.warehouse": f"file://{self._folder}",  # for tables that it makes: none
        }
        return self._ask(table=f"default.{table}", settings=settings, conditions=conditions)

    def close(self) -> None:
        """End it. It ends by itself when its input does."""
        with self._process:
            self._questions.close()
            try:
                self._process.wait(STOP_MAX_S)
            finally:
                self._process.kill()

    def _ask(self, **asked: Any) -> pa.Table:
        folder = self._folder / f"rows-{next(self._numbers)}"
        line = json.dumps({**asked, "to": str(folder)})
        print(line, file=self._questions, flush=True)
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"Spark has ended: {(self._folder / 'log').read_text()[-2000:]}")
        if (why := json.loads(answer)) is not None:
            raise RuntimeError(f"Spark cannot read {asked['table']}: {why}")
        return pq.read_table(folder)


def is_prepared() -> bool:
    """Return whether everything is there, by the names of the files."""
    return _installed() and {jar.name for jar in JARS.glob("*")} == set(locked(NAME))


def _installed() -> bool:
    done = HOME / REQUIREMENTS.name
    return done.exists() and done.read_bytes() == REQUIREMENTS.read_bytes()


def main() -> int:
    """Fetch, and say why it is not possible."""
    try:
        prepare()
    except ServerMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
