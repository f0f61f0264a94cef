"""Folders that survive a power failure, or that nobody else enters; for the adapters.

A new name is durable when the folder that holds it was synced. Whoever made a folder may have
died before that, so a folder that is found is not known to be durable either.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from penstock.base.errors import ConfigError

_HANDLES = Path("/proc/self/fd")


def make_durable(folder: Path) -> None:
    """Make ``folder`` with its parents, so that no power failure takes its name away any more.

    Each parent on the same file system is synced, also one that was there. Blocks for the disk.
    Raises OSError. A parent that may not be read is passed by: nobody made it a moment ago.
    """
    folder.mkdir(parents=True, exist_ok=True)
    real = folder.resolve()
    device = real.stat().st_dev
    for parent in real.parents:
        if parent.stat().st_dev != device:
            return
        with suppress(PermissionError):
            sync(parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable. Blocks for the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class PrivateFolder:
    """A folder that its user alone may enter, held open: what is checked is what is used.

    :attr:`path` leads to it even when somebody puts another folder at its name, where the system
    has such paths (Linux); it is also short, as the path of a socket has to be.
    """

    def __init__(self, folder: Path, *, make: bool = False) -> None:
        """Open a folder; ``make`` it, with its parents, where it is missing.

        Raises FileNotFoundError where it is missing, ConfigError when it is a link, belongs to
        another user, lets others in, or has something of another user in it.
        """
        if make:
            with suppress(FileExistsError):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._handle = os.open(folder, flags)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ConfigError(
                f"{folder}: {error.strerror}: it has to be a folder, no link"
            ) from error
        try:
            _check_private(folder, os.fstat(self._handle))
            _check_contents(folder, self._handle)
        except ConfigError:
            self.close()
            raise
        self.path = _HANDLES / str(self._handle) if _HANDLES.is_dir() else folder

    def close(self) -> None:
        """Let go of the folder; :attr:`path` leads nowhere then. Idempotent."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def check_private(folder: Path) -> None:
    """Raise as :class:`PrivateFolder` does; nobody else can put anything there afterwards."""
    PrivateFolder(folder).close()


def _check_private(folder: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise ConfigError(
            f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}: name a "
            "folder of your own"
        )
    if mode & 0o077:
        raise ConfigError(
            f"{folder} has mode {mode:04o}, so other users of this machine may enter it: "
            f"chmod 700 {folder}, or name another folder"
        )


def _check_contents(folder: Path, handle: int) -> None:
    """Others may have been able to enter before: a socket of theirs would be taken for ours."""
    with os.scandir(handle) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile, which only its user can do
                owner = entry.stat(follow_symlinks=False).st_uid
                if owner != os.geteuid():
                    raise ConfigError(
                        f"{folder}: {entry.name!r} in it belongs to user {owner}, who was let in "
                        "before: name a new folder"
                    )
