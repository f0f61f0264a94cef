"""One line per change of state, as key=value; quiet at rest.

::

    2026-11-21T11:12:34.567Z keeper job=words worker=0 event="engine lost" reason="exit status 1"

The ids of a process come first in each of its lines: ``grep worker=0`` tells one's story.
"""

import json
import os
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

VALUE_CHARS_MAX = 2000
STANDARD_ERROR = 2

# What some readers take for the end of a line, and what steers a terminal, beside those that JSON
# always escapes: 8-bit controls, and characters that turn the direction of text.
_STEERS = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)
    )
}  # fmt: skip

Value = str | int | float | bool | None


class Log:
    """Writes lines with the same ids to one stream; used by any thread."""

    def __init__(self, component: str, ids: dict[str, Value], stream: TextIO | None = None) -> None:
        """Write to standard error unless another stream is given."""
        self._head = " ".join([component, *(f"{key}={_text(ids[key])}" for key in ids)])
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def say(self, event: str, **fields: Value) -> None:
        """Write one line. A reader that went away loses lines, nothing else."""
        parts = [f"{key}={_text(value)}" for key, value in fields.items()]
        self.line(" ".join([f"event={_text(event)}", *parts]))

    def line(self, text: str) -> None:
        """Write one line whose text is key=value already, as the pure cores spell their notes."""
        self._write(f"{_now()} {self._head} {text}\n")

    def quote(self, source: str, text: str) -> None:
        """Pass on a line that ``source`` has said, as it was said: people read it here."""
        self._write(f"{text}\n")

    def _write(self, line: str) -> None:
        # Half of a character, which texts of Python may have and files may not: no line is lost.
        whole = line.encode(errors="backslashreplace").decode()
        try:
            with self._lock:
                self._stream.write(whole)
                self._stream.flush()
        except (OSError, ValueError):
            return


class JsonLog(Log):
    """The same lines as one JSON object each, for the collectors of a cluster."""

    def __init__(self, component: str, ids: dict[str, Value], stream: TextIO | None = None) -> None:
        """Write to standard error unless another stream is given."""
        super().__init__(component, ids, stream)
        self._ids: dict[str, Value] = {"component": component, **ids}

    def say(self, event: str, **fields: Value) -> None:
        """Write one object with a field per value; the ids of the process go before its fields."""
        self._object({**fields, "event": event})

    def line(self, text: str) -> None:
        """Write one object whose ``message`` is the text of key=value."""
        self._object({"message": text})

    def quote(self, source: str, text: str) -> None:
        """Write one object: whatever the line looks like, it is a ``message`` of ``source``.

        No other object has this field: a collector can tell what a process says from what it only
        passes on, and user code can forge no field beside the two.
        """
        self._object({"source": source, "message": text})

    def _object(self, fields: dict[str, Value]) -> None:
        short = {key: value[:VALUE_CHARS_MAX] if isinstance(value, str) else value for key, value in fields.items()}
        plain = {"time": _now(), **short, **self._ids}
        self._write(_quoted(plain) + "\n")


class WrappedErrors:
    """Makes JSON of whatever a process writes to its standard error, gRPC's own lines among it.

    Libraries in C write to the descriptor itself, so it is the descriptor that is replaced, by a
    pipe that a thread reads. ``stream`` leads to where standard error led before: for a JsonLog.
    What is in the pipe when the process is killed is lost.
    """

    def __init__(self, component: str, ids: dict[str, Value]) -> None:
        """Begin; one for a process."""
        self.stream: TextIO = os.fdopen(os.dup(STANDARD_ERROR), "w", encoding="utf-8")
        reading, writing = os.pipe()
        os.dup2(writing, STANDARD_ERROR)
        os.close(writing)
        self._log = JsonLog(component, ids, self.stream)
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Write what is left and put standard error back; blocks for a second at most."""
        sys.stderr.flush()
        os.dup2(self.stream.fileno(), STANDARD_ERROR)
        self._reader.join(1.0)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip():
                    self._log.line(line.rstrip())


def _now() -> str:
    now = datetime.now(UTC)  # noqa: TID251 - a line carries the time that people's clocks show
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: Value) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    short = value if len(value) <= VALUE_CHARS_MAX else value[:VALUE_CHARS_MAX] + "…"
    plain = short.isascii() and short.isprintable() and short and not set(short) & set(' "=')
    return short if plain else _quoted(short)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_STEERS)
