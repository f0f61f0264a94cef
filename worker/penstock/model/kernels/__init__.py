"""Hot loops over arrays, compiled by numba. No Arrow objects, no state, no I/O.

Callers are the modules of ``model``, ``steps`` and ``state``; each kernel says its shapes. A
kernel is built, or loaded from the cache, at its first call: an engine calls :func:`compile_all`
before it joins, so that no row ever waits for a compiler.
"""


def compile_all() -> int:
    """Build all kernels, or load them from the cache on disk; return how many there are.

    Idempotent. Takes about 10 s on an empty cache, and under half a second later.
    """
    from penstock.model.kernels import (  # noqa: PLC0415 - numba's import costs half a second
        aggregate,
        arena,
        clock,
        due,
        encode,
        gather,
        jit,
        routing,
        table,
        validate,
        windows,
        words,
        xxhash,
    )

    modules = (
        *(aggregate, arena, clock, due, encode, gather),
        *(routing, table, validate, windows, words, xxhash),
    )
    kernels = [k for m in modules for k in vars(m).values() if isinstance(k, jit.Kernel)]
    for each in kernels:
        each.compile()
    return len(kernels)
