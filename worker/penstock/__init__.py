"""Penstock: stateful stream processing in Python.

The public API is what this file names. Names are looked up when first used: the operator and
the keeper import ``penstock.contract``, and must not pay for Arrow and numba to do so.
"""

__version__ = "0.1.0"
