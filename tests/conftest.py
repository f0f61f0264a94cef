"""What a run says first, which tests are skipped here and how they would run; and what it keeps."""

import gc
import os
import shutil

import pytest
from hypothesis import Phase, settings

from tests.integration.kubernetes.binaries import API_BINARIES, REMEDY, cache
from tests.support.long_tests import LONG
from tests.support.slow_tests import is_slow, missing, slow_tests
from tools.servers import table_spark

# Property tests never judge a time: the first example may compile a kernel. A change is judged by the same examples as
# the one before, so it is not refused for what it did not do. `make unit`, `make long` and `make night` draw others in
# each run, so what is left to find, many runs find.
settings.register_profile("all", deadline=None, max_examples=15, derandomize=not LONG)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("drawn", deadline=None, max_examples=200)
# For the faults of tools/mutants: the first example that fails is enough. Shrinking it would take minutes.
settings.register_profile("faults", deadline=None, max_examples=200, phases=[Phase.explicit, Phase.generate])
settings.load_profile("all")


def pytest_report_header() -> list[str]:
    """Say which servers are missing, in one line for all tests of a server."""
    return [_counts(), _kubernetes(), _servers_of_java(), _table_spark()]


def _counts() -> str:
    if LONG:
        return "counts: long"
    return "counts: of each change; make long and make night run more seeds, effects and kills of the same tests"


def _kubernetes() -> str:
    folder = cache() / "bin"
    missing = [name for name in API_BINARIES if not os.access(folder / name, os.X_OK)]
    if not missing:
        return f"kubernetes: tests use the binaries in {folder}"
    return f"kubernetes: tests are skipped, no {', '.join(missing)} in {folder}: {REMEDY}"


def _servers_of_java() -> str:
    missing = [command for command in ("java", "mvn") if shutil.which(command) is None]
    if not missing:
        return "kafka, s3: tests start servers, which Maven fetches once (75 MB)"
    return f"kafka, s3: tests are skipped, no {', '.join(missing)}: install Java 17 or newer, and Maven"


def _table_spark() -> str:
    if table_spark.is_prepared():
        return f"tables: tests read them by Spark {table_spark.VERSION}"
    return f"tables: tests with Spark are skipped: {table_spark.REMEDY}"


def pytest_collection() -> None:
    """Let the garbage collector rest while tests are imported: what is imported stays."""
    gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests. Take the time limits away from long ones: how long a count takes depends on the machine."""
    slow = slow_tests()
    gone = missing(slow, (item.nodeid for item in items))
    if gone and not any("::" in asked for asked in config.args):
        raise pytest.UsageError(
            f"tests/support/slow_tests.csv: there are no tests with these parameters: {', '.join(gone)}"
        )
    for item in items:
        if is_slow(item.nodeid, slow):
            item.add_marker("slow")
        if LONG:
            item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_collection_finish() -> None:
    """Let the garbage collector walk what tests make, not what they import."""
    gc.freeze()
    gc.enable()
