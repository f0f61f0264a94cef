"""Starts Spark's JVM and connects to it, without Python code between fork and exec.

PySpark itself gives ``subprocess`` a function for the child. The child is then a fork that runs the
fork handlers of every library in this process. Those of gRPC fail if threads poll, so the child
sometimes died before it became Java. Here the child is a plain ``exec`` in its own session, so Ctrl-C
does not reach it. PySpark then connects to this JVM instead of starting one.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from py4j.clientserver import ClientServer
from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.base.errors import PenstockError

START_TIMEOUT_S = 120.0
LOOK_INTERVAL_S = 0.05


class JvmEndedError(PenstockError):
    """The JVM ended, or did not answer in time, before the connection was made."""


def start(conf: SparkConf, home: Path, log: IO[bytes]) -> ClientServer:
    """Start a JVM with the Java of ``home`` and return the gateway to it. ``proc`` is its process.

    Blocks until it answers, about two seconds. The JVM ends when its standard input is closed, so it
    ends with this process. Raises JvmEndedError.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-jvm-") as folder:
        where = Path(folder, "connection")
        process = subprocess.Popen(
            _command(conf),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(home, where),
            start_new_session=True,
        )
        try:
            port, secret = _connection(process, where)
        except JvmEndedError:
            process.communicate()  # closes its standard input
            raise
    with _told(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        gateway: ClientServer = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = process
    return gateway


def _command(conf: SparkConf) -> list[str]:
    submit = Path(_find_spark_home(), "bin", "spark-submit")
    settings = [part for k, v in conf.getAll() for part in ("--conf", f"{k}={v}")]
    return [str(submit), *settings, "pyspark-shell"]


def _environment(home: Path, where: Path) -> dict[str, str]:
    told = {
        "JAVA_HOME": str(home),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(where),
    }
    return {**os.environ, **told}


def _connection(process: "subprocess.Popen[bytes]", where: Path) -> tuple[int, str]:
    """Wait for the file with port and secret. It appears only when it is complete."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not where.is_file():
        if process.poll() is not None:
            raise JvmEndedError(f"it ended with code {process.returncode}")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise JvmEndedError(f"it said nothing for {START_TIMEOUT_S:.0f} s")
        time.sleep(LOOK_INTERVAL_S)
    with where.open("rb") as file:
        port = read_int(file)  # type: ignore[no-untyped-call]
        return port, UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]


@contextmanager
def _told(**variables: str) -> Iterator[None]:
    """Set environment variables while a block runs."""
    before: Mapping[str, str] = {k: os.environ[k] for k in variables if k in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)
