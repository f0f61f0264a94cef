import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.base.errors import BusyError
from penstock.storage.lock import DirectoryLock

HOLD = """
import sys
from pathlib import Path
from penstock.storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]), "job 'words'")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, "job 'words'")
    with pytest.raises(BusyError, match=rf"job 'words' is already running \(pid {os.getpid()}\)"):
        DirectoryLock(tmp_path, "job 'words'")
    lock.release()
    lock.release()
    DirectoryLock(tmp_path, "job 'words'").release()


def test_the_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=rf"\(pid {holder.pid}\)"):
            DirectoryLock(tmp_path, "job 'words'")
        holder.kill()
        holder.wait()
    DirectoryLock(tmp_path, "job 'words'").release()


def test_children_do_not_keep_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, "job 'words'")
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        lock.release()
        DirectoryLock(tmp_path, "job 'words'").release()
        child.kill()
