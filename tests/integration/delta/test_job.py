"""A job from Delta Lake to Delta Lake on a real local cluster: exact when engines are killed, and when rescaled."""

from pathlib import Path

import pytest

from tests.integration.table_jobs import check_exact_through_kills
from tests.integration.word_files import counting
from tests.support.delta import Table

pytestmark = pytest.mark.timeout(600)
JOB = counting({"delta": {"table": "in", "follow": 0.2}}, {"output": {"delta": {"table": "table"}}})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_commit(tmp_path: Path) -> None:
    table = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
    given = Table.in_folder(tmp_path / "in").create({"word": "string"})
    check_exact_through_kills(tmp_path, JOB, given.add_rows, table)
