"""One process per directory: a lock that ends with its holder, however it ends."""

import fcntl
import os
from pathlib import Path

from penstock.base.errors import BusyError, StorageError

LOCK_FILE = "lock"


class DirectoryLock:
    """Held from construction until :meth:`release` or the end of the process.

    The kernel drops the lock when the process dies. So a file that a killed process left locks no
    process out. The number in it is for people only.
    """

    def __init__(self, directory: Path, what: str) -> None:
        """Take the lock, or raise BusyError saying that ``what`` is already running."""
        self._path = directory / LOCK_FILE
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{self._path}: cannot open the lock: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_pid(self._file)
            os.close(self._file)
            raise BusyError(
                f"{what} is already running (pid {holder}) in {directory}: stop it first, or choose another --dir"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one in; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _read_pid(file: int) -> str:
    # Empty in the moment between taking the lock and writing the number.
    return os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
