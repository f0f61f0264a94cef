"""Compiles kernels lazily, once per machine, into a cache of the project.

A kernel is a module function over arrays with one explicit signature. It is compiled, or loaded
from the cache on disk, at its first call; importing it costs nothing. The name of the cache folder is
a digest of all kernel sources, because a compiled kernel contains the helpers it calls, and numba
checks only the kernel's own file.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, update_wrapper
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numba
from llvmlite import binding, ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from penstock.model.kernels.place import BUILT_SUFFIX, LOCK_SUFFIX, folder_of_version

F = TypeVar("F", bound=Callable[..., Any])

# Input arrays are declared read-only: that accepts Arrow buffers and numpy arrays alike.
U8 = types.Array(types.uint8, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
F64 = types.Array(types.float64, 1, "C", readonly=True)
OUT_U8 = types.uint8[::1]
OUT_I32 = types.int32[::1]
OUT_I64 = types.int64[::1]
OUT_I64_2D = types.int64[:, ::1]
OUT_U64 = types.uint64[::1]
OUT_F64 = types.float64[::1]
INT = types.int64
VOID = types.void
tuple_of: Any = types.Tuple  # arrays that belong together travel as one argument
TEXT = tuple_of((I32, U8, U8, INT))  # offsets, bytes, validity bitmap, bit of row 0
WORDS = tuple_of((U64, U8, INT))  # fixed-width values, validity bitmap, bit of row 0


def helper(function: F) -> F:
    """Make a function callable from kernels, always inlined.

    A call would pass each array as seven machine words, which costs more than a whole look-up.
    """
    inlined: F = register_jitable(forceinline=True)(function)
    return inlined


class Kernel:
    """A compiled function that is built at its first call. Calls release the GIL."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        """Remember what to build; nothing is compiled here."""
        update_wrapper(self, function)
        self._function = function
        self._signature = signature
        self._compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        """Run the kernel. Raises TypeError when an argument is not of its declared type."""
        compiled = self._compiled
        if compiled is None:
            compiled = self.compile()
        return compiled(*args)

    def compile(self) -> Any:
        """Build the kernel now, or load it from the cache. Idempotent; takes 5 ms to 1 s."""
        if self._compiled is None:
            with _alone(self._function, wait=True):
                self._build()
        return self._compiled

    def try_compile(self) -> bool:
        """Like :meth:`compile`, but give up, and return False, while another process builds it."""
        if self._compiled is None:
            with _alone(self._function, wait=False) as alone:
                if alone:
                    self._build()
        return self._compiled is not None

    def is_cached(self) -> bool:
        """Return whether a process has built it for this processor. Loading then takes 5 ms."""
        return _mark(self._function).exists()

    def _build(self) -> None:
        self._compiled = self._compiled or _build(self._function, self._signature)
        _mark(self._function).touch()


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a function as a kernel with exactly these numba types."""
    return lambda function: Kernel(function, result(*arguments))


@contextmanager
def _alone(function: Callable[..., Any], *, wait: bool) -> Iterator[bool]:
    """Keep other processes from compiling the same kernel: later ones find it in the cache.

    Engines start together, and with an empty cache each would compile everything. The lock ends with
    its process. Without ``wait``, yields False when another process has the lock.
    """
    with (cache_folder() / f"{_name(function)}{LOCK_SUFFIX}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def _mark(function: Callable[..., Any]) -> Path:
    """Return the file that says: this numba has built the kernel for this processor."""
    config: Any = numba.config
    processor = config.CPU_NAME or binding.get_host_cpu_name()
    return cache_folder() / f"{_name(function)}.{numba.__version__}.{processor}{BUILT_SUFFIX}"


_BUILDING = Lock()  # numba's folder is a setting of the process: two builds would mix theirs


def _build(function: Callable[..., Any], signature: Any) -> Any:
    """Compile with the project's cache folder, leaving numba's own setting as it was.

    User code may use numba too: its cache must not move because ours did.
    """
    config: Any = numba.config
    with _BUILDING:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_folder())
        try:
            return njit(signature, cache=True, nogil=True, boundscheck=False, error_model="numpy")(function)
        finally:
            config.CACHE_DIR = before


@cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels, see :func:`folder_of_version`. Makes it if it is missing.

    If it cannot be made, the folder is a private temporary one. If it is read-only, as in an image, it
    is copied to a private temporary folder.
    """
    folder = folder_of_version()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: compile once per process rather than fail
        return Path(tempfile.mkdtemp(prefix="penstock-kernels-"))
    if os.access(folder, os.W_OK):
        return folder
    # The kernels of an image, which numba refuses to read where it may not write: a copy.
    copied = Path(tempfile.mkdtemp(prefix="penstock-kernels-"))
    return Path(shutil.copytree(folder, copied, dirs_exist_ok=True))


def _unaligned(bits: int) -> Any:
    """Make ``load(array, byte_index)``: little-endian bytes as one number, at any address."""

    @intrinsic
    def load(typing_context: Any, array: Any, index: Any) -> Any:
        result = types.uint64 if bits == 64 else types.uint32

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = context.make_array(signature.args[0])(context, builder, args[0])
            place = builder.gep(view.data, [args[1]])
            word = ir.IntType(bits)
            return builder.load(builder.bitcast(place, word.as_pointer()), align=1)

        return result(array, types.int64), generate

    return load


def _unaligned_store() -> Any:
    """Make ``store(array, byte_index, uint64)``: eight little-endian bytes at any address."""

    @intrinsic
    def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = context.make_array(signature.args[0])(context, builder, args[0])
            place = builder.gep(view.data, [args[1]])
            word = ir.IntType(64)
            builder.store(args[2], builder.bitcast(place, word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.uint64), generate

    return store


def _store_at(bits: int) -> Any:
    """Make ``store(address, number)``, which writes the low bits of a number to an address."""

    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            place = builder.inttoptr(args[0], word.as_pointer())
            number = args[1] if bits == 64 else builder.trunc(args[1], word)
            builder.store(number, place, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return store


_copy_bytes: Any = cgutils.raw_memcpy


def _copy_at(width: int) -> Any:
    """Make ``copy(address, array, byte_index, size)``, which copies bytes of an array to an address.

    With a ``width`` it always copies ``width`` bytes, in one or two moves, and ignores ``size``.
    """

    @intrinsic
    def copy(typing_context: Any, address: Any, array: Any, index: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = context.make_array(signature.args[1])(context, builder, args[1])
            source = builder.gep(view.data, [args[2]])
            if not width:
                target = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
                _copy_bytes(builder, target, source, args[3], 1)
                return context.get_dummy_value()
            words = ir.VectorType(ir.IntType(64), width // 8)
            target = builder.inttoptr(args[0], words.as_pointer())
            moved = builder.load(builder.bitcast(source, words.as_pointer()), align=1)
            builder.store(moved, target, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, array, types.int64, types.int64), generate

    return copy


def _trailing_zeros() -> Any:
    """Make ``trailing_zeros(uint64)``: the place of the lowest set bit."""

    @intrinsic
    def count(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    return count


def _prefetcher() -> Any:
    """Make ``prefetch(array, index)``, which asks the processor for the cache line of an item.

    Every index is allowed: the processor ignores addresses that it cannot read.
    """

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = context.make_array(signature.args[0])(context, builder, args[0])
            place = builder.bitcast(builder.gep(view.data, [args[1]]), ir.IntType(8).as_pointer())
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
            call = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
            builder.call(call, [place, word(0), word(3), word(1)])  # to read, keep, data
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    return prefetch


load32 = _unaligned(32)
load64 = _unaligned(64)
store64 = _unaligned_store()
store8_at, store32_at, store64_at = _store_at(8), _store_at(32), _store_at(64)
copy_at = _copy_at(0)
copy32_at = _copy_at(32)
trailing_zeros = _trailing_zeros()
prefetch = _prefetcher()


@helper
def is_valid(validity: Any, bit: int) -> bool:
    """Return whether an Arrow validity bit is set. In an empty bitmap every bit is set."""
    return bool(validity.size == 0 or (validity[bit >> 3] >> (bit & 7)) & 1)


@helper
def copy_bytes(source: Any, at: Any, size: Any, target: Any, to: Any) -> None:
    """Copy ``size`` bytes; writes nothing after them."""
    whole = size - (size & 7)
    for i in range(0, whole, 8):
        store64(target, to + i, load64(source, at + i))
    for i in range(whole, size):
        target[to + i] = source[at + i]
