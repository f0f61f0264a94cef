"""Logs as JSON, one object per line."""

import json
import logging
import sys
from datetime import UTC, datetime

OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, and all plain values of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = {k: v for k, v in record.__dict__.items() if k not in OWN}
        line |= {k: v for k, v in extra.items() if isinstance(v, str | int | float | bool)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json(level: str) -> None:
    """Log everything as JSON to standard error; of Kopf's own lines only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("kopf", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
