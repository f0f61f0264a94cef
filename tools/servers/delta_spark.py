"""Spark that reads tables of Delta Lake, in an environment of its own.

``python -m tools.servers.delta_spark`` makes it: 430 MB from the package index and 12 MB from Maven. Delta Lake has no
version for the Spark of the project (4.3.0) yet: the one for 4.2 fails there with NoSuchMethodError.
"""

import fcntl
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from penstock_spark.java import java_home
from tools.servers.fetched import CACHE, HERE, ServerMissing, fetched, locked, wrong

VERSION = "4.4.0"
REQUIREMENTS = HERE / "delta_spark.txt"
HOME = CACHE / "delta_spark-python"
JARS = CACHE / f"delta_spark-{VERSION}"
READ_MAX_S = 300.0
READER = """
import json, sys
from pyspark.sql import SparkSession
settings = json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
table = builder.getOrCreate().read.format("delta").load(sys.argv[1])
print(json.dumps([row.asDict() for row in table.collect()], default=str))
"""


def prepare() -> None:
    """Fetch everything, unless it is there. Takes minutes. Raises ServerMissing when Maven cannot be used."""
    fetched("delta_spark", VERSION)
    with (CACHE / "delta_spark-python.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _installed():
            venv.create(HOME, clear=True, with_pip=True)
            words = ["-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(REQUIREMENTS)]
            subprocess.run([str(HOME / "bin" / "python"), *words], check=True)
            (HOME / REQUIREMENTS.name).write_bytes(REQUIREMENTS.read_bytes())


def rows(table: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as Spark reads them. Raises ServerMissing when :func:`prepare` was not called."""
    if not _installed() or wrong(JARS, locked("delta_spark")):
        raise ServerMissing("there is no Spark with Delta Lake here: run `python -m tools.servers.delta_spark`")
    settings = {
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
    }
    given = [str(HOME / "bin" / "python"), "-c", READER, str(table), json.dumps(settings)]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(given, check=False, capture_output=True, text=True, timeout=READ_MAX_S, env=environment)
    if done.returncode:
        raise RuntimeError(f"Spark cannot read {table}: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


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
