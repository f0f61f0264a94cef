"""Client libraries that only some jobs need: they are imported when a connector is opened."""

from importlib import import_module
from typing import Any

from penstock.base.errors import ConfigError

REPORT = "this is a fault of Penstock: report it with the job's log"


def library(module: str, *, of: str, extra: str) -> Any:
    """Import a module that the extra ``extra`` of Penstock brings. ``of`` names the connector in the message.

    Raises ConfigError that names the extra when it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{of}: the client library is not installed: pip install 'penstock[{extra}]', on every worker"
        ) from error
