from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock_spark.session import SparkSettings, local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One JVM for all tests: its start takes seconds."""
    with local_session("tests", SparkSettings(threads=2, heap_mib=1024)) as session:
        yield session
