"""Builds the loop of a user's function: syntax tree, LLVM, machine code.

Building takes 0.03 to 0.3 s, once in a process. Nothing is stored: no machine code and no pickle is ever loaded from
a file.
"""

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types

from penstock.contract.graph import MAIN
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.compiled.arithmetic import present
from penstock.steps.compiled.column_access import StateColumns, emit, keep, read_choices
from penstock.steps.compiled.frame_words import FrameWord
from penstock.steps.compiled.function_source import FunctionSource, function_source
from penstock.steps.compiled.held_kinds import (
    BOOL,
    NONE,
    Held,
    Maybe,
    NotKnownError,
    OutView,
    RecordView,
    StateView,
    spelled,
)
from penstock.steps.compiled.known_calls import LIBRARY
from penstock.steps.compiled.loop_writer import LOOP, LoopWriter
from penstock.steps.compiled.statements import Body

OPTIMIZED = 2  # the level of LLVM


class BuiltLoop:
    """A loop in machine code. A call releases the GIL."""

    def __init__(self, engine: Any, slots: Mapping[FrameWord, int]) -> None:
        """Keep the engine alive as long as its code."""
        self._engine = engine
        self.slots = slots
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address(LOOP))

    def run(self, frame: int) -> int:
        """Run records from the place in the frame at this address. Returns DONE, AGAIN, NO_ROOM or LOG_FULL."""
        return int(self._call(frame))


@dataclass(frozen=True, slots=True, eq=False)
class WrittenLoop:
    """The loop of a function as LLVM text, and the words of its frame."""

    text: str
    slots: Mapping[FrameWord, int]


def write_loop(function: Callable[..., Any], shape: CallShape, types: FunctionTypes) -> WrittenLoop:
    """Write the loop of a function.

    Raises RefusedError, with file and line of what is not known to compiled functions.
    """
    source = function_source(function)
    try:
        return _write(source, shape, types)
    except NotKnownError as error:
        raise source.refusal(source.tree, f"{error} is not known to compiled functions") from None


def _write(source: FunctionSource, shape: CallShape, types: FunctionTypes) -> WrittenLoop:
    m = LoopWriter()
    if types.state is not None and types.state.ttl_us is not None:
        raise NotKnownError(f"{types.state.name}, which has a ttl,")
    if types.ctx:
        raise NotKnownError("the argument ctx")
    if hasattr(types.record.python, "__post_init__"):
        raise NotKnownError(f"{types.record.name}, which has a __post_init__,")
    read_choices(m, types.record)
    columns = StateColumns(m, types.state)
    views: list[RecordView | StateView | OutView] = [RecordView(types.record)]
    if types.state is not None:
        views.append(StateView(types.state))
    if shape in (CallShape.FLAT_MAP, CallShape.PROCESS):
        assert types.main is not None, "a function that emits has a main output"
        views.append(OutView(types.main, types.sides))
    returned = Body(m, source, columns).run([Held(view) for view in views])
    _take_returned(m, shape, types, returned)
    m.end_record()
    return WrittenLoop(m.finish(), m.slots)


def build(written: WrittenLoop) -> BuiltLoop:
    """Make machine code of a loop."""
    return BuiltLoop(_engine(written.text), written.slots)


def _take_returned(m: LoopWriter, shape: CallShape, types: FunctionTypes, returned: Held) -> None:
    """Write what is done with the value that the function returns. Raises NotKnownError for one that Python refuses."""
    match shape:
        case CallShape.MAP:
            assert types.main is not None, "a map gives records"
            emit(m, MAIN, types.main, returned)
        case CallShape.FILTER:
            kept = present(m, returned)
            if kept.kind != BOOL:
                raise NotKnownError(f"returning {spelled(kept.kind)} from a filter")
            keep(m, kept)
        case _ if isinstance(returned.kind, Maybe):
            m.check(m.b.not_(returned.leaves[0]))
        case _ if returned.kind != NONE:
            raise NotKnownError(f"returning {spelled(returned.kind)} from a function that emits")


@cache
def _prepare() -> None:
    """Prepare LLVM for this processor, and show it the functions of the C library."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    library = ctypes.CDLL(math.__file__) if hasattr(math, "__file__") else ctypes.CDLL(None)
    for name in LIBRARY:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        binding.add_symbol(f"penstock_{name}", address)


def _target() -> Any:
    """Return LLVM's description of this processor. An engine takes it over."""
    _prepare()
    target = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=OPTIMIZED, jit=True)


def _engine(text: str) -> Any:
    machine = _target()
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=OPTIMIZED)
    # They take a third of the time, and no loop over records was seen to gain by them.
    options.loop_vectorization = options.slp_vectorization = False
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
