"""Secrets of connectors: a job says where one is, and it is read for each connection."""

import os
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.base.os_errors import storage_error


def read_secret(place: str, option: str) -> str:
    """Return the secret at ``env:NAME`` or ``file:/path``, without the end of its line.

    ``option`` begins the text of errors. Raises ConfigError when there is none, StorageError when it cannot be read.
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
    try:
        return Path(name).read_text().rstrip("\r\n")
    except FileNotFoundError as error:
        raise ConfigError(f"{option}: there is no file {name}: write the secret there, readable by the job") from error
    except OSError as error:
        raise storage_error(f"{option}: file {name}", error) from error
