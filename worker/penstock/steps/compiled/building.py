"""Builds the loop of a user's function: syntax tree, LLVM, machine code.

Building takes 0.14 to 0.46 s, once in a process. Nothing is stored: no machine code and no pickle is ever loaded from
a file.
"""

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types

from penstock.model.declared.record_types import RecordType
from penstock.model.declared.state_types import StateType
from penstock.steps.compiled.column_access import StateColumns
from penstock.steps.compiled.frame_words import FrameWord
from penstock.steps.compiled.function_source import RefusedError, function_source
from penstock.steps.compiled.held_kinds import Held, OutView, RecordView, StateView
from penstock.steps.compiled.known_calls import LIBRARY
from penstock.steps.compiled.loop_writer import LOOP, LoopWriter
from penstock.steps.compiled.statements import Body

OPTIMIZED = 2  # the level of LLVM


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """What a function of a ``process`` step takes: a record, the state of its key, and an output."""

    record: RecordType
    state: StateType
    main: RecordType
    sides: tuple[tuple[str, RecordType], ...] = ()


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


def build(function: Callable[..., Any], shape: ProcessShape, level: int = OPTIMIZED) -> BuiltLoop:
    """Build the loop of a function of a ``process`` step.

    Raises RefusedError, with file and line of what is not known to compiled functions.
    """
    m = LoopWriter()
    source = function_source(function)
    if hasattr(shape.record.python, "__post_init__"):
        raise RefusedError(f"{shape.record.place}: a __post_init__ is not known to compiled functions")
    columns = StateColumns(m, shape.state)
    views = (RecordView(shape.record), StateView(shape.state), OutView(shape.main, shape.sides))
    Body(m, source, columns).run([Held(view) for view in views])
    m.end_record()
    return BuiltLoop(_engine(m.finish(), level), m.slots)


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


def _engine(text: str, level: int) -> Any:
    machine = _target()
    module = binding.parse_assembly(text)
    module.verify()
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=level))
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
