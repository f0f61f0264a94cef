"""Statements of a user's function, and its local variables.

A variable is of one kind in the whole function, or also None. A function of the user that is called is written
in place, so a function that calls itself is refused.
"""

import ast
import builtins
from dataclasses import dataclass
from typing import Any

from penstock.steps.compiled import arithmetic
from penstock.steps.compiled.column_access import StateColumns
from penstock.steps.compiled.expressions import converted, evaluate, global_value, sign_of, truth
from penstock.steps.compiled.function_source import FunctionSource, RefusedError, function_source
from penstock.steps.compiled.held_kinds import (
    I1,
    I64,
    INT,
    NONE,
    NOTHING,
    VIEWS,
    Group,
    Held,
    Kind,
    NotKnownError,
    RingView,
    StateView,
    items_of,
    joined,
    spelled,
)
from penstock.steps.compiled.loop_writer import LoopWriter

DEPTH_MAX = 8  # functions that call functions


@dataclass(slots=True)
class _Variable:
    kind: Kind
    places: tuple[Any, ...]
    is_set: Any


@dataclass(frozen=True, slots=True)
class _Loop:
    again: Any
    end: Any


class Body:
    """One call of a function: its variables, and where its value goes."""

    def __init__(
        self, m: LoopWriter, source: FunctionSource, columns: StateColumns, outer: "Body | None" = None
    ) -> None:
        """Write to ``m``. ``columns`` has the state. ``outer`` is the call that makes this one."""
        self.m, self.source, self.columns = m, source, columns
        self._outer = outer
        self._depth: int = 0 if outer is None else outer._depth + 1
        self._variables: dict[str, _Variable] = {}
        self._fixed: dict[str, Held] = {}
        self._loops: list[_Loop] = []
        self._exit = m.block("returned")
        self._returned: list[tuple[Held, Any]] = []

    def refusal(self, node: ast.AST, text: str) -> RefusedError:
        """Make the error of a place in the function."""
        return self.source.refusal(node, text)

    # --- Variables ----------------------------------------------------------------------------

    def read(self, name: str) -> Held:
        """Return the value of a variable, a global or a builtin."""
        if name in self._fixed:
            return self._fixed[name]
        found = self._variables.get(name)
        if found is not None:
            self.m.check(self.m.b.load(found.is_set))
            return Held(found.kind, tuple(self.m.b.load(place) for place in found.places))
        if name in self.source.function.__code__.co_varnames:
            raise NotKnownError(f"{name}, which gets a value further down,")
        if name in self.source.names:
            return global_value(self, name, self.source.names[name])
        if hasattr(builtins, name):
            return global_value(self, name, getattr(builtins, name))
        raise NotKnownError(name)

    def assign(self, name: str, value: Held) -> None:
        """Give a variable a value. Raises NotKnownError if it is of another kind elsewhere."""
        if isinstance(value.kind, VIEWS) or name in self._fixed:
            raise NotKnownError(f"{name} = {spelled(value.kind)}")
        found = self._variables.get(name)
        if found is None:
            found = self._variables[name] = self._declare(value.kind)
        if joined(found.kind, value.kind) != found.kind:
            raise NotKnownError(f"{name}, which is {spelled(found.kind)} and then {spelled(value.kind)},")
        for leaf, place in zip(converted(value, found.kind).leaves, found.places, strict=True):
            self.m.b.store(leaf, place)
        self.m.b.store(I1(1), found.is_set)

    def _declare(self, kind: Kind) -> _Variable:
        if kind == NONE:
            raise NotKnownError("a variable that is None at first")
        is_set = self.m.local(I1)
        with self.m.b.goto_block(self._start):
            self.m.b.store(I1(0), is_set)
        return _Variable(kind, tuple(map(self.m.local, kind.leaves)), is_set)

    # --- The call -----------------------------------------------------------------------------

    def run(self, arguments: list[Held]) -> Held:
        """Write the function's body for these arguments; return its value."""
        parameters = self.source.tree.args
        names = [each.arg for each in parameters.args]
        if len(names) != len(arguments) or parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
            raise self.refusal(self.source.tree, "its parameters are not plain, which compiled functions need")
        self._start = self.m.block("start")
        inner = self.m.block("body")
        self.m.b.branch(self._start)
        self.m.b.position_at_end(inner)
        for name, value in zip(names, arguments, strict=True):
            if isinstance(value.kind, VIEWS):
                self._fixed[name] = value
            else:
                self.assign(name, value)
        self.block(self.source.tree.body)
        if _ends(self.source.tree.body):
            self.m.b.unreachable()
        else:
            self._return(NOTHING)
        with self.m.b.goto_block(self._start):
            self.m.b.branch(inner)
        return self._value()

    def _return(self, value: Held) -> None:
        if isinstance(value.kind, VIEWS):
            raise NotKnownError(f"returning {spelled(value.kind)}")
        self._returned.append((value, self.m.b.block))
        self.m.b.position_at_end(self.m.block("dead"))

    def _value(self) -> Held:
        """Join the values of all returns."""
        b = self.m.b
        kind = self._returned[0][0].kind if self._returned else NONE
        for value, _ in self._returned:
            kind = joined(kind, value.kind)
        ready = []
        for value, block in self._returned:
            b.position_at_end(block)
            ready.append((converted(value, kind), block))
            b.branch(self._exit)
        b.position_at_end(self._exit)
        phis = tuple(b.phi(leaf) for leaf in kind.leaves)
        for value, block in ready:
            for phi, leaf in zip(phis, value.leaves, strict=True):
                phi.add_incoming(leaf, block)
        return NOTHING if kind == NONE else Held(kind, phis)

    def inner(self, function: Any, arguments: list[Held]) -> Held:
        """Write a call of another function of the user."""
        outer: Body | None = self
        while outer is not None:
            if outer.source.function is function or self._depth >= DEPTH_MAX:
                raise NotKnownError(f"{function.__name__}, which calls itself or nests too deep,")
            outer = outer._outer
        return Body(self.m, function_source(function), self.columns, self).run(arguments)

    # --- Statements ---------------------------------------------------------------------------

    def block(self, nodes: list[ast.stmt]) -> None:
        """Write statements in order."""
        for node in nodes:
            try:
                self._statement(node)
            except NotKnownError as error:
                raise self.refusal(node, f"{error} is not known to compiled functions") from None

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value):
                if not isinstance(value, ast.Constant):
                    evaluate(self, value)
            case ast.Assign(targets, value):
                found = evaluate(self, value)
                for target in targets:
                    if not self._names_ring(node, target, found):
                        self._store(target, found)
            case ast.AugAssign(target, operator, value):
                before = evaluate(self, self._as_read(target))
                self._store(target, arithmetic.binary(self.m, sign_of(operator), before, evaluate(self, value)))
            case ast.If(test, body, orelse):
                self._if(test, body, orelse)
            case ast.For():
                self._for(node)
            case ast.While(test, body, []):
                self._while(test, body)
            case ast.Return(value):
                self._return(NOTHING if value is None else evaluate(self, value))
            case ast.Raise():
                self.m.fail()
            case ast.Break() | ast.Continue():
                loop = self._loops[-1]
                self.m.jump(loop.end if isinstance(node, ast.Break) else loop.again)
            case ast.Pass():
                pass
            case _:
                raise NotKnownError(ast.unparse(node).partition("\n")[0])

    def _names_ring(self, node: ast.Assign, target: ast.expr, value: Held) -> bool:
        """Take the target as another name of a ring, if it is one in the whole function."""
        if not isinstance(target, ast.Name) or not isinstance(value.kind, RingView) or target.id in self._variables:
            return False
        names = [n for n in ast.walk(self.source.tree) if isinstance(n, ast.Name) and n.id == target.id]
        if node not in self.source.tree.body or sum(isinstance(n.ctx, ast.Store) for n in names) > 1:
            return False
        self._fixed[target.id] = value
        return True

    def _as_read(self, target: ast.expr) -> Any:
        if isinstance(target, ast.Name):
            return ast.copy_location(ast.Name(target.id, ast.Load()), target)
        if isinstance(target, ast.Attribute):
            return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
        raise NotKnownError(ast.unparse(target))

    def _store(self, target: ast.expr, value: Held) -> None:
        match target:
            case ast.Name(name):
                return self.assign(name, value)
            case ast.Attribute(owner, name):
                view = evaluate(self, owner).kind
                fields = view.state.fields if isinstance(view, StateView) else ()
                for field in fields:
                    if field.name == name:
                        self.columns.put(field, value)
                        return None
            case ast.Tuple(parts) if _is_tuple_of(value.kind, len(parts)):
                for part, each in zip(parts, items_of(value), strict=True):
                    self._store(part, each)
                return None
        raise NotKnownError(ast.unparse(target))

    def _if(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        b = self.m.b
        then, other, end = (self.m.block(name) for name in ("then", "otherwise", "end_if"))
        b.cbranch(truth(self, evaluate(self, test)), then, other)
        for block, nodes in ((then, body), (other, orelse)):
            b.position_at_end(block)
            self.block(nodes)
            b.branch(end)
        b.position_at_end(end)

    def _while(self, test: ast.expr, body: list[ast.stmt]) -> None:
        b = self.m.b
        head, inner, end = (self.m.block(name) for name in ("while", "do", "end_while"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(truth(self, evaluate(self, test)), inner, end)
        b.position_at_end(inner)
        self._in_loop(body, _Loop(head, end))
        b.branch(head)
        b.position_at_end(end)

    def _in_loop(self, body: list[ast.stmt], loop: _Loop) -> None:
        self._loops.append(loop)
        self.block(body)
        self._loops.pop()

    def _for(self, node: ast.For) -> None:
        """Write a loop over ``range`` or over a ring."""
        if node.orelse:
            raise NotKnownError("for ... else")
        ring = None if _is_range(node.iter) else evaluate(self, node.iter).kind
        if ring is not None and not isinstance(ring, RingView):
            raise NotKnownError(f"a loop over {spelled(ring)}")
        start, stop, step = self._bounds(node.iter) if ring is None else (I64(0), I64(0), I64(1))
        b = self.m.b
        at = self.m.local(I64)
        b.store(start, at)
        head, inner, again, end = (self.m.block(name) for name in ("for", "do", "again_for", "end_for"))
        b.branch(head)
        b.position_at_end(head)
        now = b.load(at)
        limit = stop if ring is None else self.columns.ring_length(ring)
        rising, falling = b.icmp_signed("<", now, limit), b.icmp_signed(">", now, limit)
        b.cbranch(b.select(b.icmp_signed(">", step, I64(0)), rising, falling), inner, end)
        b.position_at_end(inner)
        self._store(node.target, Held(INT, (now,)) if ring is None else self.columns.ring_get(ring, now))
        self._in_loop(node.body, _Loop(again, end))
        b.branch(again)
        b.position_at_end(again)
        b.store(arithmetic.checked(self.m, "sadd", b.load(at), step), at)
        b.branch(head)
        b.position_at_end(end)

    def _bounds(self, node: Any) -> tuple[Any, Any, Any]:
        values = [arithmetic.present(self.m, evaluate(self, each)) for each in node.args]
        if any(value.kind != INT for value in values) or not 1 <= len(values) <= 3 or node.keywords:
            raise NotKnownError(ast.unparse(node))
        found = [value.only for value in values]
        if len(found) == 1:
            return I64(0), found[0], I64(1)
        step = found[2] if len(found) == 3 else I64(1)
        self.m.check(self.m.b.icmp_signed("!=", step, I64(0)))
        return found[0], found[1], step


def _is_tuple_of(kind: Kind, items: int) -> bool:
    return isinstance(kind, Group) and kind.record is None and len(kind.items) == items


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _ends(nodes: list[ast.stmt]) -> bool:
    """Return whether the end of these statements is never reached."""
    match nodes[-1] if nodes else None:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(_, body, orelse):
            return _ends(body) and _ends(orelse)
    return False
