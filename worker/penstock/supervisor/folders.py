"""Where a local job's things are, and how another process finds the running one.

::

    DIR/.JOB.PID.starting          process PID checks the job and starts it
    DIR/JOB/  lock                 held while it runs
              uid                  given once, kept for the life of the folder
              record.json          what ran: steps, code, inputs and outputs
              metadata.sqlite      Lease, -latest, -desired
              endpoint.json        process, address and token of the running supervisor
              supervisor.log
              checkpoints/NAMESPACE/JOB/UID/
              savepoints/NAME/
              workers/N/           log, keeper.json, scratch/ of each engine's life
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import BusyError, ConfigError, PeerError
from penstock.cluster.system import RandomIds
from penstock.contract.codec import Message, decode, encode
from penstock.contract.ids import JobUid, Ordinal
from penstock.file_system import OS_FILES, sync_names
from penstock.folders import check_private

STARTING = ".starting"


class Endpoint(Message, tag="Endpoint"):
    """How to reach the supervisor of a running job."""

    pid: int
    address: str
    token: str


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job; paths are absolute."""

    root: Path
    job: str
    namespace: str

    @classmethod
    def make(cls, directory: Path, job: str, namespace: str) -> "JobFolder":
        """Make the folder, for its user's eyes only.

        Raises ConfigError when that is impossible, or when others may enter a folder that is there:
        the supervisor reads there what its workers are to run.
        """
        root = (directory / job).absolute()
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--dir: {root}: {error.strerror}") from error
        return cls.find(directory, job, namespace)

    @classmethod
    def find(cls, directory: Path, job: str, namespace: str = "") -> "JobFolder":
        """Return the folder of a job, which may be missing, to read what the job has left there.

        Raises ConfigError when another user may have put something into it: a file there says which
        address gets the token of the job, and which state it has.
        """
        root = (directory / job).absolute()
        try:
            check_private(root)
        except FileNotFoundError:
            pass  # nothing is there that could be read
        except ConfigError as error:
            raise ConfigError(f"--dir: {error}") from error
        return cls(root, job, namespace)

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.root / "metadata.sqlite"

    @property
    def savepoints(self) -> Path:
        """The folder of savepoints."""
        return self.root / "savepoints"

    @property
    def log(self) -> Path:
        """The supervisor's log."""
        return self.root / "supervisor.log"

    def storage(self, uid: JobUid) -> Path:
        """Return the directory of checkpoints, shared by all workers."""
        return self.root / "checkpoints" / self.namespace / self.job / uid

    def worker(self, ordinal: Ordinal) -> Path:
        """Return the local folder of one worker, made if it is missing."""
        folder = self.root / "workers" / str(ordinal)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def uid(self) -> JobUid:
        """Return the job's uid; the first call gives one.

        It is kept next to the database. So a database that was deleted and made anew is noticed.
        """
        file = self.root / "uid"
        if not file.exists():
            write_private(file, RandomIds().fresh().encode(), durable=True)
        return JobUid(file.read_text().strip())

    def announce(self, endpoint: Endpoint) -> None:
        """Say where the running supervisor is; its start is over."""
        write_private(self.root / "endpoint.json", encode(endpoint))
        _start_mark(self.root.parent, self.job).unlink(missing_ok=True)

    def retract(self) -> None:
        """Say that nothing is running any more."""
        (self.root / "endpoint.json").unlink(missing_ok=True)


def find_endpoint(directory: Path, job: str) -> Endpoint:
    """Find a running job. Raises ConfigError when nothing by this name runs in ``directory``.

    Raises ConfigError, too, when another user may have put something into the job's folder, and
    BusyError when a process is starting the job.
    """
    file = JobFolder.find(directory, job).root / "endpoint.json"
    try:
        endpoint = decode(Endpoint, file.read_bytes())
        os.kill(endpoint.pid, 0)  # a supervisor that was killed leaves its file behind
    except (FileNotFoundError, ProcessLookupError):
        if (pid := _starting_pid(directory, job)) is not None:
            raise BusyError(f"job {job!r} is starting in {directory} (pid {pid}): try again in a moment") from None
        raise ConfigError(f"job {job!r} is not running in {directory}") from None
    except (OSError, PeerError) as error:
        raise ConfigError(f"{file}: {error}") from error
    return endpoint


@contextmanager
def starting(directory: Path, job: str) -> Iterator[None]:
    """Let other processes know that this one starts a job: until it is announced, or given up.

    A folder in which no mark can be made is no error here: the start itself says what is wrong.
    """
    made, mark = not directory.exists(), _start_mark(directory, job)
    with suppress(OSError):
        directory.mkdir(exist_ok=True)
        mark.touch(mode=0o600)
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)
            if made:
                directory.rmdir()  # fails where the job has begun


def _start_mark(directory: Path, job: str) -> Path:
    return directory / f".{job}.{os.getpid()}{STARTING}"


def _starting_pid(directory: Path, job: str) -> int | None:
    """Find the process that starts a job; one that was killed leaves its mark behind."""
    for mark in directory.glob(f".{job}.*{STARTING}"):
        number = mark.name.removeprefix(f".{job}.").removesuffix(STARTING)
        with suppress(OSError):
            if number.isdigit():
                os.kill(int(number), 0)
                return int(number)
    return None


def write_private(file: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file that only its user can read; it appears whole or not at all.

    ``durable``: it survives a power failure. Without it such a failure may leave a file that is empty.
    """
    staged = file.with_name(f".{file.name}.{os.getpid()}")
    staged.touch(mode=0o600)
    with staged.open("wb") as opened:
        opened.write(data)
        if durable:
            opened.flush()
            os.fsync(opened.fileno())
    staged.replace(file)
    if durable:
        sync_names(OS_FILES, file.parent)
