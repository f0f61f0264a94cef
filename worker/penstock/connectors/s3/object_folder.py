"""A folder of a bucket, and what the store's errors mean to a job.

The client (obstore) is an extra, and is loaded when a connector is made. It has threads of its own, which a process
that is forked from this one has not: whoever forks does so before the first call.

No text of the store is shown as it is, because it may repeat what was signed: only its code and message are.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.threads import Lock
from penstock.connectors import extras
from penstock.connectors.missing import NotThere
from penstock.connectors.secret_places import read_secret
from penstock.contract.s3_options import S3Place

CONNECT_MAX = "10s"
SILENT_MAX = "60s"  # what was asked and is not answered for so long has failed
RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=60)}
SHOWN_CHARS = 300
# What the client says of its tries: it is another text each time.
TRIES = re.compile(r"Generic S3 error: |Error performing \w+ request: | in [\d.]+\w+, after .*?retry_timeout: \w+ ")
PIECE_BYTES = 8 * 1024 * 1024
KEYS = "correct `accessKey` and `secretKey`"
TOKEN = "renew `sessionToken` and its keys"
RIGHTS = (
    "grant s3:ListBucket on the bucket, s3:GetObject, s3:PutObject and s3:DeleteObject on the objects in the folder"
)
NO_BUCKET = "NoSuchBucket"
REFUSED = {  # codes of answers that stay the same until somebody changes keys, rights or options
    "InvalidAccessKeyId": KEYS,
    "SignatureDoesNotMatch": KEYS,
    "ExpiredToken": TOKEN,
    "InvalidToken": TOKEN,  # also that of MinIO, InvalidTokenId: a token beside keys of another time
    "TokenRefreshRequired": TOKEN,
    "AuthorizationHeaderMalformed": "correct `region`",
    "PermanentRedirect": "correct `region`",
    "AccessDenied": f"correct the keys, or {RIGHTS}",
    "403 Forbidden": f"correct the keys, or {RIGHTS}",  # the answer to a look at an object has no code
}
REMEDIES = {
    **REFUSED,
    NO_BUCKET: "make the bucket, or correct `url`",
    "RequestTimeTooSkewed": "set the clock of this machine",
    "dns error": "correct `endpoint`",
    "Connection refused": "check `endpoint`, and that the store runs",
    "certificate": "let this machine trust the certificate of `endpoint`",
    "timed out": "check `endpoint`, and that the network lets the workers through",
}


class Unusable(StorageError):
    """The store refuses what was asked for, and does so again until somebody changes keys, rights or options."""


def library() -> Any:
    """Return the client. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("obstore", of="s3", extra="s3")


def open_folder(options: S3Place) -> "ObjectFolder":
    """Return the folder that options name; nothing is asked yet. Raises ConfigError when a key lacks the other one."""
    if (options.access_key is None) != (options.secret_key is None):
        raise ConfigError("s3: accessKey and secretKey go together: give both or none")
    library()
    return ObjectFolder(options.url.rstrip("/"), lambda: _connect(options))


def s3_store(bucket: str, prefix: str | None, config: Any) -> Any:
    """Return the client of a folder of a bucket. Nothing is asked yet. ``config`` has what obstore calls so."""
    from obstore.store import S3Store  # noqa: PLC0415 - an extra

    client: Any = {"allow_http": True, "connect_timeout": CONNECT_MAX, "timeout": SILENT_MAX}
    return S3Store(bucket, prefix=prefix, config=config, client_options=client, retry_config=RETRIES)


def _connect(options: S3Place) -> Any:
    bucket, _, prefix = options.url.removeprefix("s3://").partition("/")
    places = (
        ("access_key_id", "accessKey", options.access_key),
        ("secret_access_key", "secretKey", options.secret_key),
        ("session_token", "sessionToken", options.session_token),
    )
    config: Any = {name: read_secret(place, f"s3: {option}") for name, option, place in places if place is not None}
    given = (("region", options.region), ("endpoint", options.endpoint))
    config |= {name: value for name, value in given if value is not None}
    return s3_store(bucket, prefix.strip("/") or None, config)


