"""Functions per record that nobody has written: programs for the compiler, drawn by Hypothesis.

A program is the source of ``def program(r, s, out)`` in a file of its own, as a compiled function needs its source.
Every construct that the compiler knows can come, with the values at its edges: the greatest whole numbers, zeros of
both signs, texts that are not ASCII, None. So most programs fail for some records, and Python's error is the right
answer.
"""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import penstock as ps

KINDS = ("A", "BB", "Ünd")


@ps.record
class Row:
    key: str
    a: int
    b: int | None
    x: float
    y: float | None
    t: str
    c: ps.Enum[KINDS]  # type: ignore[valid-type]
    flag: bool
    at: ps.Time


@ps.record
class Made:
    n: int
    x: float
    t: str
    m: int | None = None
    c: ps.Enum[KINDS] = "A"  # type: ignore[valid-type]
    flag: bool = False


@ps.state
class Kept:
    n: int = 0
    f: float = -0.0
    small: ps.int8 = 7
    half: ps.float32
    opt: int | None = 3
    mode: ps.Enum[KINDS] = "BB"  # type: ignore[valid-type]
    yes: bool = True
    last: ps.Ring[int, 3]  # type: ignore[valid-type]
    means: ps.Ring[float, 2]  # type: ignore[valid-type]
    idle: ps.Timer


INTS = st.sampled_from([0, 1, 2, 3, 5, 8, 63, 100, 127, 128, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1])
FLOATS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-300, 1e300, 2.0**53, 2.0**63, 0.1])
TEXTS = st.sampled_from(["", "a", "ab", "Ü", "BB", "abcabc", "x" * 20])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["k", "l"]),
            "a": st.one_of(st.integers(-5, 9), st.integers(-(2**63), 2**63 - 1)),
            "b": st.one_of(st.none(), st.integers(-3, 3)),
            "x": st.one_of(st.sampled_from([0.0, -0.0, 1.5, -2.5, 2.0**53]), st.floats()),
            "y": st.one_of(st.none(), st.floats(-9, 9)),
            "t": st.one_of(st.sampled_from(["", "a", "abc", "Ünd", "bca", "BB"]), st.text(max_size=12)),
            "c": st.sampled_from(KINDS),
            "flag": st.booleans(),
            "at": st.integers(0, 2**52),
        }
    ),
    min_size=1,
    max_size=12,
)


