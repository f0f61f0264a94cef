"""A table, topic or bucket that is not there: what a job does about it (decision 206).

It may come back soon: somebody replaces it, or its catalog restarts. So an attempt that misses it is given up and
counted, as ``spec.restart`` says, and the last one names what to do. A job that has no checkpoint yet has seen nothing
that could come back. It fails at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.errors import ConfigError, ConnectorError


class NotThere(ConnectorError):
    """What a connector reads or writes is not there. The text says what, and what to do."""


@contextmanager
def refused_at_first(*, first: bool) -> Iterator[None]:
    """Raise ConfigError for what is missing when it is looked for the ``first`` time in the life of a job."""
    try:
        yield
    except NotThere as error:
        if first:
            raise ConfigError(str(error)) from error
        raise
