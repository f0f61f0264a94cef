import sqlite3
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError, StateError
from penstock.storage.lock import DirectoryLock
from penstock.supervisor import ClusterSettings, LocalCluster


def settings(root: Path, workers: int = 2) -> ClusterSettings:
    return ClusterSettings("words", root / "job.json", root, workers)


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_an_impossible_number_of_workers_is_refused(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ConfigError, match=f"{workers} workers: 1 to 256 are possible"):
        LocalCluster(settings(tmp_path, workers)).start()


def test_metadata_of_another_format_is_said_and_the_lock_is_free_again(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir(mode=0o700)
    other = sqlite3.connect(tmp_path / "words" / "metadata.sqlite")
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StateError, match="format 99"):
        LocalCluster(settings(tmp_path)).start()
    DirectoryLock(tmp_path / "words", "job 'words'").release()
