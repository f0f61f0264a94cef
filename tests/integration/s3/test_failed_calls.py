"""Sources of tables in a bucket lose nothing and repeat nothing, whichever of their calls fails once."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connectors.delta.delta_source import DeltaSource
from penstock.connectors.iceberg.iceberg_source import IcebergSource
from penstock.contract.delta_options import DeltaInput
from penstock.contract.iceberg_options import IcebergInput
from tests.integration.s3.test_iceberg import add, made, place
from tests.support.delta import Table
from tests.support.failed_calls import check_failures
from tests.support.long_tests import count, long_only
from tests.support.s3 import S3, SECRET_VARIABLE, USER_VARIABLE

pytestmark = pytest.mark.timeout(1800)
EVERY = count(97, 5)  # calls of a source
DELTA = ("obstore.", "deltalake.table.DeltaTable.__init__", "deltalake.table.DeltaTable.get_add_actions")
ICEBERG = ("obstore.", "sqlite3.")
FILES = 3  # before a source begins, and as many behind that
ROWS = 10  # of a file
FOLLOW = [1e-9, pytest.param(None, marks=long_only)]


@pytest.mark.parametrize("follow", FOLLOW)
def test_a_table_of_delta_lake(s3: S3, follow: float | None) -> None:
    bucket = s3.bucket()
    table = Table.in_bucket(s3, bucket, "lake/words").create({"number": "long"})
    keys = (f"env:{USER_VARIABLE}", f"env:{SECRET_VARIABLE}")

    def write() -> None:
        for _ in range(FILES):
            table.add_rows(pa.table({"number": pa.array(range(ROWS), pa.int64())}))

    def source() -> DeltaSource:
        options = DeltaInput(f"s3://{bucket}/lake/words", "us-east-1", s3.endpoint, *keys, follow=follow)
        return DeltaSource(options, ())

    write()
    states = source().splits()
    write()
    assert check_failures(source, every=EVERY, states=states, asking=DELTA) > 50


@pytest.mark.parametrize("follow", FOLLOW)
def test_a_table_of_iceberg(s3: S3, tmp_path: Path, follow: float | None) -> None:
    table = made(s3, tmp_path)

    def source() -> IcebergSource:
        return IcebergSource(IcebergInput(**place(s3, tmp_path), follow=follow), ())

    for _ in range(FILES):
        add(table, *range(ROWS))
    states = source().splits()
    for _ in range(FILES):
        add(table, *range(ROWS))
    assert check_failures(source, every=EVERY, states=states, asking=ICEBERG) > 50
