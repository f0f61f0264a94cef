"""A run is not silent while kernels are compiled for the first time."""

import fcntl
from pathlib import Path

import pytest

from penstock.cli.run_watch import SAID, Compiling
from penstock.model.kernels.place import CACHE_ENV, folder_of_version


def test_it_is_said_once_when_it_takes_longer_than_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_ENV, str(tmp_path))
    folder_of_version.cache_clear()
    folder_of_version().mkdir()
    now, said = 0.0, list[str]()
    compiling = Compiling(said.append, lambda: now)
    with (folder_of_version() / "table.find.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        for now in (0.0, 0.5):  # noqa: B007  the clock reads it
            compiling.look()
        assert said == []
        for now in (1.0, 1.5, 9.0):  # noqa: B007  the clock reads it
            compiling.look()
    folder_of_version.cache_clear()
    assert said == [SAID]
