import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.base.errors import BusyError, ConfigError
from penstock.contract.codec import encode
from penstock.contract.ids import JobUid, Ordinal, SwapId
from penstock.contract.latest import Latest, encode_latest
from penstock.contract.pod import latest_name
from penstock.storage.sqlite import Database, SqliteMetaStore
from penstock.supervisor.client import connect, last_failure
from penstock.supervisor.folders import Endpoint, JobFolder, find_endpoint, starting, write_private

NOBODY = 65_534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


def test_the_uid_is_given_once(tmp_path: Path) -> None:
    folder = JobFolder.make(tmp_path, "words", "default")
    uid = folder.uid()
    assert JobFolder.make(tmp_path, "words", "default").uid() == uid
    assert JobFolder.make(tmp_path, "other", "default").uid() != uid
    assert folder.storage(uid) == tmp_path / "words/checkpoints/default/words" / uid


def test_the_uid_is_on_disk_before_checkpoints_lie_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real, synced = JobFolder.make(tmp_path, "words", "default"), os.fsync, list[str]()

    def noted(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        real(file)

    monkeypatch.setattr(os, "fsync", noted)
    uid = folder.uid()
    assert synced == [f".uid.{os.getpid()}", "words"], "the content first, then the name"
    assert (folder.root / "uid").read_text() == uid


def test_the_endpoint_is_found_while_it_runs_and_only_by_its_user(tmp_path: Path) -> None:
    folder = JobFolder.make(tmp_path, "words", "default")
    with pytest.raises(ConfigError, match=r"job 'words' is not running in "):
        find_endpoint(tmp_path, "words")
    running = Endpoint(os.getpid(), "127.0.0.1:1", "secret")
    folder.announce(running)
    assert find_endpoint(tmp_path, "words") == running
    mode = (tmp_path / "words" / "endpoint.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(folder.worker(Ordinal(0)).stat().st_mode) == 0o700
    folder.retract()
    folder.retract()
    with pytest.raises(ConfigError, match="is not running"):
        find_endpoint(tmp_path, "words")


def test_a_killed_supervisors_endpoint_is_none(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    folder = JobFolder.make(tmp_path, "words", "default")
    folder.announce(Endpoint(ended.pid, "127.0.0.1:1", "secret"))
    with pytest.raises(ConfigError, match="is not running"):
        find_endpoint(tmp_path, "words")


def test_a_job_that_starts_is_said_to_start(tmp_path: Path) -> None:
    place, running = tmp_path / "jobs", Endpoint(os.getpid(), "127.0.0.1:1", "secret")
    with starting(place, "words"):
        with pytest.raises(BusyError, match=rf"'words' is starting in .* \(pid {os.getpid()}\)"):
            find_endpoint(place, "words")
        with pytest.raises(ConfigError, match="'word' is not running"):
            find_endpoint(place, "word")
    assert not place.exists(), "a start that was given up leaves nothing"
    with starting(place, "words"):
        JobFolder.make(place, "words", "default").announce(running)
        assert find_endpoint(place, "words") == running
        assert [p.name for p in place.iterdir()] == ["words"], "the start is over"


def test_the_mark_of_a_start_that_was_killed_says_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    (tmp_path / f".words.{ended.pid}.starting").touch()
    with pytest.raises(ConfigError, match="is not running"):
        find_endpoint(tmp_path, "words")


def test_a_damaged_endpoint_and_an_impossible_folder_are_said(tmp_path: Path) -> None:
    JobFolder.make(tmp_path, "words", "default")
    (tmp_path / "words" / "endpoint.json").write_text("{")
    with pytest.raises(ConfigError, match=r"endpoint\.json: not JSON"):
        find_endpoint(tmp_path, "words")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--dir: "):
        JobFolder.make(tmp_path / "file", "words", "default")


def of_another_user(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o1777)


def with_a_file_of_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "record.json").touch()
    os.chown(folder / "record.json", NOBODY, NOBODY)


def a_link(folder: Path) -> None:
    (folder.parent / "mine").mkdir(mode=0o700)
    folder.symlink_to("mine")


FOREIGN = pytest.mark.parametrize(
    ("prepare", "why"),
    [
        pytest.param(of_another_user, "belongs to user 65534", marks=AS_ROOT),
        pytest.param(with_a_file_of_another, "'record.json' in it belongs to", marks=AS_ROOT),
        pytest.param(open_to_others, "has mode 1777, so other users of this machine may enter it"),
        pytest.param(a_link, "it has to be a folder, no link"),
    ],
)


@FOREIGN
def test_a_folder_where_others_could_put_what_workers_run_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], why: str
) -> None:
    """Whoever writes there names the job file of a keeper, and so runs code as its user."""
    prepare(tmp_path / "words")
    with pytest.raises(ConfigError, match=f"--dir: .*{why}"):
        JobFolder.make(tmp_path, "words", "default")


@FOREIGN
def test_nothing_is_believed_that_others_could_have_put_there(
    tmp_path: Path, prepare: Callable[[Path], None], why: str
) -> None:
    """Whoever writes there names an address, and a database that this user's process opens."""
    prepare(tmp_path / "words")
    write_private(tmp_path / "words" / "endpoint.json", encode(Endpoint(os.getpid(), "127.0.0.1:1", "secret")))
    (tmp_path / "words" / "metadata.sqlite").write_text("no database")
    for look in (find_endpoint, connect, last_failure):
        with pytest.raises(ConfigError, match=f"--dir: .*{why}"):
            look(tmp_path, "words")


def test_a_failure_is_told_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    folder = JobFolder.make(tmp_path, "words", "default")
    why = "StateError: its marker is gone: give restore.unpublishedSinks: {out: Drop}"
    database = Database(folder.database)
    latest = Latest(JobUid("uid"), SwapId("swap"), failure=why)
    SqliteMetaStore(database).create(latest_name("words"), encode_latest(latest))
    database.close()
    with pytest.raises(ConfigError, match="it has failed\nits marker is gone: give --unpublished out=Drop"):
        connect(tmp_path, "words")


def test_a_job_that_never_ran_has_no_failure(tmp_path: Path) -> None:
    assert last_failure(tmp_path, "words") is None
