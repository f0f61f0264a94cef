"""The one error tree: whose fault it was decides what happens next.

    PenstockError
    ├── ConfigError     the user must edit something; retrying cannot help
    ├── PeerError       the other side of a connection broke the contract
    ├── BusyError       another process has what is needed; try again when it has ended
    ├── StorageError    an effect failed or its outcome is unknown; try again
    │   ├── UnansweredError  there was no answer to a request
    │   └── ConnectorError   code of a source or sink raised; try again, but not without end
    ├── StateError      stored data is lost, altered or incompatible
    └── UserCodeError   a user's function raised; carries step, source, partition and offset

A message says what happened, with which ids, and what to do. Broken invariants of our own are
``assert`` with a reason: a crash is recoverable, a lie is not.
"""

from dataclasses import dataclass

from penstock.base.user_code import named, user_traceback


class PenstockError(Exception):
    """Base of every error that Penstock raises on purpose."""


class ConfigError(PenstockError):
    """The user must edit a job, a setting or a command; the message names the place."""


class RowNotSentError(ConfigError):
    """A row cannot cross between two tasks: it is too large, or is not what its type says."""


class BusyError(PenstockError):
    """Another process has what is needed, a job's folder for example; it is to end first."""


class PeerError(PenstockError):
    """The other side sent something that the protocol forbids; the connection is closed."""


class StorageError(PenstockError):
    """A read or write failed, or its outcome is unknown; the caller may try again."""


class UnansweredError(StorageError):
    """There was no answer to a request, which may have been carried out or not."""


class ConnectorError(StorageError):
    """A user's own source or sink raised, or ours has used its client wrongly.

    It is tried again, as often as ``spec.restart`` allows.

    A connector that raises :class:`StorageError` itself is tried again without an end.
    """


def is_storage_away(error: BaseException) -> bool:
    """Return whether ``error`` says that storage is away, so that trying again may help for as long as it takes.

    Code that raised anything else probably raises it again. Then the attempt ends, which is counted.
    """
    return isinstance(error, StorageError | OSError) and not isinstance(error, ConnectorError)


class StateError(PenstockError):
    """Stored state is missing, altered or of another shape; never skipped silently."""


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a record: in its source, enough to find it again with an editor.

    Behind a shuffle a row's source is not known. ``record`` shows its values, shortened; ``rows``
    above 1: so many rows from this one on, which are at fault together only.
    """

    step: str
    source: str | None = None
    partition: str | None = None
    offset: int | None = None
    record: str | None = None
    rows: int = 1

    def __str__(self) -> str:
        """Spell the place as a user reads it, leaving out what is not known."""
        parts = [f"step {self.step!r}"]
        if self.source is not None:
            parts.append(f"source {self.source!r}")
        if self.partition is not None:
            parts.append(f"partition {self.partition!r}")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        if self.rows > 1:
            parts.append(f"{self.rows} rows from there on, together only")
        return ", ".join(parts)


class UserCodeError(PenstockError):
    """A user's function raised; ``where`` names the step and, when known, the record.

    The first line of its text says where and what; the record and the user's own frames follow.
    """

    def __init__(self, where: Where, cause: BaseException) -> None:
        """Keep the place, and spell the cause with the user's part of its traceback."""
        lines = [f"{where}: {named(cause)}"]
        if where.record is not None:
            lines.append(f"record: {where.record}")
        trace = user_traceback(cause)
        super().__init__("\n".join([*lines, *([trace] if trace else [])]))
        self.where = where
        self.__cause__ = cause
