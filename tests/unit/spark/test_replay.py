"""What a replay refuses before Spark has anything to do."""

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.base.errors import ConfigError
from penstock_spark import folders, replay


def test_a_dataset_that_is_being_written_is_not_pushed(tmp_path: Path) -> None:
    unfinished = folders.begin(tmp_path / "d", {"kind": "test"}, replace=False)
    (unfinished / "part-0.parquet").write_text("0")
    (unfinished / "part-0.parquet").rename(tmp_path / "d" / "part-0.parquet")
    with pytest.raises(ConfigError, match="d is being written, or its writer has died"):
        replay.run(cast("Any", None), replay.ReplayRequest(tmp_path / "d", tmp_path), 2)
