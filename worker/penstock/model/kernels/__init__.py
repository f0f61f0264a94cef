"""Hot loops over arrays, compiled by numba. No Arrow objects, no state, no I/O.

Callers are the modules of ``model``, ``steps`` and ``state``; each kernel says its shapes.
"""
