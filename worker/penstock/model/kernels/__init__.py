"""Hot loops over arrays, compiled by numba: no Arrow objects, no state, no I/O.

The modules of ``model``, ``steps`` and ``state`` call them; each kernel documents its shapes. A
kernel is compiled, or loaded from the cache, at its first call. :mod:`penstock.engine.warm` loads
the kernels of a job before rows flow, so that no row waits for the compiler.
"""


def compile_all() -> int:
    """Compile all kernels, or load them from the cache on disk; return how many there are.

    Idempotent. Takes about 10 s on an empty cache, and under half a second later.
    """
    from penstock.model.kernels import (  # noqa: PLC0415 - numba's import costs half a second
        aggregate,
        arena,
        clock,
        due,
        first_rows,
        hash_table,
        intervals,
        jit,
        joins,
        key_bytes,
        ranks,
        routing,
        session_parts,
        slices,
        strings,
        timers,
        windows,
    )

    modules = (
        aggregate, arena, clock, due, first_rows, hash_table, intervals, joins, key_bytes, ranks, routing,
        session_parts, slices, strings, timers, windows,
    )  # fmt: skip
    kernels = [k for m in modules for k in vars(m).values() if isinstance(k, jit.Kernel)]
    for each in kernels:
        each.compile()
    return len(kernels)
