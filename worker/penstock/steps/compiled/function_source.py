"""The source of a user's function as a syntax tree, only if it is what the function was made of."""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from penstock.base.user_code import short_path

_FUTURE = 0x1FE0000  # the flags of __future__


class RefusedError(Exception):
    """A function that is not compiled. The text begins with file and line."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function as a syntax tree; ``names`` has its globals and the values of its closure."""

    function: Callable[..., Any]
    tree: ast.FunctionDef
    names: dict[str, Any]

    def refusal(self, node: ast.AST, text: str) -> RefusedError:
        """Make the error of a place in the function."""
        line = getattr(node, "lineno", self.tree.lineno)
        return RefusedError(f"{short_path(self.function.__code__.co_filename)}:{line}: {text}")


def function_source(function: Callable[..., Any]) -> FunctionSource:
    """Read the source of a function. Raises RefusedError if it is not known, or has changed since the import."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise RefusedError(f"{function!r} is no function of Python")
    place = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
    try:
        text = "".join(inspect.findsource(code)[0])
        module = ast.parse(text)
    except (OSError, SyntaxError):
        raise RefusedError(f"{place}: the source of {code.co_name} cannot be read") from None
    if not any(_is_same(found, code) for found in _codes(text, code)):
        raise RefusedError(f"{place}: the source of {code.co_name} has changed since it was imported")
    found = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == code.co_name]
    trees = [n for n in found if min([n.lineno, *(d.lineno for d in n.decorator_list)]) == code.co_firstlineno]
    if len(trees) != 1:
        raise RefusedError(f"{place}: {code.co_name} is not written with def")
    names = {**getattr(function, "__globals__", {}), **inspect.getclosurevars(function).nonlocals}
    return FunctionSource(function, trees[0], names)


def _codes(text: str, code: CodeType) -> Iterator[CodeType]:
    """Compile a file as Python did, and give all functions in it. What a module imports changes their code."""
    flags = code.co_flags & _FUTURE
    left = [compile(text, code.co_filename, "exec", flags=flags, dont_inherit=True)]
    while left:
        found = left.pop()
        yield found
        left += [c for c in found.co_consts if isinstance(c, CodeType)]


def _is_same(found: CodeType, code: CodeType) -> bool:
    if (found.co_qualname, found.co_firstlineno) != (code.co_qualname, code.co_firstlineno):
        return False
    same = found.co_code == code.co_code and found.co_names == code.co_names and found.co_varnames == code.co_varnames
    return same and repr(found.co_consts) == repr(code.co_consts)
