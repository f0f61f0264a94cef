"""How kernels are compiled: lazily, once per machine, into a cache that the project controls.

A kernel is a module function over arrays with one explicit signature. It is compiled, or loaded
from the cache on disk, at its first call; importing it costs nothing. The cache folder is named
by a digest of every kernel source, because a compiled kernel holds the code of the helpers it
calls and numba looks only at the kernel's own file.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic, register_jitable

F = TypeVar("F", bound=Callable[..., Any])

CACHE_ENV = "PENSTOCK_KERNEL_CACHE"

# Input arrays are declared read-only: that accepts Arrow buffers and numpy arrays alike.
U8 = types.Array(types.uint8, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
F64 = types.Array(types.float64, 1, "C", readonly=True)
OUT_U8 = types.uint8[::1]
OUT_U16 = types.uint16[::1]
OUT_U32 = types.uint32[::1]
OUT_I32 = types.int32[::1]
OUT_I64 = types.int64[::1]
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
            self._compiled = _build(self._function, self._signature)
        return self._compiled


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a function as a kernel with exactly these numba types."""
    return lambda function: Kernel(function, result(*arguments))


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
            return njit(signature, cache=True, nogil=True, boundscheck=False, error_model="numpy")(
                function
            )
        finally:
            config.CACHE_DIR = before


@cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels, made if need be.

    ``PENSTOCK_KERNEL_CACHE``, or ``penstock/kernels`` in the user's cache folder, or a private
    temporary folder where neither can be written; below it one folder per version of the sources.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = Path(os.environ.get(CACHE_ENV) or os.path.join(home, "penstock", "kernels"))
    folder = root / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: compile once per process rather than fail
        return Path(tempfile.mkdtemp(prefix="penstock-kernels-"))
    return folder


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


def _trailing_zeros() -> Any:
    """Make ``trailing_zeros(uint64)``: the place of the lowest set bit."""

    @intrinsic
    def count(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    return count


load32 = _unaligned(32)
load64 = _unaligned(64)
store64 = _unaligned_store()
trailing_zeros = _trailing_zeros()