@dataclass(frozen=True, slots=True)
class Content:
    """What is in an object, in short."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """The size of an object, and what names its present content (the etag)."""

    size: int
    etag: str


class ObjectFolder:
    """Objects by their names in the folder. Any thread may use it. Every call blocks and raises StorageError."""

    def __init__(self, place: str, connect: Callable[[], Any]) -> None:
        """Connect with the first call, and again when the store has refused something: keys may have changed."""
        self.place = place
        self._connect = connect
        self._store: Any = None
        self._lock = Lock()

    def create(self, name: str, data: bytes) -> bool:
        """Write an object in one request if there is none of this name. Returns whether this call has made it."""
        with self._asked(name) as store:
            try:
                store.put(name, data, mode="create", use_multipart=False)
            except (library().exceptions.AlreadyExistsError, library().exceptions.PreconditionError):
                return False
            return True

    def replace(self, name: str, data: bytes) -> None:
        """Write an object in one request, whether there is one of this name or not."""
        with self._asked(name) as store:
            store.put(name, data, use_multipart=False)

    def content(self, name: str) -> Content | None:
        """Read a whole object, in pieces; None when there is none."""
        seen, size = hashlib.sha256(), 0
        with self._asked(name) as store:
            try:
                for piece in store.get(name).stream(PIECE_BYTES):
                    seen.update(piece)
                    size += len(piece)
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None
        return Content(size, seen.hexdigest())

    def read(self, name: str) -> bytes | None:
        """Return a small object; None when there is none."""
        with self._asked(name) as store:
            try:
                return bytes(store.get(name).bytes())
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def version(self, name: str) -> ObjectVersion | None:
        """Look at an object; None when there is none."""
        with self._asked(name) as store:
            try:
                found = store.head(name)
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None
        return ObjectVersion(found["size"], found["e_tag"] or "")

    def part(self, name: str, etag: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end`` of an object. Raises StateError when it is another version, or gone."""
        with self._asked(name) as store:
            try:
                return bytes(store.get(name, options={"range": (start, end), "if_match": etag}).bytes())
            except (library().exceptions.PreconditionError, FileNotFoundError) as error:
                if isinstance(error, FileNotFoundError):
                    self._check_bucket(error)
                raise StateError(
                    f"s3: {self.place}/{name} was replaced or removed while the job read it: put the old object back;"
                    " what a job reads must not change"
                ) from None

    def entries(self) -> list[tuple[str, bool]]:
        """List the folder itself: names, and whether each is a folder in it."""
        with self._asked("") as store:
            found = store.list_with_delimiter()
        folders = [(name.rpartition("/")[2], True) for name in found["common_prefixes"]]
        return folders + [(meta["path"], False) for meta in found["objects"]]

    def names(self, below: str = "") -> list[str]:
        """List all names in the folder, or in a folder in it, sorted. It shows what was created before the call."""
        with self._asked(below) as store:
            return sorted(meta["path"] for chunk in store.list(below or None) for meta in chunk)

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is no error."""
        with self._asked(name) as store:
            try:
                store.delete(name)
            except FileNotFoundError as error:
                self._check_bucket(error)

    def _check_bucket(self, error: FileNotFoundError) -> None:
        if NO_BUCKET in str(error):
            raise error

    @contextmanager
    def _asked(self, name: str) -> Iterator[Any]:
        known = library().exceptions
        with self._lock:
            if self._store is None:
                self._store = self._connect()
            store = self._store
        try:
            yield store
        except (known.BaseError, OSError) as error:
            text = str(error)
            kind = kind_of(text)
            self._store = None if kind is Unusable else self._store
            raise kind(f"s3: {self.place}{'/' if name else ''}{name}: {told(text)}") from None


def kind_of(text: str) -> type[StorageError]:
    """Return the class of an error by what the client says: NotThere for a bucket, Unusable, or StorageError."""
    if NO_BUCKET in text:
        return NotThere
    return Unusable if any(code in text for code in REFUSED) else StorageError


def told(text: str) -> str:
    """Return what a text of the client says: the store's code and message, or its first line; and what helps."""
    found = [re.search(rf"<{tag}>([^<]*)</{tag}>", text) for tag in ("Code", "Message")]
    said = ": ".join(match[1] for match in found if match) or TRIES.sub("", text.partition("\n")[0])
    helps = next((remedy for word, remedy in REMEDIES.items() if word in text), "")
    return said[:SHOWN_CHARS] + (f": {helps}" if helps else "")