class Writer:
    """Writes one program. ``draw`` chooses."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        """Begin a program without variables."""
        self.draw = draw
        self.names: dict[str, list[str]] = {"int": [], "float": [], "bool": [], "text": []}
        self.count = itertools.count()

    def one(self, *ways: Callable[[], str]) -> str:
        return str(self.draw(st.sampled_from(ways))())

    def of(self, kind: str, depth: int) -> str:
        """Write an expression of a kind; ``number`` is a whole number or a float."""
        return str(getattr(self, f"_{kind}")(depth))

    def _known(self, kind: str) -> str:
        return str(self.draw(st.sampled_from(self.names[kind])))

    def _number(self, depth: int) -> str:
        return self.of(self.draw(st.sampled_from(["int", "float"])), depth)

    def _int(self, depth: int) -> str:
        leaves = st.sampled_from(["r.a", "r.a", "s.n", "s.small", "r.b", "s.opt", "r.at", "len(s.last)", "len(r.t)"])
        if self.names["int"] and self.draw(st.booleans()):
            return self._known("int")
        if depth <= 0:
            return self.one(lambda: str(self.draw(INTS)), lambda: str(self.draw(leaves)))
        less, each = depth - 1, self.of
        operator = st.sampled_from(["+", "-", "*", "//", "%", ">>", "&", "|", "^", "+", "-", "*"])
        return self.one(
            lambda: str(self.draw(leaves)),
            lambda: f"({each('int', less)} {self.draw(operator)} {each('int', less)})",
            # Python would make a whole number of as many bits as it is shifted by: up to 2**63.
            lambda: f"({each('int', less)} << min({each('int', less)}, {self.draw(st.sampled_from([31, 63, 130]))}))",
            lambda: f"-{each('int', 0)}",
            lambda: f"abs({each('int', less)})",
            lambda: f"{self.draw(st.sampled_from(['min', 'max']))}({each('int', less)}, {each('int', less)})",
            lambda: f"({each('int', less)} if {each('bool', less)} else {each('int', less)})",
            lambda: f"{self.draw(st.sampled_from(['int', 'round', 'math.floor', 'math.ceil']))}({each('float', less)})",
            lambda: f"s.last[{each('int', 0)}]",
            lambda: f"s.last.append({each('int', less)})",
            lambda: f"{each('text', 0)}.find({each('text', 0)})",
            lambda: f"len({each('text', less)})",
            lambda: f"helped({each('int', less)}, {each('int', less)})",
        )

    def _float(self, depth: int) -> str:
        if self.names["float"] and self.draw(st.booleans()):
            return self._known("float")
        leaves = st.sampled_from(["r.x", "r.x", "r.y", "s.f", "s.half"])
        if depth <= 0:
            return self.one(lambda: repr(self.draw(FLOATS)), lambda: str(self.draw(leaves)))
        less, each = depth - 1, self.of
        operator = st.sampled_from(["+", "-", "*", "/", "//", "%"])
        function = st.sampled_from(["sqrt", "exp", "log", "sin", "fabs", "log1p"])
        return self.one(
            lambda: str(self.draw(leaves)),
            lambda: f"({each('float', less)} {self.draw(operator)} {each('number', less)})",
            lambda: f"({each('int', less)} / {each('int', less)})",
            lambda: f"-{each('float', 0)}",
            lambda: f"abs({each('float', less)})",
            lambda: f"float({each('int', less)})",
            lambda: f"math.{self.draw(function)}({each('number', less)})",
            lambda: f"{self.draw(st.sampled_from(['min', 'max']))}({each('float', less)}, {each('float', less)})",
            lambda: f"({each('float', less)} if {each('bool', less)} else {each('float', less)})",
            lambda: f"s.means[{each('int', 0)}]",
            lambda: f"s.means.append({each('float', less)})",
            lambda: f"WEIGHTS[{each('int', 0)}]",
        )

    def _bool(self, depth: int) -> str:
        leaves = st.sampled_from(["r.flag", "s.yes", "r.b is None", "r.y is not None", "s.opt is None", "not s.idle"])
        if depth <= 0:
            return str(self.draw(leaves))
        less, each = depth - 1, self.of
        sign = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
        return self.one(
            lambda: str(self.draw(leaves)),
            lambda: f"({each('number', less)} {self.draw(sign)} {each('number', less)})",
            lambda: f"({each('int', 0)} {self.draw(sign)} {each('int', 0)} {self.draw(sign)} {each('int', 0)})",
            lambda: f"({each('text', less)} {self.draw(sign)} {each('text', less)})",
            lambda: f"({each('text', 0)} in {each('text', 0)})",
            lambda: f"{each('text', 0)}.{self.draw(st.sampled_from(['startswith', 'endswith']))}({each('text', 0)})",
            lambda: f"(not {each('bool', less)})",
            lambda: f"({each('bool', less)} {self.draw(st.sampled_from(['and', 'or']))} {each('bool', less)})",
            lambda: f"(r.c == {self.draw(st.sampled_from(KINDS))!r})",
            lambda: f"bool({each('number', less)})",
        )

    def _text(self, depth: int) -> str:
        if self.names["text"] and self.draw(st.booleans()):
            return self._known("text")
        leaves = st.sampled_from(["r.t", "r.t", "r.key", "r.c", "s.mode"])
        if depth <= 0:
            return self.one(lambda: repr(self.draw(TEXTS)), lambda: str(self.draw(leaves)))
        return self.one(
            lambda: str(self.draw(leaves)),
            lambda: f"r.t[{self.of('int', 0)}]",
            lambda: f"r.t[{self.draw(st.sampled_from(['', '0', '1', '-2', 's.n']))}:{self.of('int', 0)}]",
        )

    # --- Statements ---

    def block(self, depth: int, margin: str) -> list[str]:
        """Write one to three statements. A variable that is first set in them is not known behind them."""
        before = {kind: list(names) for kind, names in self.names.items()}
        lines = [line for _ in range(self.draw(st.integers(1, 3))) for line in self.statement(depth, margin)]
        self.names = before
        return lines

    def statement(self, depth: int, margin: str) -> list[str]:
        """Write a statement."""
        if depth > 0 and self.draw(st.integers(0, 3)) == 0:
            return self._compound(depth, margin)
        return [margin + line for line in self._simple()]

    def _simple(self) -> list[str]:
        each, draw = self.of, self.draw
        target = st.sampled_from([("s.n", "int"), ("s.f", "float"), ("s.small", "int"), ("s.yes", "bool")])
        more = st.sampled_from([("s.half", "float"), ("s.opt", "int"), ("s.f", "number"), ("s.n", "bool")])

        def assign() -> str:
            name, kind = draw(st.one_of(target, more))
            return f"{name} = {each(kind, 2)}"

        def augment() -> str:
            name, kind = draw(target)
            return f"{name} {draw(st.sampled_from(['+=', '-=', '*=']))} {each(kind, 1)}"

        def variable() -> str:
            kind = draw(st.sampled_from(["int", "float", "bool", "text"]))
            name = f"v{next(self.count)}"
            line = f"{name} = {each(kind, 2)}"
            self.names[kind].append(name)
            return line

        def made() -> str:
            extra = draw(st.sampled_from(["", ", r.b", ", None", ", s.opt, r.c", ", c=s.mode", ", flag=r.flag"]))
            return f"out.emit(Made({each('int', 2)}, {each('float', 2)}, {each('text', 1)}{extra}))"

        fixed = st.sampled_from(
            ["s.opt = None", "s.opt = r.b", "s.mode = r.c", "s.mode = 'A'", "s.last.clear()", "s.idle = None",
             "s.idle = r.at + ps.minutes(5)", "return", "raise ValueError(r.t)"]
        )  # fmt: skip
        return [self.one(assign, assign, augment, variable, made, made, lambda: str(draw(fixed)))]

    def _compound(self, depth: int, margin: str) -> list[str]:
        inner = margin + "    "
        kind = self.draw(st.sampled_from(["if", "else", "for", "ring", "while"]))
        if kind == "for":
            head = f"for i{depth} in range({self.draw(st.sampled_from(['3', '1, 4', '4, 0, -2', 'len(s.last)']))}):"
            return [margin + head, *self._loop(f"i{depth}", depth, inner)]
        if kind == "ring":
            return [f"{margin}for i{depth} in s.last:", *self._loop(f"i{depth}", depth, inner)]
        if kind == "while":
            name = f"w{next(self.count)}"
            lines = [
                f"{margin}{name} = 0",
                f"{margin}while {name} < 3 and {self.of('bool', 1)}:",
                f"{inner}{name} += 1",
            ]
            return [*lines, *self._loop(name, depth, inner)]
        lines = [f"{margin}if {self.of('bool', 2)}:", *self.block(depth - 1, inner)]
        return lines if kind == "if" else [*lines, f"{margin}else:", *self.block(depth - 1, inner)]

    def _loop(self, name: str, depth: int, margin: str) -> list[str]:
        self.names["int"].append(name)
        lines = self.block(depth - 1, margin)
        self.names["int"].remove(name)
        end = self.draw(st.sampled_from(["", "", "break", "continue"]))
        return [*lines, f"{margin}if {self.of('bool', 1)}:", f"{margin}    {end}"] if end else lines


HEAD = """import math

import numpy as np

import penstock as ps
from tests.property.typed_programs import Kept, Made, Row

WEIGHTS = np.array([0.5, -1.25, 3.0])


def helped(a: int, b: int) -> int:
    if a > b:
        return a - b
    return a * 2


def program(r: Row, s: Kept, out: ps.Out[Made]) -> None:
"""


@st.composite
def sources(draw: Any) -> str:
    """Draw the source of a module with a function ``program``."""
    writer = Writer(draw)
    lines = [line for _ in range(draw(st.integers(1, 3))) for line in writer.statement(2, "    ")]
    return HEAD + "\n".join(lines) + "\n"


def load(source: str, folder: Path, number: int) -> Any:
    """Return the function of a source, which is kept in a file."""
    path = folder / f"program_{number}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program
