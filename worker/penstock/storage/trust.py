"""Reads a job's certificates and secret from the folder where its Secret is mounted.

The kubelet replaces the files of a mounted Secret in place, all at once, within two minutes of a
change. So the folder is looked at again while a process runs, and what it holds then is taken when
it can be used and when those that hold the old files can still be talked to.
"""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.base.limits import TRUST_LOOK_INTERVAL_S
from penstock.contract.pod import CA_KEY, CERTIFICATE_KEY, PRIVATE_KEY, WORKER_KEY
from penstock.contract.trust import SECRET_BYTES_MIN, Credentials, Trust

FILE_BYTES_MAX = 256 * 1024
_FILES = (WORKER_KEY, CA_KEY, CERTIFICATE_KEY, PRIVATE_KEY)
_Stamp = tuple[tuple[int, int, int], ...]


def read_credentials(folder: Path, host: str) -> Credentials:
    """Read authority, certificate and key; the other side will have to show ``host``.

    Raises ConfigError naming the file that is missing, empty or too large.
    """
    return Credentials(
        host,
        ca=_read(folder / CA_KEY),
        certificate=_read(folder / CERTIFICATE_KEY),
        key=_read(folder / PRIVATE_KEY),
    )


def read_trust(folder: Path, host: str) -> Trust:
    """Read all four files; peers will have to show a certificate for ``host``.

    Raises ConfigError naming the file that is missing, empty, too large or too short.
    """
    secret = _read(folder / WORKER_KEY)
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(f"{folder / WORKER_KEY}: {len(secret)} bytes; a key has at least {SECRET_BYTES_MIN}")
    own = read_credentials(folder, host)
    return Trust(own.host, own.ca, own.certificate, own.key, secret)


class TrustFolder:
    """The trust of a process, as the folder of its Secret has it: a :class:`TrustSource`."""

    def __init__(self, folder: Path, host: str) -> None:
        """Read all files. Raises ConfigError as :func:`read_trust` does."""
        self._folder = folder
        self._host = host
        self._stamp = self._stamp_of()  # first: what is replaced meanwhile is seen by a look
        self._now = read_trust(folder, host)

    @property
    def now(self) -> Trust:
        """Return what was taken last."""
        return self._now

    def look(self) -> bool:
        """Look at the folder once; True when other files are there and were taken.

        Raises ConfigError when other files are there that cannot be taken: they cannot be read,
        certificate and key do not fit, or nobody who holds the old files would be understood any
        more. What was taken before stays in force, and the same files raise only once.
        """
        stamp = self._stamp_of()
        if stamp == self._stamp:
            return False
        found = read_trust(self._folder, self._host)
        wrong = self._why_not(found)
        if self._stamp_of() != stamp:
            return False  # replaced while they were read: the next look sees them whole
        self._stamp = stamp
        if wrong:
            raise ConfigError(f"{self._folder}: {wrong}")
        changed = found != self._now
        self._now = found
        return changed

    def _why_not(self, found: Trust) -> str:
        """Return why these files cannot be taken; empty when they can."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_verify_locations(cadata=found.ca.decode())
            context.load_cert_chain(self._folder / CERTIFICATE_KEY, self._folder / PRIVATE_KEY)
        except (ssl.SSLError, OSError, ValueError) as error:
            return f"these certificates are of no use: {error}"
        if found.overlaps(self._now):
            return ""
        return (
            "these certificates have no authority, or not the secret, of those that this process "
            "holds: other workers of the job would not be understood. It keeps what it holds until "
            "it is restarted"
        )

    def _stamp_of(self) -> _Stamp:
        """Return what distinguishes one set of files from the next; the kubelet makes every file anew."""
        try:
            seen = [(self._folder / name).stat() for name in _FILES]
        except OSError as error:
            raise ConfigError(f"{error.filename}: {error.strerror}") from error
        return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in seen)


class TrustWatch:
    """Looks at a folder again and again, on a thread of its own.

    ``taken`` is called after other files were taken, ``refused`` with the reason when they were
    not; both on that thread.
    """

    def __init__(self, folder: TrustFolder, taken: Callable[[], None], refused: Callable[[str], None]) -> None:
        """Look at nothing yet."""
        self._folder = folder
        self._taken = taken
        self._refused = refused
        self._said = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trust", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End it; does not wait."""
        self._over.set()

    def look(self) -> None:
        """Look once, and report. The same reason is reported once."""
        try:
            if self._folder.look():
                self._said = ""
                self._taken()
        except ConfigError as error:
            if str(error) != self._said:
                self._said = str(error)
                self._refused(self._said)

    def _run(self) -> None:
        while not self._over.wait(TRUST_LOOK_INTERVAL_S):
            self.look()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not data or len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: {len(data)} bytes; 1 to {FILE_BYTES_MAX} are possible")
    return data
