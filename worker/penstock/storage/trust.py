"""Reads a job's certificates and secret from the folder where its Secret is mounted."""

from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.contract.pod import CA_KEY, CERTIFICATE_KEY, PRIVATE_KEY, WORKER_KEY
from penstock.contract.trust import SECRET_BYTES_MIN, Credentials, Trust

FILE_BYTES_MAX = 256 * 1024


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
        raise ConfigError(
            f"{folder / WORKER_KEY}: {len(secret)} bytes; a key has at least {SECRET_BYTES_MIN}"
        )
    own = read_credentials(folder, host)
    return Trust(own.host, own.ca, own.certificate, own.key, secret)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not data or len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: {len(data)} bytes; 1 to {FILE_BYTES_MAX} are possible")
    return data
