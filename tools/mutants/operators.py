"""Faults that a machine makes: small changes of the source of one file, each at one place.

| name | change |
| --- | --- |
| negate | the condition of an ``if`` or ``while`` is inverted |
| all-any | ``all`` for ``any``, and the other way round |
| edge | ``<`` for ``<=``, ``>`` for ``>=``, and the other way round |
| and-or | ``and`` for ``or``, and the other way round |
| drop-call | a statement that is only a call does nothing |
| off-by-one | a small whole number is one more |
| min-max | ``min`` for ``max``, and the other way round |
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.mutants.table import Fault

_SWAPPED = {"all": "any", "any": "all", "min": "max", "max": "min"}
_EDGES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_SMALL = 64  # larger numbers are sizes, of which one more or less means nothing
_TELLING = ("log.", "logging.", "self._log.", "warnings.")  # these calls tell people something


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of the source, by lines and columns as ``ast`` counts them, and its replacement."""

    operator: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def faults_of(file: str, source: str, tests: Iterable[str]) -> list[Fault]:
    """Return all faults that the operators make in ``source``; ``tests`` should notice each."""
    tree, named = ast.parse(source), tuple(tests)
    edits = [edit for node in ast.walk(tree) for edit in _edits(node, source)]
    edits.sort(key=lambda edit: (edit.start, edit.operator, edit.text))
    found = []
    for edit in edits:
        changed = _changed(source, edit)
        line, column = edit.start
        name = f"{edit.operator}:{file.removeprefix('worker/penstock/')}:{line}:{column}"
        if ast.dump(ast.parse(changed)) != ast.dump(tree):
            found.append(Fault(name, file, source, changed, source.splitlines()[line - 1].strip(), named))
    return found


def _changed(source: str, edit: Edit) -> str:
    lines = source.encode().splitlines(keepends=True)
    before = b"".join(lines[: edit.start[0] - 1]) + lines[edit.start[0] - 1][: edit.start[1]]
    after = lines[edit.end[0] - 1][edit.end[1] :] + b"".join(lines[edit.end[0] :])
    return (before + edit.text.encode() + after).decode()


def _edits(node: ast.AST, source: str) -> Iterator[Edit]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Constant) and ast.unparse(test) != "TYPE_CHECKING":
                yield _over("negate", test, f"(not ({ast.get_source_segment(source, test)}))")
        case ast.Call(func=ast.Name(id=name) as called) if name in _SWAPPED:
            yield _over("all-any" if name in {"all", "any"} else "min-max", called, _SWAPPED[name])
        case ast.Compare(ops=[operator], left=left, comparators=[right]) if type(operator) in _EDGES:
            yield from _edge(operator, left, right, source)
        case ast.BoolOp():
            yield _and_or(node, source)
        case ast.Expr(value=ast.Call() as call) if not ast.unparse(call.func).startswith(_TELLING):
            yield _over("drop-call", node, "pass")
        case ast.Constant(value=int(number)) if type(node.value) is int and 0 <= number <= _SMALL:
            yield _over("off-by-one", node, str(number + 1))


def _over(operator: str, node: ast.expr | ast.stmt, text: str) -> Edit:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Edit(operator, (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _edge(operator: ast.cmpop, left: ast.expr, right: ast.expr, source: str) -> Iterator[Edit]:
    sign, other = _EDGES[type(operator)]
    start = (left.end_lineno or 0, left.end_col_offset or 0)
    between = Edit("edge", start, (right.lineno, right.col_offset), "")
    text = _text(source, between)
    if text.count(sign) == 1:
        yield Edit("edge", between.start, between.end, text.replace(sign, other))


def _text(source: str, edit: Edit) -> str:
    lines = source.encode().splitlines(keepends=True)[edit.start[0] - 1 : edit.end[0]]
    last = len(lines) - 1
    lines[last] = lines[last][: edit.end[1]]
    lines[0] = lines[0][edit.start[1] :]
    return b"".join(lines).decode()


def _and_or(node: ast.BoolOp, source: str) -> Edit:
    other = " or " if isinstance(node.op, ast.And) else " and "
    parts = [f"({ast.get_source_segment(source, value)})" for value in node.values]
    return _over("and-or", node, f"({other.join(parts)})")
