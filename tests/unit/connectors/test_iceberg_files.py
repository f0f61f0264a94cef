"""The files of a table of Iceberg: whole when they are closed, and not there otherwise."""

from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.iceberg.table_files import TableFiles


def test_a_file_is_written_when_it_is_closed_and_not_when_it_is_given_up(tmp_path: Path) -> None:
    files = TableFiles()
    stream = files.new_output(str(tmp_path / "given-up.avro")).create()
    stream.write(b"half")
    del stream  # no reference is left, so Python ends it now
    with pytest.raises(ValueError, match="failed"):
        fail(files.new_output(str(tmp_path / "failed.avro")).create())
    with files.new_output(str(tmp_path / "whole.avro")).create() as whole:
        whole.write(b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("whole.avro", b"whole")]


def fail(stream: Any) -> None:
    """Write half of a file, and fail."""
    with stream:
        stream.write(b"half")
        raise ValueError("failed")
