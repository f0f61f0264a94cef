"""Secrets of connectors: a job says where one is, and it is read for each connection."""

import os
from pathlib import Path

from penstock.base.errors import ConfigError, StorageError
from penstock.base.os_errors import storage_error
from penstock.contract import pod


def read_secret(place: str, option: str) -> str:
    """Return the secret at ``secret:NAME/KEY``, ``env:NAME`` or ``file:/path``, without the end of its line.

    ``option`` begins the text of errors. Raises ConfigError when there is none, StorageError when it cannot be read, or
    when a Secret is not there yet.
    """
    kind, _, name = place.partition(":")
    if kind == "env":
        try:
            return os.environ[name]
        except KeyError as error:
            raise ConfigError(
                f"{option}: there is no variable {name} in the environment of the workers: set it, in a cluster in"
                " spec.env with valueFrom.secretKeyRef"
            ) from error
    return _read(_mounted(name, option) if kind == "secret" else Path(name), option)


def _mounted(reference: str, option: str) -> Path:
    """Return the file of a key of a Secret. Raises ConfigError outside a cluster, StorageError without the key."""
    name, _, key = reference.partition("/")
    if pod.ENV_POD_NAME not in os.environ:
        raise ConfigError(
            f"{option}: secret:{reference} is a Secret of Kubernetes, and this is no pod: use env:NAME or file:/PATH"
        )
    file = Path(pod.below(os.environ.get(pod.ENV_ROOT, ""), f"{pod.SECRETS_FOLDER}/{name}/{key}"))
    if not file.exists():
        raise StorageError(
            f"{option}: there is no Secret {name} with the key {key} in the namespace of the job: make it, and the job"
            " goes on within two minutes"
        )
    return file


def _read(file: Path, option: str) -> str:
    try:
        return file.read_text().rstrip("\r\n")
    except FileNotFoundError as error:
        raise ConfigError(f"{option}: there is no file {file}: write the secret there, readable by the job") from error
    except OSError as error:
        raise storage_error(f"{option}: file {file}", error) from error
