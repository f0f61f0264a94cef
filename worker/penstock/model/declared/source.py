"""Where a class and its fields are written, so that an error can name file and line."""

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass
from types import FrameType

from penstock.base.user_code import short_path


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The file of a class, the line of its ``class`` or first decorator, and the lines of its fields.

    ``fields`` has a line for each annotated name, in order; a name that is written twice is there
    twice. It is empty if the source is not known.
    """

    file: str
    line: int
    fields: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> str:
        """Return the place of the class as ``file:line``."""
        return f"{short_path(self.file)}:{self.line}"

    def place_of(self, field: str) -> str:
        """Return the place of the last field with this name, or of the class."""
        line = next((n for name, n in reversed(self.fields) if name == field), self.line)
        return f"{short_path(self.file)}:{line}"

    def twice(self) -> str | None:
        """Return the first name that two fields have."""
        names = [name for name, _ in self.fields]
        return next((name for n, name in enumerate(names) if name in names[:n]), None)


def class_source(frame: FrameType) -> ClassSource:
    """Find the class whose decorator runs in ``frame``."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    lines = linecache.getlines(file, frame.f_globals)[line - 1 :]
    try:
        block = textwrap.dedent("".join(inspect.getblock(lines)))
        body = next(n for n in ast.parse(block).body if isinstance(n, ast.ClassDef)).body
    except (SyntaxError, IndentationError, StopIteration):
        return ClassSource(file, line)
    targets = (n.target for n in body if isinstance(n, ast.AnnAssign))
    return ClassSource(file, line, tuple((t.id, line + t.lineno - 1) for t in targets if isinstance(t, ast.Name)))
