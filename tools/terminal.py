"""A small terminal, and pictures of what it showed: what ``tools/cast.py`` is made of.

The terminal knows what Penstock's own output uses: new lines, carriage returns, clearing a line,
moving up, and the colours of SGR. All else that begins with ESC is passed over.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ESCAPE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")
CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}
WIDTH, HEIGHT, MARGIN = 8.0, 18, 14
STYLE = """\
.t{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d4d7dd}
.b{font-weight:bold}.d{fill:#8b929e}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.c{fill:#79c0ff}\
"""

Cell = tuple[str, str]
Line = tuple[Cell, ...]


@dataclass(slots=True)
class Screen:
    """What a terminal shows. A cell is a character and the names of its style."""

    rows: list[list[Cell]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""
    rest: str = ""  # the begin of a sequence, whose end is yet to come

    def feed(self, text: str) -> None:
        """Take what a program wrote."""
        text, self.rest = self.rest + text, ""
        place = 0
        for found in ESCAPE.finditer(text):
            self._write(text[place : found.start()])
            self._command(found.group(1), found.group(2))
            place = found.end()
        last, escape, begun = text[place:].partition("\x1b")
        self._write(last)
        self.rest = escape + begun

    def lines(self) -> list[Line]:
        """Return the rows, each with cells of one style put together."""
        return [tuple(_joined(row)) for row in self.rows]

    def text(self) -> str:
        """Return the rows without their styles."""
        return "\n".join("".join(character for character, _ in row) for row in self.rows)

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row += 1
                self.column = 0
                self.rows += [[] for _ in range(self.row + 1 - len(self.rows))]
            else:
                self._put(character)

    def _put(self, character: str) -> None:
        row = self.rows[self.row]
        row += [(" ", "")] * (self.column + 1 - len(row))
        row[self.column] = (character, self.style)
        self.column += 1

    def _command(self, numbers: str, letter: str) -> None:
        if letter == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif letter == "K":
            self.rows[self.row].clear()
        elif letter == "m":
            names = [CLASSES.get(number, "") for number in numbers.split(";")]
            self.style = " ".join(name for name in names if name)


def _joined(row: Sequence[Cell]) -> Iterator[Cell]:
    text, style = "", ""
    for character, own in row:
        if own != style and text:
            yield text, style
            text = ""
        text, style = text + character, own
    if text.strip():
        yield text, style


@dataclass(frozen=True, slots=True)
class Frame:
    """What was to be seen from ``at_s`` on."""

    at_s: float
    lines: tuple[Line, ...]


def svg(frames: Sequence[Frame], end_s: float, columns: int) -> str:
    """Return a picture that plays the frames again and again; where nothing moves, the last one."""
    height = max(len(frame.lines) for frame in frames)
    box = f"{columns * WIDTH + 2 * MARGIN:g} {height * HEIGHT + 2 * MARGIN}"
    shown = "\n".join(_shown(line, row, frames, end_s) for row, line in _distinct(frames))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {box}" role="img">\n'
        f"<title>penstock run: a worker is killed, another one joins</title><style>{STYLE}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#14171c"/>\n{shown}\n</svg>\n'
    )


def _distinct(frames: Sequence[Frame]) -> Iterator[tuple[int, Line]]:
    """Give each line at each place once."""
    pairs = ((row, line) for frame in frames for row, line in enumerate(frame.lines) if line)
    yield from dict.fromkeys(pairs)


def _shown(line: Line, row: int, frames: Sequence[Frame], end_s: float) -> str:
    """Return a line with the moments at which it comes and goes."""
    there = [row < len(frame.lines) and frame.lines[row] == line for frame in frames]
    values, times = ["inline" if there[0] else "none"], ["0"]
    for before, now, frame in zip(there, there[1:], frames[1:], strict=False):
        if now != before:
            values.append("inline" if now else "none")
            times.append(f"{frame.at_s / end_s:.4f}")
    last = "inline" if there[-1] else "none"
    moves = "" if len(values) == 1 else _moves(";".join(values), ";".join(times), end_s)
    return f'<g display="{last}">{moves}{"".join(_spans(line, row))}</g>'


def _moves(values: str, times: str, end_s: float) -> str:
    return (
        f'<animate attributeName="display" calcMode="discrete" dur="{end_s:g}s" '
        f'repeatCount="indefinite" values="{values}" keyTimes="{times}"/>'
    )


def _spans(line: Line, row: int) -> Iterator[str]:
    column = 0
    y = MARGIN + row * HEIGHT + 13
    for text, style in line:
        bare = text.strip()
        if bare:
            x = MARGIN + (column + len(text) - len(text.lstrip())) * WIDTH
            names = f"t {style}".strip()
            yield (
                f'<text class="{names}" x="{x:g}" y="{y}" textLength="{len(bare) * WIDTH:g}" '
                f'xml:space="preserve">{html.escape(bare)}</text>'
            )
        column += len(text)
