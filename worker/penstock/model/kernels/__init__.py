"""Hot loops over arrays, compiled by numba: no Arrow objects, no state, no I/O.

The modules of ``model``, ``steps`` and ``state`` call them; each kernel documents its shapes. A
kernel is compiled, or loaded from the cache, at its first call. :mod:`penstock.engine.warm` loads
the kernels of a job before rows flow, so that no row waits for the compiler.
"""

from importlib import import_module
from pkgutil import iter_modules


def compile_all() -> int:
    """Compile all kernels, or load them from the cache on disk; return how many there are.

    Idempotent. Takes about 10 s on an empty cache, and under half a second later.
    """
    from penstock.model.kernels.jit import Kernel  # noqa: PLC0415 - numba's import costs half a second

    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    kernels = {each for module in modules for each in vars(module).values() if isinstance(each, Kernel)}
    for each in kernels:
        each.compile()
    return len(kernels)
