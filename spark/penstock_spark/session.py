"""A local Spark session that starts fast on two cores and prints nothing unless it fails."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import penstock
import penstock_spark
from penstock.base.errors import ConfigError
from penstock_spark.gateway import JvmEndedError, start
from penstock_spark.java import java_home

JVM_OPTIONS = "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -Xshare:auto"
"""On two cores, parallel garbage collectors have no advantage, and the first compiler is enough. The
start and the first queries take a third less time, and the oracle is as fast as with the second one."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose JVM has started this process: a pod of a Spark operator."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The resources of a local session: threads, and heap in MiB."""

    threads: int = 2
    heap_mib: int = 2048


@contextmanager
def local_session(name: str, settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Yield a session with its own JVM. Both end with the block, and temporary files are removed.

    In a process that spark-submit has started, it is a session of that JVM, and spark-submit has set
    its threads and heap. Raises ConfigError if there is no Java (with advice) or if the JVM does not
    start (with its last lines of output). Not re-entrant: PySpark allows one context per process.
    """
    chosen = settings or SparkSettings()
    if SUBMITTED in os.environ:
        with _submitted_session(chosen) as session:
            yield session
        return
    home = java_home()
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as scratch:
        log_path = Path(scratch, "jvm.log")
        with log_path.open("wb") as log:
            context = _start(_conf(name, chosen, Path(scratch)), home, log, log_path)
        session = SparkSession(context)
        try:
            yield session
        finally:
            session.stop()
            _end_jvm(context)


@contextmanager
def _submitted_session(settings: SparkSettings) -> Iterator[SparkSession]:
    context = SparkContext.getOrCreate()
    context.setLogLevel("ERROR")
    session = SparkSession(context)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", str(4 * settings.threads))
    try:
        yield session
    finally:
        session.stop()


def _conf(name: str, settings: SparkSettings, scratch: Path) -> SparkConf:
    values = {
        "spark.app.name": name,
        "spark.master": f"local[{settings.threads}]",
        "spark.driver.memory": f"{settings.heap_mib}m",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(_package_roots()),
        "spark.local.dir": str(scratch),
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(4 * settings.threads),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    conf = SparkConf(loadDefaults=False)
    for key, value in values.items():
        conf.set(key, value)
    return conf


def _package_roots() -> list[str]:
    """Folders from which a Spark worker can import the modules of this process."""
    roots = [str(Path(p.__path__[0]).parent) for p in (penstock, penstock_spark)]
    return list(dict.fromkeys(roots))


def _start(conf: SparkConf, home: Path, log: IO[bytes], log_path: Path) -> SparkContext:
    os.environ["JAVA_HOME"] = str(home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    try:
        gateway = start(conf, home, log)
    except JvmEndedError as error:
        words = log_path.read_text(errors="replace")[-2000:]
        raise ConfigError(
            f"Java of {home} did not start Spark ({error}): set JAVA_HOME to a JDK of version 17"
            f" or 21. Its last lines:\n{words}"
        ) from error
    return SparkContext(gateway=gateway, conf=conf)


def _end_jvm(context: SparkContext) -> None:
    """End the JVM now. Otherwise it would run until this process ends."""
    gateway = SparkContext._gateway
    assert gateway is not None, f"{context} was started through a gateway"
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None
