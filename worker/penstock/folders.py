"""Folders that other users cannot enter."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.base.os_errors import storage_error

_HANDLES = Path("/proc/self/fd")


class PrivateFolder:
    """A folder that only its user may enter. It is held open, so what was checked is what is used.

    On Linux, :attr:`path` leads to it even when another folder is put at its name. The path is also
    short, as the path of a socket has to be.
    """

    def __init__(self, folder: Path, *, make: bool = False) -> None:
        """Open a folder; with ``make``, make it and its parents where they are missing.

        Raises FileNotFoundError when it is missing; ConfigError when it is a link, belongs to
        another user, lets others in, or holds something that belongs to another user. Raises
        StorageError when a retry may help.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            if make:
                _make(folder)
            self._handle = os.open(folder, flags)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise storage_error(f"{folder}: it has to be a folder, no link", error) from error
        try:
            _check_private(folder, os.fstat(self._handle))
            _check_contents(folder, self._handle)
        except ConfigError:
            self.close()
            raise
        self.path = _HANDLES / str(self._handle) if _HANDLES.is_dir() else folder

    def close(self) -> None:
        """Release the folder, after which :attr:`path` is invalid. Idempotent."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def check_private(folder: Path) -> None:
    """Raise as :class:`PrivateFolder` does. If not, no other user can put anything there later."""
    PrivateFolder(folder).close()


def _check_private(folder: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}: "
            f"run this as user {found.st_uid}, or name a folder of your own"
        )
    if mode & 0o077:
        raise ConfigError(
            f"{folder} has mode {mode:04o}, so other users of this machine may enter it: "
            f"chmod 700 {folder}, or name another folder"
        )


def _check_contents(folder: Path, handle: int) -> None:
    """Refuse entries of other users, who may have had access before: we could trust their socket."""
    with os.scandir(handle) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile, which only this user can do
                owner = entry.stat(follow_symlinks=False).st_uid
                if owner != os.geteuid():
                    raise ConfigError(
                        f"{folder}: {entry.name!r} in it belongs to user {owner}, who was let in "
                        "before: name a new folder"
                    )
