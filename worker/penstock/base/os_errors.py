"""Whose fault an error of the operating system is, where files are set up or read for the first time.

The one place of this decision. A later try gives the same answer when a path is wrong or the rights
are missing: the user must edit something. Everything else may pass by itself: a full volume gets
room, a network file system answers again, a stale handle is replaced. An error that is not listed
here is tried again, because a needless try harms less than a job that failed for good.
"""

import errno
from pathlib import Path

from penstock.base.errors import ConfigError, StorageError

_REMEDIES = {
    errno.EACCES: "give this user the right to write there, or name another folder",
    errno.EPERM: "give this user the right to write there, or name another folder",
    errno.EROFS: "mount it such that it can be written, or name another folder",
    errno.ENOTDIR: "a file is where a folder has to be: name another folder",
    errno.EEXIST: "a file is where a folder has to be: name another folder",
    errno.EISDIR: "a folder is where a file has to be: move it away, or name another folder",
    errno.ELOOP: "links lead in a circle, or a link is where a folder has to be: name the folder itself",
    errno.ENAMETOOLONG: "name a folder with a shorter path",
}


def is_lasting(error: OSError) -> bool:
    """Return whether a later try meets the same error, because the user must edit something."""
    return error.errno in _REMEDIES


def may_pass(error: BaseException) -> bool:
    """Return whether a read failed at the storage, so that a later try may succeed.

    An error without a number is not the system's: a library found that the content is wrong.
    """
    if not isinstance(error, OSError) or error.errno in (None, errno.ENOENT):
        return False
    return not is_lasting(error)


def unreadable(path: Path, error: OSError) -> ConfigError | StorageError:
    """Return the error to raise if a job file cannot be read. After a StorageError an engine is started again."""
    kind = StorageError if may_pass(error) else ConfigError
    return kind(f"{path}: cannot be read: {error.strerror or error}")


def storage_error(what: str, error: OSError) -> ConfigError | StorageError:
    """Return the error to raise instead of ``error``: ConfigError with a remedy, or StorageError.

    ``what`` says what cannot be done, and names the place.
    """
    said = f"{what}: {error.strerror or error}"
    if error.errno is not None and is_lasting(error):
        return ConfigError(f"{said}: {_REMEDIES[error.errno]}")
    return StorageError(said)
