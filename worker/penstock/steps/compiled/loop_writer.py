"""Writes the LLVM function of one loop: memory, checks and the undo log.

The function runs the user's function for one record after the other:

    entry ──> head ──> record ──> user code ──> next ──> head ... ──> done
                                      │
                     a check that fails: again, no_room, log_full
                                      v
                                   failed: undo the record, return its place

Every write to a state goes through :meth:`LoopWriter.write`, which logs what was there before. Rows that the record
has emitted are dropped by setting the counters of the outputs back. So nothing of an undone record is left.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from penstock.steps.compiled.frame_words import (
    AGAIN,
    DONE,
    HEADER,
    LOG,
    LOG_FULL,
    LOG_ROOM,
    LOG_WORDS,
    NO_ROOM,
    PLACE,
    ROWS,
    STATE_ROWS,
    FrameWord,
)
from penstock.steps.compiled.held_kinds import F64, I1, I8, I32, I64, Held

LOOP = "penstock_loop"
_WORD = 8
_UNLIKELY = (1 << 20, 1)


class LoopWriter:
    """The LLVM function of a loop in the making. ``b`` is the builder at the current place."""

    def __init__(self) -> None:
        """Begin the function. User code is written to ``b``."""
        self.module = ir.Module("penstock_user")
        self.function = ir.Function(self.module, ir.FunctionType(I64, [I64]), LOOP)
        self.slots: dict[FrameWord, int] = {}
        self._counters: dict[FrameWord, tuple[Any, Any]] = {}  # the count, and what it was before the record
        self._made: dict[str, Any] = {}
        self.choices: dict[str, Held] = {}  # texts of Enums of the record, by field
        names = ("entry", "head", "record", "next", "again", "no_room", "log_full", "failed", "done")
        self._blocks = {name: self.function.append_basic_block(name) for name in names}
        self._entry = ir.IRBuilder(self._blocks["entry"])
        self.b = ir.IRBuilder(self._blocks["record"])
        self._frame = self.function.args[0]
        self._row = self._local_word(self._word(PLACE))
        self._rows, self._log, self._log_room = self._word(ROWS), self._word(LOG), self._word(LOG_ROOM)
        self.state_rows = self._word(STATE_ROWS)
        self._logged = self.local(I64)
        self.b.store(I64(0), self._logged)
        self.row = self.b.load(self._row)

    # --- Memory -------------------------------------------------------------------------------

    def _word(self, number: int) -> Any:
        """Return a word of the frame as it is when the loop begins."""
        return self._entry.load(self._pointer(self._entry, self._frame, number, I64))

    def _local_word(self, value: Any) -> Any:
        made = self._entry.alloca(I64)
        self._entry.store(value, made)
        return made

    @staticmethod
    def _pointer(builder: Any, address: Any, number: int, kind: Any) -> Any:
        return builder.inttoptr(builder.add(address, I64(number * _WORD)), kind.as_pointer())

    def slot(self, slot: FrameWord) -> Any:
        """Return the number of a slot. It does not change while the loop runs."""
        known = self._made.get(repr(slot))
        if known is None:
            number = self.slots.setdefault(slot, HEADER + len(self.slots))
            known = self._made[repr(slot)] = self._word(number)
        return known

    def counter(self, slot: FrameWord) -> Any:
        """Return the place of a count of an output. An undone record leaves it as it was."""
        if slot not in self._counters:
            number = self.slots.setdefault(slot, HEADER + len(self.slots))
            self._counters[slot] = self._local_word(self._word(number)), self._local_word(I64(0))
        return self._counters[slot][0]

    def local(self, kind: Any) -> Any:
        """Make a local variable. It has no value yet."""
        return self._entry.alloca(kind)

    def load(self, address: Any, kind: Any, index: Any = None) -> Any:
        """Load item ``index`` of an array of ``kind`` at an address. It need not be aligned."""
        pointer = self.b.inttoptr(address, kind.as_pointer())
        return self.b.load(pointer if index is None else self.b.gep(pointer, [index]), align=1)

    def store(self, value: Any, address: Any, index: Any = None) -> None:
        """Store item ``index`` of an array. This cannot be undone."""
        pointer = self.b.inttoptr(address, value.type.as_pointer())
        self.b.store(value, pointer if index is None else self.b.gep(pointer, [index]), align=1)

    def write(self, value: Any, address: Any, index: Any) -> None:
        """Store item ``index`` of an array of the state. An undone record leaves it as it was."""
        pointer = self.b.gep(self.b.inttoptr(address, value.type.as_pointer()), [index])
        before = self.b.load(pointer, align=1)
        if isinstance(before.type, ir.IntType):
            width = before.type.width // 8
        else:
            width = 8 if before.type == F64 else 4
            before = self.b.bitcast(before, ir.IntType(width * 8))
        before = before if width == _WORD else self.b.zext(before, I64)
        logged = self.b.load(self._logged)
        self.branch_unless(self.b.icmp_unsigned("<", logged, self._log_room), "log_full")
        entry = self.b.add(self._log, self.b.mul(logged, I64(LOG_WORDS * _WORD)))
        for word, each in enumerate((self.b.ptrtoint(pointer, I64), before, I64(width))):
            self.store(each, entry, I64(word))
        self.b.store(self.b.add(logged, I64(1)), self._logged)
        self.b.store(value, pointer, align=1)

    def constant(self, kind: Any, items: Any, name: str) -> Any:
        """Return an LLVM global with constant items. The same name is the same global."""
        found = self.module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(self.module, ir.ArrayType(kind, len(items)), name)
            found.initializer = ir.Constant(found.type.pointee, items)
            found.global_constant, found.linkage = True, "private"
        return found

    def address(self, made: Any) -> Any:
        """Return the address of an LLVM global."""
        return self.b.ptrtoint(made, I64)

    # --- Control ------------------------------------------------------------------------------

    def check(self, holds: Any) -> None:
        """Undo the record and have Python run it, unless ``holds``."""
        self.branch_unless(holds, "again")

    def check_room(self, holds: Any) -> None:
        """Undo the record and repeat it with more room, unless ``holds``."""
        self.branch_unless(holds, "no_room")

    def branch_unless(self, holds: Any, block: str) -> None:
        """Go to one of the blocks that undo, unless ``holds``."""
        on = self.function.append_basic_block("on")
        branch = self.b.cbranch(holds, on, self._blocks[block])
        branch.set_weights(_UNLIKELY)
        self.b.position_at_end(on)

    def fail(self) -> None:
        """Undo the record, and have Python run it. Code that follows is never reached."""
        self.jump(self._blocks["again"])

    def jump(self, block: Any) -> None:
        """Go to a block. Code that follows is never reached."""
        self.b.branch(block)
        self.b.position_at_end(self.function.append_basic_block("dead"))

    def block(self, name: str) -> Any:
        """Make a block."""
        return self.function.append_basic_block(name)

    def end_record(self) -> None:
        """Go to the next record. Code that follows is never reached."""
        self.jump(self._blocks["next"])

    @contextmanager
    def helper(self, name: str, result: Any, arguments: tuple[Any, ...]) -> Iterator[Any]:
        """Write another function of the module. The builder stands in it meanwhile."""
        made = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        made.linkage = "private"
        before, self.b = self.b, ir.IRBuilder(made.append_basic_block("entry"))
        yield made
        self.b = before

    def once(self, name: str, write: Callable[[str], Any]) -> Any:
        """Return the function ``name`` of the module, which ``write`` makes when it is first needed."""
        found = self.module.globals.get(name)
        return write(name) if found is None else found

    def outside(self, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
        """Declare a function that the process has under this name."""
        found = self.module.globals.get(name)
        return ir.Function(self.module, ir.FunctionType(result, arguments), name) if found is None else found

    # --- The loop around the user's function --------------------------------------------------

    def finish(self) -> str:
        """Write the loop around the user's code, and return the module as text."""
        blocks = self._blocks
        self._entry.branch(blocks["head"])
        self._write_head()
        b = ir.IRBuilder(blocks["next"])
        b.store(b.add(b.load(self._row), I64(1)), self._row)
        b.branch(blocks["head"])
        self._write_failed()
        self._write_end(ir.IRBuilder(blocks["done"]), I64(DONE))
        for block in self.function.blocks:
            if not block.is_terminated:  # only what is never reached
                ir.IRBuilder(block).unreachable()
        return str(self.module)

    def _write_head(self) -> None:
        b = ir.IRBuilder(self._blocks["head"])
        for count, before in self._counters.values():
            b.store(b.load(count), before)
        more = b.icmp_signed("<", b.load(self._row), self._rows)
        b.cbranch(more, self._blocks["record"], self._blocks["done"])

    def _write_failed(self) -> None:
        b = ir.IRBuilder(self._blocks["failed"])
        status = b.phi(I64)
        for name, code in (("again", AGAIN), ("no_room", NO_ROOM), ("log_full", LOG_FULL)):
            ir.IRBuilder(self._blocks[name]).branch(self._blocks["failed"])
            status.add_incoming(I64(code), self._blocks[name])
        undo, undone = self.block("undo"), self.block("undone")
        b.branch(undo)
        self._write_undo(ir.IRBuilder(undo), undo, undone)
        b = ir.IRBuilder(undone)
        for count, before in self._counters.values():
            b.store(b.load(before), count)
        self._write_end(b, status)

    def _write_undo(self, b: Any, undo: Any, undone: Any) -> None:
        """Write the entries of the log back, the newest first."""
        logged = b.load(self._logged)
        entry = self.block("entry_of_log")
        b.cbranch(b.icmp_signed(">", logged, I64(0)), entry, undone)
        b = ir.IRBuilder(entry)
        number = b.sub(logged, I64(1))
        b.store(number, self._logged)
        words = b.inttoptr(b.add(self._log, b.mul(number, I64(LOG_WORDS * _WORD))), I64.as_pointer())
        address, before, width = (b.load(b.gep(words, [I64(n)])) for n in range(LOG_WORDS))
        chosen = b.switch(width, self.block("never"))
        for size in (1, 2, 4, 8):
            one = self.block(f"bytes_{size}")
            chosen.add_case(I64(size), one)
            c, kind = ir.IRBuilder(one), ir.IntType(size * 8)
            value = before if size == _WORD else c.trunc(before, kind)
            c.store(value, c.inttoptr(address, kind.as_pointer()), align=1)
            c.branch(undo)

    def _write_end(self, b: Any, status: Any) -> None:
        """Write the counts and the place to the frame, and return."""
        b.store(b.load(self._row), self._pointer(b, self._frame, PLACE, I64))
        for slot, (count, _) in self._counters.items():
            b.store(b.load(count), self._pointer(b, self._frame, self.slots[slot], I64))
        b.ret(status)

    # --- Small things -------------------------------------------------------------------------

    def state_row(self) -> Any:
        """Return the row of the record's key in the state table."""
        return self.b.sext(self.load(self.state_rows, I32, self.row), I64)

    def prefetch(self, address: Any, ahead: int, width: int) -> None:
        """Ask the processor for a column of ``width`` bytes at the state row of a record further on."""
        last = self.b.sub(self._rows, I64(1))
        later = self.b.add(self.row, I64(ahead))
        later = self.b.select(self.b.icmp_signed("<", later, last), later, last)
        row = self.b.sext(self.load(self.state_rows, I32, later), I64)
        place = self.b.inttoptr(self.b.add(address, self.b.mul(row, I64(width))), I8.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, I32, I32, I32])
        self.b.call(
            self.module.declare_intrinsic("llvm.prefetch", (place.type,), kind), [place, I32(1), I32(3), I32(1)]
        )

    def both(self, *holds: Any) -> Any:
        """Return whether all bits are set."""
        found = I1(1)
        for each in holds:
            found = self.b.and_(found, each)
        return found
