"""Every operation that is compiled, on edge values, against Python: equal bit for bit, or Python runs the record."""

import importlib.util
import itertools
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.keyed_state.hot import HotTable
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.model.declared.record_types import record_type
from penstock.model.declared.state_types import state_type
from penstock.steps.base import StateSchema
from penstock.steps.compiled.building import build, write_loop
from penstock.steps.compiled.frames import CompiledRecords
from penstock.steps.compiled.function_source import RefusedError

WHOLE = [0, 1, -1, 2, -3, 7, 63, 64, 2**31, 2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-320, 0.1, -7.25, 2.0**53, 9.3e18, 1e300, -1e308, math.inf, -math.inf]
FLOATS.append(math.nan)
TEXTS = ["", "a", "ab", "abc", "b", "zebra-1", "12345678", "123456789", "ü", "aü", "日本", "\0", "a\0b"]

HEAD = """
import math
import penstock as ps

@ps.record
class Pair:
    a: int
    b: int
    x: float
    y: float
    t: str
    u: str

@ps.record
class Made:
    v: {kind}

@ps.state
class None_:
    n: int = 0

def f(r, s, out):
    out.emit(Made({expression}))
"""
INTS = [f"r.a {sign} r.b" for sign in ("+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^")]
INTS += ["-r.a", "abs(r.a)", "min(r.a, r.b)", "max(r.a, r.b)", "int(r.x)", "round(r.x)", "math.floor(r.x)"]
INTS += ["math.ceil(r.x)", "math.trunc(r.x)", "len(r.t)", "r.t.find(r.u)", "r.a if r.b > 3 else r.b", "(r.a, r.b)[1]"]
FLOAT = [f"r.{left} {sign} r.{right}" for sign in ("+", "-", "*", "/", "//", "%") for left, right in ("xy", "ay", "xb")]
FLOAT += ["r.a / r.b", "-r.x", "abs(r.x)", "min(r.x, r.y)", "max(r.x, r.y)", "float(r.a)", "math.fabs(r.x)"]
FLOAT += [
    f"math.{name}(r.x)" for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan")
]
FLOAT += ["math.asin(r.x)", "math.acos(r.x)", "math.atan(r.x)", "math.fmod(r.x, r.y)", "r.x * math.pi + r.y"]
SIGNS = ("==", "!=", "<", "<=", ">", ">=")
BOOLS = [f"r.{one} {sign} r.{two}" for sign in SIGNS for one, two in ("ab", "xy", "ay", "tu")]
BOOLS += [
    "not r.a",
    "not r.x",
    "not r.t",
    "r.a < r.b < 9",
    "r.a > 1 and r.x < 3.0",
    "r.a == 2 or r.t == 'ab'",
    "bool(r.x)",
]
BOOLS += ["r.t in r.u", "r.t not in r.u", "r.t.startswith(r.u)", "r.t.endswith(r.u)", "(r.a > 1) ^ (r.b > 1)"]
STRINGS = ["r.t", "r.t[0:2]", "r.t[1:]", "r.t[:-1]", "r.t[-2:9]", "r.t[r.a:r.b]", "r.t[0]", "r.t[-1]", "r.t or r.u"]
CASES = [("int", e) for e in INTS] + [("float", e) for e in FLOAT] + [("bool", e) for e in BOOLS]
CASES += [("str", e) for e in STRINGS]


def module(text: str, folder: Path) -> Any:
    path = folder / "program.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"program_{abs(hash(text))}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(autouse=True)
def no_modules_stay() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("program_"):
            del sys.modules[name]


def types_of(made: Any) -> FunctionTypes:
    record, state, main = record_type(made.Pair), state_type(made.None_), record_type(made.Made)
    assert record is not None
    assert state is not None
    assert main is not None
    return FunctionTypes(record, main, state)


def rows() -> list[dict[str, Any]]:
    pairs = itertools.product(WHOLE, WHOLE), itertools.product(FLOATS, FLOATS), itertools.product(TEXTS, TEXTS)
    columns = [list(found) for found in pairs]
    most = max(map(len, columns))
    cycled = [[column[n % len(column)] for n in range(most)] for column in columns]
    return [{"a": a, "b": b, "x": x, "y": y, "t": t, "u": u} for (a, b), (x, y), (t, u) in zip(*cycled, strict=True)]


def same(one: Any, other: Any) -> bool:
    if isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or struct.pack("d", one) == struct.pack("d", other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("kind", "expression"), CASES)
def test_an_operation_equals_python(kind: str, expression: str, tmp_path: Path) -> None:
    made = module(HEAD.format(kind=kind, expression=expression), tmp_path)
    types = types_of(made)
    assert types.state is not None
    given = rows()
    fields = {
        "a": pa.int64(),
        "b": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "t": pa.string(),
        "u": pa.string(),
    }
    batch = pa.RecordBatch.from_pylist(given, pa.schema(fields))
    table = HotTable(StateSchema("s", (("k", pa.string()),), types.state.columns))
    records = CompiledRecords(build(write_loop(made.f, CallShape.PROCESS, types)), types)
    assert records.reads(batch)
    calls = records.begin(batch, table, np.zeros(len(given), np.int32))
    for_python = set(iter(calls.next_for_python, None))
    emitted, emitters = calls.take("main")
    assert emitters.tolist() == [row for row in range(len(given)) if row not in for_python]
    for row, found in zip(emitters.tolist(), emitted.column(0).to_pylist(), strict=True):
        want: list[Any] = []
        out = type("Out", (), {"emit": staticmethod(want.append)})
        made.f(made.Pair(**given[row]), None, out)  # raises if Python does not know the value that was compiled
        expected = int(want[0].v) if kind == "int" else want[0].v
        assert same(found, expected), f"{expression}: {given[row]}: compiled {found!r}, Python {expected!r}"
    assert len(emitters) > len(given) // 20


REFUSED = [
    "r.a ** r.b",
    "round(r.x, 2)",
    "~r.a",
    "r.a + r.t",
    "True + 1",
    "str(r.a)",
    "[r.a]",
    "f'{r.a}'",
    "math.gamma(r.x)",
]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_not_listed_is_refused_by_file_and_line(expression: str, tmp_path: Path) -> None:
    made = module(HEAD.format(kind="int", expression=expression), tmp_path)
    with pytest.raises(RefusedError, match=r"program\.py:23: .* is not known to compiled functions"):
        write_loop(made.f, CallShape.PROCESS, types_of(made))


def test_a_source_that_has_changed_since_the_import_is_refused(tmp_path: Path) -> None:
    text = HEAD.format(kind="int", expression="r.a + 1")
    made = module(text, tmp_path)
    (tmp_path / "program.py").write_text(text.replace("r.a + 1", "r.a + 2"))
    with pytest.raises(RefusedError, match="has changed since it was imported"):
        write_loop(made.f, CallShape.PROCESS, types_of(made))
