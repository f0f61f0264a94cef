"""Decides whether a function with types is compiled."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from penstock.base.errors import ConfigError
from penstock.contract.call_types import CompileChoice
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.compiled.building import BuiltLoop, WrittenLoop, build, write_loop
from penstock.steps.compiled.frames import CompiledRecords
from penstock.steps.compiled.function_source import RefusedError

Function = Callable[..., Any]
FUNCTIONS_KEPT = 256


def refusal(function: Function, shape: CallShape, types: FunctionTypes) -> str | None:
    """Return why a function is not compiled, with file and line; None if it is. Builds no machine code."""
    written = _written(function, shape, types)
    return written if isinstance(written, str) else None


def compiled(
    choice: CompileChoice, function: Function, shape: CallShape, types: FunctionTypes
) -> CompiledRecords | None:
    """Return the machine code of a function, or None if Python runs it.

    A function is built once in a process. Raises ConfigError for one that must be compiled and cannot be.
    """
    if choice is CompileChoice.NEVER:
        return None
    written = _written(function, shape, types)
    if isinstance(written, str):
        if choice is CompileChoice.REQUIRE:
            raise ConfigError(f"compiled=require: {written}")
        return None
    return CompiledRecords(_built(written), types)


@lru_cache(FUNCTIONS_KEPT)
def _written(function: Function, shape: CallShape, types: FunctionTypes) -> WrittenLoop | str:
    try:
        return write_loop(function, shape, types)
    except RefusedError as error:
        return str(error)


@lru_cache(FUNCTIONS_KEPT)
def _built(written: WrittenLoop) -> BuiltLoop:
    return build(written)
